"""The plans of the smoke and the paper study, compared with a table of what each product must be made from."""

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import started
from cocal.store.damage import product_of, remedy

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("descent.txt")

SMOKE = {
    "BACKBONES": "smoke smoke-deep",
    "A": "smoke",
    "B": "smoke-deep",
    "TRAINING": "smoke-train.parquet",
    "MATHEMATICS": "smoke-large.parquet smoke-small.parquet",
    "FACTUAL": "smoke-facts.parquet",
    "SEVERAL": "smoke-small.parquet",
    "STAGES": "2 4",
    "EARLY": "1 2",
    "WINDOWS": "window-1 window-2",
    "SMALLER_BUDGETS": "steps-1-validation-4 steps-2-validation-4",
    "STATES_A": "0/last+mean 1/last 1/mean",
    "STATES_B": "0/last+mean 1/last+mean 2/last 2/mean",
    "JUDGE": "",
}
PAPER = {
    "BACKBONES": "qwen3-8b qwen3-14b",
    "A": "qwen3-8b",
    "B": "qwen3-14b",
    "TRAINING": "deepscaler.parquet",
    "MATHEMATICS": "math500.parquet aime24.parquet aime25.parquet amc23.parquet amc24.parquet",
    "FACTUAL": "squad.parquet webq.parquet cwq.parquet musique.parquet popqa.parquet",
    "SEVERAL": "aime24.parquet aime25.parquet amc23.parquet amc24.parquet",
    "STAGES": "40 80 120",
    "EARLY": "5 10 20 30 40",
    "WINDOWS": "window-1 window-10",
    "SMALLER_BUDGETS": " ".join(f"steps-{steps}-validation-120" for steps in (1, 2, 5, 10, 20, 40, 80)),
    "STATES_A": " ".join([*(f"{layer}/last+mean" for layer in range(35)), "35/last", "35/mean"]),
    "STATES_B": " ".join([*(f"{layer}/last+mean" for layer in range(39)), "39/last", "39/mean"]),
    "JUDGE": "judge.json",
}
STUDIES = {"smoke": SMOKE, "paper": PAPER}
WITHOUT_SOURCES = ("questions/", "sources/", "policies/", "judge.json", "checks/overlap.csv", "tables/hyperparameters")
"""Products at the ends of the lineage; their lines are left out of the table unless they are trained policies."""


