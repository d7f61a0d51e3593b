"""Paths of a study's files, each defined once. A rule of the workflow passes wildcards such as "{backbone}" for names.

The order of the companions' training data stands beside their folders."""

from cocal.companion.spec import Order
from cocal_study.config.method import Experience

COMPANIONS = {"rollouts": "grpo", "resampled": "postcal", "prompts": "prompts", "online": "online"}
"""Name of the companions' folder, and of the variant that fits them, for each kind of training data."""
ORDERS: dict[Experience, Order] = {
    "rollouts": "chronological",
    "resampled": "shuffled",
    "prompts": "chronological",
    "online": "online",
}
"""Order of the training data of each experience: CoCal replays the policy's rollouts or their prompts in chronological
order, PostCal shuffles responses of the final policy (appendices A.1, B.2 and F.4), and online companions see each
rollout step when it is produced (section 4.1)."""
SOURCES = "results/sources"
"""Folder of the files that mark a source of questions as downloaded and, by default, of the downloads."""
QUESTIONS = "results/questions"
JUDGEMENTS = "results/judgements"
"""Cached replies of a judge; jobs share them."""
JUDGE = "results/judge.json"
"""The file that is written when a judge from the hub has been downloaded."""
OVERLAP = "results/checks/overlap.csv"
LANDING = "results/verdict.html"
"""The page on which the report opens."""
VERDICT = "results/verdict.txt"
"""The verdict on the paper in a few lines, of which the first one answers whether it reproduces."""

benchmark_file = "results/benchmarks/{}/{}.tsv".format
"""Time of a job, as Snakemake measures it, by its rule and its own name."""
source_file = "results/sources/{}.json".format
"""The file that is written when a registered source has been downloaded, by the name of the source."""
questions_file = "results/questions/{}.parquet".format
"""The questions of a set, by its name."""
training_folder = "results/policies/{}/{}".format
"""Policies of one training, by backbone and algorithm, or under the algorithm "base" the backbone itself."""
policy_folder = "results/policies/{}/{}/step-{}".format
"""A checkpoint, by backbone, algorithm and step."""
rollouts_folder = "results/rollouts/{}/{}".format
"""Rollouts of a training, by backbone and algorithm, or PostCal's responses under "postcal"."""
responses_folder = "results/responses/{}/{}/step-{}/{}".format
"""Evaluation responses, by backbone, algorithm, step and prompt format; those to one set lie in `responses_file`."""
responses_file = "results/responses/{}/{}/step-{}/{}/{}.parquet".format
features_folder = "results/features/{}/{}/step-{}/{}".format
"""Hidden states of evaluation responses, named as these are; those of one set lie in `features_file`."""
features_file = "results/features/{}/{}/step-{}/{}/{}.zarr".format
variant_folder = "results/companions/{}/{}".format
"""Companions by backbone and variant (`cocal_study.planning.variants`), or the online ones."""
online_file = "results/online/{}.parquet".format
"""Scores of a backbone's online and replayed companions on the step after those that they have learnt from."""
calibrators_file = "results/recalibration/{}/{}/step-{}.json".format
"""The fitted calibrators of the baselines on a policy, by backbone, algorithm and step."""
cost_file = "results/costs/{}/{}.json".format
"""Measured costs, by backbone and kind of work."""
checks_file = "results/checks/{}.json".format
"""The report of the checks that a backbone kept the protocol."""


def states_file(backbone: str, algorithm: str, of: str = "rollouts") -> str:
    """Hidden states of the "rollouts" of a training, or of their "prompts"."""
    return f"results/features/{backbone}/{algorithm}/{of}.zarr"


def companion_folder(backbone: str, experience: str) -> str:
    """Folder of the companions that learnt from "rollouts", "resampled" responses, "prompts" or "online"."""
    return variant_folder(backbone, COMPANIONS[experience])


def predictions_file(backbone: str, algorithm: str, step: int | str, kind: str = "") -> str:
    """Predictions on the responses of a checkpoint, or of a comparison on it such as "-sweep"."""
    return f"results/predictions/{backbone}/{algorithm}/step-{step}{kind}.parquet"


def metrics_file(backbone: str, kind: str = "") -> str:
    """Metric cube of a backbone, for its main cells or for a kind of comparison such as "-sweep"."""
    return f"results/metrics/{backbone}{kind}.nc"


def resamples_file(backbone: str, kind: str = "") -> str:
    """Metrics of every resample behind the cube `metrics_file`."""
    return f"results/resamples/{backbone}{kind}.nc"


def table_file(name: str, ending: str = "tex") -> str:
    """A table in one of its forms: tex, csv, html."""
    return f"results/tables/{name}.{ending}"


def figure_file(name: str, ending: str = "pdf") -> str:
    """A figure in one of its forms: pdf, png, csv."""
    return f"results/figures/{name}.{ending}"


def run_folder(*words: str) -> str:
    """Folder of a job's unfinished work, from which its next attempt resumes."""
    return "/".join(("results/runs", *words))
