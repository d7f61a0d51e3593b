"""The plans of the smoke and the paper study: what each product is made from, and what commands are told."""

import re
from itertools import product
from pathlib import Path

import pytest

from cocal.store.damage import product_of, remedy
from cocal_study.stages.rules import RULES
from planned_jobs import jobs_of, study_of

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


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    return request.param


@pytest.fixture(scope="module")
def jobs(study):
    """The jobs of a study from nothing, by their outputs."""
    return jobs_of(study_of(study))


@pytest.fixture
def each(jobs):
    """Every job once."""
    return list({id(job): job for job in jobs.values()}.values())


def reads(job) -> set[str]:
    """The files of results/ that a job is given: its inputs, and parts of folders among them that its command names."""
    unsaid, found = {file for file in job.inputs if file.startswith("results/")}, set()
    for path in {word.rpartition("=")[2] for word in job.words}:
        made = any(f"{output}/".startswith(f"{path}/") for output in job.outputs)
        if re.match(r"results/(?!runs|judgements|sources$)[^{]*$", path) and (not made or path == "results/questions"):
            below = {file for file in job.inputs if file == path or file.startswith(f"{path}/")}
            parts = {folder for folder in job.inputs if path.startswith(f"{folder}/")}
            assert below or parts, f"{job.label} reads {path}, which is not among its inputs {job.inputs}"
            unsaid -= below | parts
            found |= below or {path}
    return found | unsaid


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


def test_every_product_is_made_from_what_the_table_says(study, jobs):
    wanted = table(study)
    assert {output: reads(jobs[output]) for output in jobs.keys() & wanted.keys()} == wanted


def test_every_planned_product_stands_in_the_table(study, jobs):
    ends = [f"results/{name}" for name in (*WITHOUT_SOURCES, "figures/paradigms", "figures/overview")]
    assert {file for file in jobs.keys() - table(study).keys() if not file.startswith(tuple(ends))} == set()


def test_every_rule_has_a_name_in_the_list(each):
    assert {job.rule for job in each if not job.rule.startswith(("table_", "figure_"))} <= set(RULES)


class Named:
    """Prompt texts whose digest is the names of their formats."""

    def digest(self, *formats, domain="mathematics"):
        return f"{'+'.join(formats)}@{domain}"


def test_jobs_depend_on_the_texts_that_they_give_to_a_policy_or_a_judge(study):
    for job in jobs_of(study_of(study), Named(), "judge").values():
        expected, told = "", job.settings
        if job.rule == "backbone":
            expected = "prompts:@mathematics"  # all texts
        elif job.rule.startswith("train_"):
            expected = f"prompts:{told['algorithm'].replace('grpo', 'answer')}@mathematics"
        elif job.rule in ("resample", "latency"):
            expected = "prompts:answer@mathematics"
        elif job.rule in ("responses", "factual_responses"):
            asked = "+p_true" * next(iter(told["plan"].sets.values())).p_true
            factual = job.rule == "factual_responses"
            expected = f"prompts:{told['prompt_format']}{asked}@{'factual' if factual else 'mathematics'}"
            expected += " judge" * factual
        assert job.texts == expected, job.label


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


def test_responses_are_sampled_as_often_and_as_long_as_the_paper_says(study, each):
    seen, final = set(), _values(study)["FINAL"][0]
    for job in each:
        if job.rule in ("responses", "factual_responses"):
            pooled = job.settings["prompt_format"] == "answer" and job.settings["step"] == int(final)
            for name, how in job.settings["plan"].sets.items():
                samples = SAMPLES[study][name]
                assert (how.samples, how.max_response_length) == (samples, LENGTHS[study][name])
                assert how.sampled == (POOL[study] if pooled else samples), (name, job)
                assert (how.pool, how.p_true) == (pooled, pooled), (name, job)
                seen.add(name)
            judge = job.settings["judge"]
            factual = job.rule == "factual_responses"
            assert judge.kind == (JUDGE[study] if factual else "exact-match")
    assert seen == set(SAMPLES[study])