@dataclass(frozen=True)
class Job:
    """A planned job: its rule, its declared inputs and outputs, and the words of its command."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    words: tuple[str, ...]

    def flag(self, name: str) -> str:
        """The word after a flag."""
        return self.words[self.words.index(name) + 1]

    @property
    def reads(self) -> set[str]:
        """What the command is given of results/: declared inputs, and the parts of declared folders that it names."""
        unsaid, found = {file for file in self.inputs if file.startswith("results/")}, set()
        for path in self._paths():
            below = {file for file in self.inputs if file == path or file.startswith(f"{path}/")}
            parts = {folder for folder in self.inputs if path.startswith(f"{folder}/")}
            assert below or parts, f"{self.rule} reads {path}, which is not among its inputs {self.inputs}"
            unsaid -= below | parts
            found |= below or {path}
        return found | unsaid

    def _paths(self) -> set[str]:
        """Paths in results/ that the command names, without those that it writes."""
        written = {
            "--run-folder",
            "--judgements",
            "--cache",
            "--output",
            "--stages",
            "--cost",
            "--output-features",
            "--resamples",
            "--output-calibrators",
            "--output-companions",
        }
        written |= {"--rollouts"} if any(file.startswith("results/rollouts/") for file in self.outputs) else set()
        pairs = zip(("", *self.words), self.words, strict=False)
        named = [word.rpartition("=")[2] for flag, word in pairs if flag not in written]
        return {path for path in named if re.match(r"results/[^{]*$", path)}


@cache
def jobs(study: str) -> list[Job]:
    """The jobs that `snakemake` plans for a study from nothing, in an empty folder."""
    command = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", str(ROOT / f"config/{study}.yaml")]
    command += ["--dry-run", "--printshellcmds", "--forceall", "--workflow-profile", "none", "--cores", "2"]
    with TemporaryDirectory() as folder:
        done = started.snakemake(command, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    found = []
    for block in (done.stdout + done.stderr).split("\n\n"):
        if heading := re.search(r"^(?:local)?rule (\w+):$", block, re.M):
            fields = dict(re.findall(r"^    (input|output): (.*)$", block, re.M))
            files = [tuple(fields[key].split(", ")) if key in fields else () for key in ("input", "output")]
            shell = re.search(r"^Shell command: (.*)", block, re.M | re.S)
            words = shlex.split(re.split(r" (?:2>&1|>) ", shell[1])[0]) if shell else []
            found.append(Job(heading[1], *files, tuple(words)))
    return found


def _values(study: str) -> dict[str, list[str]]:
    values = {name: text.split() for name, text in STUDIES[study].items()}
    values |= {"ALGORITHMS": ["grpo", "rlcr", "dcpo"], "COUPLED": ["rlcr", "dcpo"]}
    values |= {"FIRST": values["STAGES"][:1], "EARLIER": values["STAGES"][:-1], "FINAL": values["STAGES"][-1:]}
    values["LATER"] = values["STAGES"][1:]
    for name in ("MATHEMATICS", "FACTUAL"):
        values[f"{name}_STATES"] = [file.replace(".parquet", ".zarr") for file in values[name]]
    return values


def _expanded(entry: str, values: dict[str, list[str]]) -> list[str]:
    """An entry of the table for all alternatives, with the values of its words in capitals."""
    single = {name: found[0] if found else "" for name, found in values.items() if len(found) < 2}
    word = re.compile(rf"(?<![A-Z_])({'|'.join(sorted(single, key=len, reverse=True))})(?![A-Z_])")

    def choices(part: str) -> list[str]:
        names = part[1:-1].split(",") if part.startswith("{") else [part]
        return [value for name in names for value in values.get(name, [word.sub(lambda found: single[found[1]], name)])]

    return ["".join(words) for words in product(*map(choices, re.split(r"(\{[^}]*\})", entry)))]


def table(study: str) -> dict[str, set[str]]:
    """The parents of each product, from the table."""
    values, found = _values(study), {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        bound = sorted(set(re.findall(r"<(\w+)>", line)))
        for chosen in product(*(values[name] for name in bound)):
            text = line
            for name, value in zip(bound, chosen, strict=True):
                text = text.replace(f"<{name}>", value)
            child, *parents = text.split()
            everything = {f"results/{path}" for entry in parents for path in _expanded(entry, values) if path}
            for one in _expanded(child, values):
                found.setdefault(f"results/{one}", set()).update(everything)
    return found


@pytest.mark.parametrize("study", STUDIES)
def test_every_product_is_made_from_what_the_table_says(study):
    wanted, seen = table(study), set()
    for job in jobs(study):
        for output in job.outputs:
            if output in wanted:
                assert job.reads == wanted[output], f"{output}, made by {job.rule}"
                seen.add(output)
    assert seen == set(wanted), "the plan lacks products of the table"


@pytest.mark.parametrize("study", STUDIES)
def test_every_planned_product_stands_in_the_table(study):
    forms = {".csv", ".html", ".png"}  # further forms of a table or figure
    made = {file for job in jobs(study) for file in job.outputs if Path(file).suffix not in forms}
    ends = [f"results/{name}" for name in (*WITHOUT_SOURCES, "tables/all", "figures/paradigms", "figures/overview")]
    assert {file for file in made - set(table(study)) if not file.startswith(tuple(ends))} == set()


# What commands are told: numbers of the paper's protocol (appendices A and B) that no path carries.

SAMPLES = {
    "smoke": {"smoke-large": 1, "smoke-small": 4, "smoke-facts": 1},
    "paper": {"math500": 1, "aime24": 10, "aime25": 10, "amc23": 10, "amc24": 10}
    | dict.fromkeys(("squad", "webq", "cwq", "musique", "popqa"), 1),
}
LENGTHS = {
    "smoke": dict.fromkeys(SAMPLES["smoke"], 64),
    "paper": {"math500": 4096, **dict.fromkeys(("aime24", "aime25", "amc23", "amc24"), 16384)}
    | dict.fromkeys(("squad", "webq", "cwq", "musique", "popqa"), 4096),
}
POOL = {"smoke": 4, "paper": 10}
JUDGE = {"smoke": "exact-match", "paper": "llm"}


@pytest.mark.parametrize("study", STUDIES)
def test_responses_are_sampled_as_often_and_as_long_as_the_paper_says(study):
    seen = set()
    for job in jobs(study):
        if job.rule in ("responses", "factual_responses"):
            prompt_format, algorithm = job.flag("--prompt-format"), job.flag("--algorithm")
            final = job.flag("--step") == _values(study)["FINAL"][0]
            pooled = prompt_format == "answer" and final
            for name, how in json.loads(job.flag("--plan"))["sets"].items():
                assert how["samples"] == SAMPLES[study][name]
                assert how["sampled"] == (POOL[study] if pooled else SAMPLES[study][name]), (name, job)
                assert how["max_response_length"] == LENGTHS[study][name]
                assert (how["pool"], how["p_true"]) == (pooled, pooled), (name, prompt_format, algorithm)
                seen.add(name)
            judge = JUDGE[study] if job.rule == "factual_responses" else "exact-match"
            assert json.loads(job.flag("--judge"))["kind"] == judge
    assert seen == set(SAMPLES[study])


@pytest.mark.parametrize("study", STUDIES)
def test_all_evaluated_responses_are_read_and_scored(study):
    for job in jobs(study):
        if "--samples" in job.words:
            samples = json.loads(job.flag("--samples"))
            files = {Path(path).stem for path in job.reads if "/responses/" in path}
            assert files == set(samples), job
            assert samples == {name: SAMPLES[study][name] for name in samples}
        if job.rule == "latency":
            wanted = {Path(name).stem for name in _values(study)["MATHEMATICS"]}
            assert json.loads(job.flag("--datasets")) == {name: LENGTHS[study][name] for name in wanted}


@pytest.mark.parametrize("study", STUDIES)
def test_an_error_advises_to_delete_what_the_workflow_makes_again(study, tmp_path, monkeypatch):
    """It would not notice that a single file of a folder is gone."""
    monkeypatch.chdir(tmp_path)
    for output in {output for job in jobs(study) for output in job.outputs if output.startswith("results/")}:
        inner = "part/file" if not Path(output).suffix or output.endswith(".zarr") else ""
        assert product_of(Path(output, inner)) == Path(output)
        assert (f"delete {output} and rerun" if inner else "delete it and rerun") in remedy(Path(output, inner))


@pytest.mark.parametrize("study", STUDIES)
def test_commands_name_the_cell_whose_files_they_read(study):
    for job in jobs(study):
        backbones = {path.split("/")[2] for path in job.reads if path.split("/")[1] in ("policies", "responses")}
        if "--backbone" in job.words and not job.flag("--backbone").startswith("{"):
            assert backbones <= {job.flag("--backbone")}, job
        if job.rule in ("backbone", "existing_backbone"):
            assert job.outputs == (f"results/policies/{job.flag('--name')}/base/step-0",)
        if "--step" in job.words:
            cell = f"{job.flag('--backbone')}/{job.flag('--algorithm')}/step-{job.flag('--step')}"
            assert any(cell in path for path in job.reads), job
            assert all(cell in output for output in job.outputs), job


@pytest.mark.parametrize("study", STUDIES)
def test_features_have_the_states_that_are_compared(study):
    """All layers where figures/layers compares them, else the final one; RLCR's response ends before its reason."""
    values, seen = _values(study), set()
    final, first = values["FINAL"][0], values["A"][0]
    for job in jobs(study):
        if job.rule in ("features", "factual_features"):
            _, _, backbone, algorithm, step, prompt_format, _ = job.outputs[0].split("/")
            at_end = (algorithm, step) == ("grpo", f"step-{final}")
            layers = "all" if at_end and job.rule == "features" else "final"
            assert json.loads(job.flag("--settings"))["layers"] == layers, job
            assert ("--task-response" in job.words) == (prompt_format == "rlcr"), job
            assert ("--prompt" in job.words) == (at_end and backbone == first), job
            seen.add(layers)
        if job.rule == "prompt_features":
            assert json.loads(job.flag("--settings"))["layers"] == "final"
    assert seen == {"all", "final"}


