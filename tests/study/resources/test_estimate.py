"""The costs of a study: GPU-hours and storage from stated assumptions, jobs from the workflow itself."""

import pytest

import started
from cocal.cli import main
from cocal_study.config.study import configured_study, load_study
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.questions.loaders import counted
from cocal_study.resources.estimate import HIGH, LOW, PAPER, parameters_of, rule_of, workloads
from cocal_study.resources.forecast import gpu_hours, pace_on
from cocal_study.resources.memory import GPUS
from planned_jobs import rules_of_any_study


@pytest.fixture(scope="module")
def paper(repository):
    return load_study(repository / "config/paper.yaml")


def _of(study, rule, pace=HIGH):
    return [one for one in workloads(study, pace) if rule_of(one.rule) == rule]


def test_storage_of_the_paper_study(paper):
    """Section 7 of the design: 145 GB for all layers of 8B; one companion has 19.5 M parameters.

    A training has two checkpoints while the second is written, each with the weights in float32 and two moments.
    """
    small, large = (parameters_of(paper.backbones[name]) for name in ("qwen3-8b", "qwen3-14b"))
    assert (small, large) == (pytest.approx(8.19e9, rel=0.001), pytest.approx(14.77e9, rel=0.001))
    assert next(work.transient for work in workloads(paper, HIGH) if work.transient) == 3 * 2 * 12 * small
    only = paper.model_copy(update={"backbones": {"qwen3-8b": paper.backbones["qwen3-8b"]}})
    narrow = only.model_copy(update={"features": only.features.model_copy(update={"layers": "final"})})
    all_layers, one_layer = (_of(study, "train_")[0].storage for study in (only, narrow))
    assert all_layers - one_layer == pytest.approx(145e9 * 35 / 36, rel=0.01)
    postcal = _of(only, "companions")[0]
    assert postcal.storage == pytest.approx(4 * 19.5e6 * 10 * 8, rel=0.01), "ten members on each of eight budgets"


def test_hours_are_the_papers_where_nothing_differs(paper):
    """Its 8.2 billion parameters are 8.19 here."""
    only = paper.model_copy(update={"backbones": {"qwen3-8b": paper.backbones["qwen3-8b"]}})
    (training,), (resampling,) = (_of(only, rule, PAPER) for rule in ("train_", "resample"))
    assert training.hours == pytest.approx(3 * (16.67 + 5 / 60), rel=0.002)
    assert 14.22 < resampling.hours < 17
    slower = PAPER._replace(sampled=2 * PAPER.sampled)
    usual, doubled = (sum(one.hours for one in _of(only, "responses", pace)) for pace in (PAPER, slower))
    assert doubled > 1.5 * usual


def test_states_that_the_engine_keeps_need_no_passes(paper):
    kept = paper.model_copy(update={"features": paper.features.model_copy(update={"source": "engine"})})
    hours = {
        name: {work.rule: work.hours / work.jobs for work in workloads(study, HIGH)}
        for name, study in (("pass", paper), ("engine", kept))
    }
    assert hours["engine"]["features"] == hours["engine"]["factual_features"] == HIGH.start / 3600
    assert hours["engine"]["resample"] < 0.95 * hours["pass"]["resample"]
    other = {rule for rule, one in hours["pass"].items() if one != hours["engine"][rule]}
    assert other == {"features", "factual_features", "resample"}


def test_the_pages_say_what_the_command_says(repository):
    """Hours of all jobs on a kind of GPU, from low to high, and by the paper's own times."""

    def hours(file, gpu, rule=None, **config):
        study = counted(configured_study([repository / f"config/{file}.yaml"], config))
        return tuple(gpu_hours(study, pace_on(gpu, pace), rule) for pace in (LOW, HIGH))

    page = (repository / "docs/paper-study.md").read_text()
    study = counted(load_study(repository / "config/paper.yaml"))
    low, high = (round(number, -1) for number in hours("paper", GPUS[-1]))
    papers = gpu_hours(study, PAPER)
    assert f"| GPU-hours | {low:.0f} to {high:.0f} on B200; by the paper's own times" in page
    assert f"number of GPUs, {round(papers, -2):,.0f} |" in page
    readme = " ".join((repository / "README.md").read_text().split())
    assert f"{low:.0f} to {high:.0f} GPU-hours by an estimate" in readme
    page = (repository / "docs/single-gpu.md").read_text()
    for title, rule in (("hours", None), ("of which training", "train_")):
        cards = [hours("single-gpu", gpu, rule, card=f"{min(gpu.memory, 80):.0f}gb") for gpu in GPUS[:3]]
        assert f"| {title} | {' | '.join(f'{low:.0f} to {high:.0f}' for low, high in cards)} |" in page


def test_a_judge_takes_time_on_factual_sets_alone(paper, repository):
    exact = paper.model_copy(update={"judge": load_study(repository / "config/config.yaml").judge})
    with_judge, without = (_of(study, "responses") for study in (paper, exact))
    longer = [a.hours > b.hours for a, b in zip(with_judge, without, strict=True)]
    assert sum(longer) == 5, "base, Verbal, answers, RLCR, DCPO of the main backbone"


def test_backbones_that_are_trained_here_need_no_gpu(repository):
    embedded = list(workloads(load_study(repository / "config/config.yaml"), HIGH))
    assert sum(one.gpus for one in embedded) == 0
    assert sum(one.storage for one in embedded) > 0


@pytest.mark.slow
def test_the_command_counts_the_jobs_of_the_workflow(repository):
    printed = started.run(["cocal", "plan", "--study", "config/smoke.yaml"], repository).stdout
    jobs = {row[0]: int(row[1]) for row in map(str.split, printed.splitlines()) if row[1:] and row[1].isdecimal()}
    assert jobs["train_"] == 6, "two backbones, three algorithms"
    assert jobs["questions"] >= 1
    assert jobs.pop("total") == sum(jobs.values()) > 40


def test_the_plan_has_a_line_for_a_rule_that_nobody_knows(repository, monkeypatch, capsys):
    monkeypatch.setattr("cocal_study.commands.study.jobs_left", lambda *_: {"train_grpo": 2, "unheard_of": 3})
    assert main(["plan", "--study", str(repository / "config/paper.yaml")]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line}
    assert (rows["train_"][1], rows["unheard_of"][1], rows["total"][1]) == ("2", "3", "5")
    assert ", step 20 or 40, start 300, " in printed, "what the estimate takes for granted"


def test_every_rule_has_its_needs(repository):
    """Names of families and of variants are looked up."""
    names = {*rules_of_any_study(), "table_all", "landing", "all"}
    shown = exhibits_of(load_study(repository / "config/paper.yaml"), {})
    names |= {f"{'table' if isinstance(one, TableExhibit) else 'figure'}_{one.name}" for one in shown}
    assert [name for name in sorted(names) if rule_of(name) is None] == []
    found = [rule_of(name) for name in ("train_grpo", "factual_responses", "table_metrics")]
    assert found == ["train_", "responses", "table_"]
    assert rule_of("gone") is None