def test_all_evaluated_responses_are_read_and_scored(study, each):
    for job in each:
        if isinstance(samples := job.settings.get("samples"), dict):
            files = {Path(path).stem for path in reads(job) if "/responses/" in path}
            assert files == set(samples), job
            assert samples == {name: SAMPLES[study][name] for name in samples}
        if job.rule == "latency":
            wanted = {Path(name).stem for name in _values(study)["MATHEMATICS"]}
            assert job.settings["datasets"] == {name: LENGTHS[study][name] for name in wanted}


def test_an_error_advises_to_delete_what_the_workflow_makes_again(jobs, tmp_path, monkeypatch):
    """It would not notice that a single file of a folder is gone."""
    monkeypatch.chdir(tmp_path)
    for output in jobs:
        inner = "part/file" if not Path(output).suffix or output.endswith(".zarr") else ""
        assert product_of(Path(output, inner)) == Path(output)
        assert (f"delete {output} and rerun" if inner else "delete it and rerun") in remedy(Path(output, inner))


def test_commands_name_the_cell_whose_files_they_read(each):
    for job in each:
        told = job.settings
        if isinstance(told.get("backbone"), str):
            places = (path.split("/") for path in reads(job))
            assert {place[2] for place in places if place[1] in ("policies", "responses")} <= {told["backbone"]}
        if job.rule in ("backbone", "existing_backbone"):
            assert job.outputs == (f"results/policies/{told['name']}/base/step-0",)
        if "step" in told:
            cell = f"{told['backbone']}/{told['algorithm']}/step-{told['step']}"
            assert any(cell in path for path in reads(job)), job
            assert all(cell in output for output in job.outputs), job


def test_features_have_the_states_that_are_compared(study, each):
    """All layers where figures/layers compares them, else the final one; RLCR's response ends before its reason."""
    values, seen = _values(study), set()
    final, first = values["FINAL"][0], values["A"][0]
    for job in each:
        if job.rule in ("features", "factual_features"):
            _, _, backbone, algorithm, step, prompt_format, _ = job.outputs[0].split("/")
            at_end = (algorithm, step) == ("grpo", f"step-{final}")
            layers = "all" if at_end and job.rule == "features" else "final"
            assert job.settings["settings"].layers == layers, job
            assert ("task_response" in job.settings) == (prompt_format == "rlcr"), job
            assert ("prompt" in job.settings) == (at_end and backbone == first), job
            seen.add(layers)
        if job.rule == "prompt_features":
            assert job.settings["settings"].layers == "final"
    assert seen == {"all", "final"}


def test_states_that_vllm_keeps_are_those_that_a_pass_would_read(study):
    """With features.source = engine, the jobs that sample get the layers and flags of the features' jobs, where a
    method reads states, and PostCal's are kept, too; those of training and prompts still come from a pass."""
    kept = study_of(study, features={"source": "engine"}, generation={"engine": {"kind": "vllm"}})
    jobs, sampled, empty = jobs_of(kept), {}, set()
    for job in jobs.values():
        if job.rule in ("responses", "factual_responses"):
            (folder,) = [output for output in job.outputs if output.startswith("results/kept/")]
            read = ("features", "task_response", "prompt")
            sampled[folder] = {name: job.settings[name] for name in read if name in job.settings}
            empty |= set() if sampled[folder] else {folder}
        elif job.rule in ("resample", "prompt_features", "train_grpo", "replay"):
            given = job.settings["settings" if job.rule in ("prompt_features", "replay") else "features"]
            assert given.source == ("engine" if job.rule == "resample" else "pass"), job
    taken = {}
    for job in jobs.values():
        if job.rule in ("features", "factual_features"):
            assert job.settings["kept"] in job.inputs
            read = {"features": job.settings["settings"]}
            read |= {name: job.settings[name] for name in ("task_response", "prompt") if name in job.settings}
            taken[job.settings["kept"]] = read
    assert taken == {folder: read for folder, read in sampled.items() if folder not in empty}
    assert {"verbal"} <= {folder.split("/")[5] for folder in empty} <= {"verbal", "rlcr", "dcpo"}
    assert {read["features"].layers for read in taken.values()} == {"all", "final"}