@pytest.mark.parametrize("study", STUDIES)
def test_policies_are_trained_by_the_settings_of_their_algorithm(study):
    for job in jobs(study):
        if job.rule in ("train", "train_coupled"):
            algorithm = job.outputs[0].split("/")[3]
            assert job.flag("--algorithm") == algorithm
            assert list(json.loads(job.flag("--settings"))["max_response_length"]) == [algorithm]
            kept = {"layers": "all"}.items() <= json.loads(job.flag("--features")).items()
            assert (kept, "--output-features" in job.words) == (algorithm == "grpo", algorithm == "grpo")


@pytest.mark.parametrize("study", STUDIES)
def test_companions_learn_in_the_order_of_their_experience(study):
    values = _values(study)
    final, first = values["FINAL"][0], values["A"][0]
    budgets = {word.removeprefix("steps-").replace("-validation-", "/") for word in values["SMALLER_BUDGETS"]}
    steps = {"companions": budgets | {*values["STAGES"], *values["EARLY"]}, "postcal_companions": budgets | {final}}
    for job in jobs(study):
        if job.rule.endswith("companions"):
            words = job.words[job.words.index("--steps") + 1 :]
            own = set(words[: next(i for i, w in enumerate(words) if w.startswith("--"))])
            wanted = steps.get(job.rule, {final}) if f"/{first}/" in job.outputs[0] else {final}
            assert own == wanted, job
        if job.rule == "companions":
            assert job.flag("--order") == "chronological"
        if job.rule == "postcal_companions":
            assert (job.flag("--order"), job.flag("--shuffle-seed")) == ("shuffled", "42")
        if job.rule == "prompt_companions":
            assert "--prompts" in job.words
            assert json.loads(job.flag("--settings"))["targets"] == ["question"]
        if job.rule == "ablation_companions":
            assert json.loads(job.flag("--settings"))["targets"] == ["binary"]


