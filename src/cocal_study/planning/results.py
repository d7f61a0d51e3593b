"""Places of a study's files, each said once. A rule of the workflow passes wildcards such as "{backbone}" for names."""

COMPANIONS = {"rollouts": "grpo", "resampled": "postcal", "prompts": "prompts", "online": "online"}
"""Name of the companions' folder, and of the variant that fits them, for each kind of training data."""
SOURCES = "results/sources"
"""Folder of what says that a source of questions is here, and by default of its files."""
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


BENCHMARKS = "results/benchmarks"
"""Times of jobs, as Snakemake measures them, in a folder for each rule."""


def benchmark_file(rule: str, job: str) -> str:
    """Time of a job."""
    return f"{BENCHMARKS}/{rule}/{job}.tsv"


def source_file(source: str) -> str:
    """The file that is written when a registered source has been downloaded."""
    return f"{SOURCES}/{source}.json"


def questions_file(dataset: str) -> str:
    """The questions of a set."""
    return f"{QUESTIONS}/{dataset}.parquet"


def training_folder(backbone: str, algorithm: str) -> str:
    """Folder of the policies of one training, or of the backbone itself under the algorithm "base"."""
    return f"results/policies/{backbone}/{algorithm}"


def policy_folder(backbone: str, algorithm: str, step: int | str) -> str:
    """A checkpoint."""
    return f"{training_folder(backbone, algorithm)}/step-{step}"


def rollouts_folder(backbone: str, algorithm: str) -> str:
    """Rollouts of a training, or PostCal's responses under "postcal"."""
    return f"results/rollouts/{backbone}/{algorithm}"


def states_file(backbone: str, algorithm: str, of: str = "rollouts") -> str:
    """Hidden states of the "rollouts" of a training, or of their "prompts"."""
    return f"results/features/{backbone}/{algorithm}/{of}.zarr"


def responses_folder(backbone: str, algorithm: str, step: int | str, prompt_format: str) -> str:
    """Evaluation responses of a checkpoint in a prompt format."""
    return f"results/responses/{backbone}/{algorithm}/step-{step}/{prompt_format}"


def responses_file(backbone: str, algorithm: str, step: int | str, prompt_format: str, dataset: str) -> str:
    """Evaluation responses of a checkpoint to one question set."""
    return f"{responses_folder(backbone, algorithm, step, prompt_format)}/{dataset}.parquet"


def kept_folder(backbone: str, algorithm: str, step: int | str, prompt_format: str, domain: str) -> str:
    """Hidden states of evaluation responses that the engine kept while it generated them."""
    return f"results/kept/{backbone}/{algorithm}/step-{step}/{prompt_format}/{domain}"


def features_folder(backbone: str, algorithm: str, step: int | str, prompt_format: str) -> str:
    """Hidden states of evaluation responses in a prompt format."""
    return f"results/features/{backbone}/{algorithm}/step-{step}/{prompt_format}"


def features_file(backbone: str, algorithm: str, step: int | str, prompt_format: str, dataset: str) -> str:
    """Hidden states of the evaluation responses to one question set."""
    return f"{features_folder(backbone, algorithm, step, prompt_format)}/{dataset}.zarr"


def variant_folder(backbone: str, variant: str) -> str:
    """Folder of the companions of a variant (`cocal_study.planning.variants`), or of the online ones."""
    return f"results/companions/{backbone}/{variant}"


def companion_folder(backbone: str, experience: str) -> str:
    """Folder of the companions that learnt from "rollouts", "resampled" responses, "prompts" or "online"."""
    return variant_folder(backbone, COMPANIONS[experience])


def online_file(backbone: str) -> str:
    """Scores of the online and of the replayed companions on the step after those that they have learnt from."""
    return f"results/online/{backbone}.parquet"


def predictions_file(backbone: str, algorithm: str, step: int | str, kind: str = "") -> str:
    """Predictions on the responses of a checkpoint, or of a comparison on it such as "-sweep"."""
    return f"results/predictions/{backbone}/{algorithm}/step-{step}{kind}.parquet"


def calibrators_file(backbone: str, algorithm: str, step: int | str) -> str:
    """The fitted calibrators of the rivals on a policy."""
    return f"results/recalibration/{backbone}/{algorithm}/step-{step}.json"


def metrics_file(backbone: str, kind: str = "") -> str:
    """Metric cube of a backbone, for its main cells or for a kind of comparison such as "-sweep"."""
    return f"results/metrics/{backbone}{kind}.nc"


def resamples_file(backbone: str, kind: str = "") -> str:
    """Metrics of every resample behind the cube `metrics_file`."""
    return f"results/resamples/{backbone}{kind}.nc"


def cost_file(backbone: str, what: str) -> str:
    """Measured costs of a kind of work."""
    return f"results/costs/{backbone}/{what}.json"


def checks_file(backbone: str) -> str:
    """The report of the checks that a backbone kept the protocol."""
    return f"results/checks/{backbone}.json"


def table_file(name: str, ending: str = "tex") -> str:
    """A table in one of its forms: tex, csv, html."""
    return f"results/tables/{name}.{ending}"


def figure_file(name: str, ending: str = "pdf") -> str:
    """A figure in one of its forms: pdf, png, csv."""
    return f"results/figures/{name}.{ending}"


def run_folder(*words: str) -> str:
    """Folder of a job's unfinished work, from which its next attempt resumes."""
    return "/".join(("results/runs", *words))