def test_policies_are_trained_by_the_settings_of_their_algorithm(each):
    for job in each:
        if job.rule.startswith("train_"):
            algorithm = job.rule.removeprefix("train_")
            assert job.outputs[0].split("/")[3] == job.settings["algorithm"] == algorithm
            assert list(job.settings["settings"].max_response_length) == [algorithm]
            kept = "features" in job.settings and job.settings["features"].layers == "all"
            assert kept == any(output.endswith("rollouts.zarr") for output in job.outputs) == (algorithm == "grpo")


def test_companions_learn_in_the_order_of_their_experience(study, each):
    values = _values(study)
    final, first = values["FINAL"][0], values["A"][0]
    budgets = {word.removeprefix("steps-").replace("-validation-", "/") for word in values["SMALLER_BUDGETS"]}
    steps = {"grpo": budgets | {*values["STAGES"], *values["EARLY"]}, "postcal": budgets | {final}}
    how = {
        "grpo": {"order": "chronological"},
        "postcal": {"order": "shuffled", "shuffle_seed": 42},
        "prompts": {"prompts": True},
        "one-layer": {"order": "chronological"},
    }
    targets = {"prompts": ("question",), "ablations": ("binary",)}
    for job in each:
        if job.rule == "companions":
            variant = job.label.removesuffix(" companions")
            wanted = steps.get(variant, {final}) if f"/{first}/" in job.outputs[0] else {final}
            assert {*map(str, job.settings["steps"])} == wanted, job
            assert job.settings["settings"].targets == targets.get(variant, ("group", "binary"))
            if variant in how:
                files = {"rollouts", "questions", "features", "cost", "output"}
                assert job.settings.keys() == {"settings", "steps", *how[variant], *files}
                assert how[variant].items() <= job.settings.items()


def test_rivals_learn_from_the_rollouts_after_the_last_stage_but_one(study, each):
    begins = {job.settings["previous_stage"] for job in each if job.rule == "recalibrate"}
    assert begins == {{"smoke": 2, "paper": 80}[study]}


@pytest.mark.parametrize(
    ("stages", "methods", "given"),
    [
        ([4], ["token-probability"], set()),
        ([2, 4], ["cocal-binary"], {"previous_stage", "features", "companions", "rollout_features"}),
        ([4], ["postcal-binary"], {"features", "companions", "resampled", "resampled_features"}),
    ],
)
def test_rivals_are_given_what_their_study_has(stages, methods, given):
    shape = {"policy": {"stages": stages, "algorithms": ["grpo"]}, "reports": {"early_steps": [1, stages[0]]}}
    jobs = jobs_of(study_of("smoke", **shape, estimators={"methods": methods}))
    told = jobs["results/recalibration/smoke/grpo/step-4.json"].settings
    known = {"previous_stage", "features", "companions", "rollout_features", "resampled", "resampled_features"}
    assert told.keys() & known == given
    assert ("results/companions/smoke/one-layer" in jobs) == (methods == ["cocal-binary"])
    assert ("results/companions/smoke/postcal" in jobs) == (methods == ["postcal-binary"])


def test_metrics_have_the_macro_averages_seeds_and_bins_of_the_paper(study, each):
    values = _values(study)
    sets = {f"macro-{name.lower()}": {Path(f).stem for f in values[name]} for name in ("MATHEMATICS", "FACTUAL")}
    of_cube = {"sweep metrics": {"sweep": ("source_step",)}, "budgets metrics": {"sweep": ("source_step",)}}
    of_cube |= {"ablations metrics": {"sweep": ("layer", "pooling")}, "metrics": {"scores": True}}
    of_cube |= {"cross-policy metrics": {"common_responses": True}, "recalibrated_metrics": {}}
    same, seen = {"settings", "groups", "seeds", "predictions", "output", "resamples"}, set()
    for job in each:
        if job.rule in ("metrics", "recalibrated_metrics"):
            told = job.settings
            both = job.rule == "recalibrated_metrics" or f"results/metrics/{values['A'][0]}.nc" in job.outputs
            groups = {name: set(members) for name, members in told["groups"].items()}
            assert groups == (sets if both else {"macro-mathematics": sets["macro-mathematics"]})
            assert list(told["seeds"]) == [42, 137, 500, 700, 1024]
            assert told["settings"].bins == 10
            assert {name: told[name] for name in told.keys() - same} == of_cube[job.label]
            seen.add(job.label)
    assert seen == set(of_cube)