@pytest.mark.parametrize("study", STUDIES)
def test_metrics_have_the_macro_averages_seeds_and_bins_of_the_paper(study):
    values = _values(study)
    sets = {f"macro-{name.lower()}": {Path(f).stem for f in values[name]} for name in ("MATHEMATICS", "FACTUAL")}
    sweeps = {"sweep_metrics": ["source_step"], "budget_metrics": ["source_step"]}
    sweeps |= {"ablation_metrics": ["layer", "pooling"], "cross_policy_metrics": [], "metrics": []}
    sweeps |= {"recalibrated_metrics": []}
    for job in jobs(study):
        if job.rule in sweeps:
            groups = {name: set(members) for name, members in json.loads(job.flag("--groups")).items()}
            both = job.rule == "recalibrated_metrics" or f"results/metrics/{values['A'][0]}.nc" in job.outputs
            assert groups == (sets if both else {"macro-mathematics": sets["macro-mathematics"]})
            seeds = job.words[job.words.index("--seeds") + 1 : job.words.index("--predictions")]
            assert seeds == ("42", "137", "500", "700", "1024")
            assert json.loads(job.flag("--settings"))["bins"] == 10
            swept = job.words[: job.words.index("--settings")]
            assert swept[2:] == (("--sweep", *sweeps[job.rule]) if sweeps[job.rule] else swept[2:3])
            assert ("--common-responses" in job.words) == (job.rule == "cross_policy_metrics")
