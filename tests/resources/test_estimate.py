"""The costs of a study: GPU-hours and storage from stated assumptions, jobs from the workflow itself."""

import pytest

import started
from cocal.cli import main
from cocal.config import load_study
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.registry import exhibits_of
from cocal.resources.estimate import RULES, Assumptions, parameters_of, rule_of, seconds_by_rule, workloads
from cocal.study.rules import RULES as WORKFLOW_RULES

B200 = Assumptions()


@pytest.fixture(scope="module")
def paper(repository):
    return load_study(repository / "config/paper.yaml")


def _of_stage(study, stage, assumed=B200):
    return [one for one in workloads(study, assumed) if one.stage == stage]


def test_storage_of_the_paper_study(paper):
    """Section 7 of the design: 145 GB for all layers of 8B; one companion has 19.5 M parameters.

    A training has two checkpoints while the second is written, each with the weights in float32 and two moments.
    """
    small, large = (parameters_of(paper.backbones[name], 151_936) for name in ("qwen3-8b", "qwen3-14b"))
    assert (small, large) == (pytest.approx(8.2e9, rel=0.05), pytest.approx(14.8e9, rel=0.05))
    assert next(work.transient for work in workloads(paper, B200) if work.transient) == 3 * 2 * 12 * small
    only = paper.model_copy(update={"backbones": {"qwen3-8b": paper.backbones["qwen3-8b"]}})
    narrow = only.model_copy(update={"features": only.features.model_copy(update={"layers": "final"})})
    all_layers, one_layer = (_of_stage(study, "policies")[0].storage for study in (only, narrow))
    assert all_layers - one_layer == pytest.approx(145e9 * 35 / 36, rel=0.01)
    postcal = _of_stage(only, "companions")[0]
    assert postcal.storage == pytest.approx(4 * 19.5e6 * 10 * 8, rel=0.01), "ten members on each of eight budgets"


def test_hours_are_the_papers_where_nothing_differs(paper):
    only = paper.model_copy(update={"backbones": {"qwen3-8b": paper.backbones["qwen3-8b"]}})
    exact = B200.model_copy(update={"parameters": parameters_of(only.backbones["qwen3-8b"], B200.vocabulary)})
    training, resampling = _of_stage(only, "policies", exact)
    assert training.gpu_hours == pytest.approx(3 * 8 * (16.67 + 5 / 60))
    assert 14.22 < resampling.gpu_hours < 16
    slower = exact.model_copy(update={"sampling_hours": 2 * 14.22})
    assert sum(one.gpu_hours for one in _of_stage(only, "responses", slower)) > 1.5 * sum(
        one.gpu_hours for one in _of_stage(only, "responses", exact)
    )


def test_companions_of_prompts_learn_from_a_row_of_each_group(paper):
    """The same rollouts as one companion of the paper, at 15.1 seconds, in groups of eight; one for each seed."""
    prompts = min(_of_stage(paper, "companions"), key=lambda one: one.hours)
    seconds = 3600 * prompts.hours - 60 * B200.start_minutes
    assert seconds == pytest.approx(15.1 / 8 * len(paper.companion.seeds))


def test_a_judge_takes_time_on_factual_sets_alone(paper, repository):
    exact = paper.model_copy(update={"judge": load_study(repository / "config/config.yaml").judge})
    with_judge, without = (_of_stage(study, "responses") for study in (paper, exact))
    longer = [a.gpu_hours > b.gpu_hours for a, b in zip(with_judge, without, strict=True)]
    assert sum(longer) == 5, "base, Verbal, answers, RLCR, DCPO of the main backbone"


def test_backbones_that_are_trained_here_need_no_gpu(repository):
    embedded = list(workloads(load_study(repository / "config/config.yaml"), B200))
    assert sum(one.gpu_hours for one in embedded) == 0
    assert sum(one.storage for one in embedded) > 0


@pytest.mark.slow
def test_the_command_counts_the_jobs_of_the_workflow(repository):
    printed = started.run(["cocal", "plan", "--study", "config/smoke.yaml"], repository).stdout
    rows = [line.split() for line in printed.splitlines() if line]
    total = next(row for row in rows if row[0] == "total")
    by_stage = {row[0]: int(row[1]) for row in rows if row[0] in {"questions", "policies", "results"}}
    assert by_stage["policies"] == 10
    assert by_stage["questions"] >= 1
    assert int(total[1]) > sum(by_stage.values())


def test_assumptions_are_taken_from_the_flag_and_printed(repository, monkeypatch, capsys):
    monkeypatch.setattr("cocal.commands.study.jobs_left", lambda *_: {"train_grpo": 2, "unheard_of": 3})

    def hours(*flags):
        assert main(["plan", "--study", str(repository / "config/paper.yaml"), *flags]) == 0
        printed = capsys.readouterr().out
        rows = {line.split()[0]: line.split() for line in printed.splitlines() if line}
        assert (rows["policies"][1], rows["unheard_of"][1], rows["total"][1]) == ("2", "3", "5")
        return float(rows["policies"][2].replace(",", "")), printed

    paper, printed = hours()
    assert "training_gpus = 8 " in printed
    changed, printed = hours("--assumptions", '{"training_gpus": 16}')
    assert "training_gpus = 16 " in printed
    assert paper < changed < 2.1 * paper


def test_every_rule_has_its_needs(repository):
    """Names of families and of variants are looked up."""
    names = {*WORKFLOW_RULES, "table_all", "landing", "all"}
    shown = exhibits_of(load_study(repository / "config/paper.yaml"), {})
    names |= {f"{'table' if isinstance(one, TableExhibit) else 'figure'}_{one.name}" for one in shown}
    assert [name for name in sorted(names) if rule_of(name) is None] == []
    assert rule_of("train_grpo") is RULES["train_"]
    assert rule_of("factual_responses") is RULES["responses"]
    assert rule_of("table_metrics") is RULES["table_"]
    assert rule_of("gone") is None


@pytest.mark.parametrize("study", ["config", "smoke", "paper", "rehearsal"])
def test_expected_times_know_what_is_long_in_a_study(repository, study):
    seconds = seconds_by_rule(load_study(repository / f"config/{study}.yaml"))
    assert all(value >= 0 for value in seconds.values())
    if study == "paper":
        assert 16 * 3600 < seconds["train_"] < 30 * 3600
        assert seconds["train_"] > 5 * seconds["responses"]
    if study == "config":
        assert 60 < seconds["train_"] < 1800
        assert seconds["train_"] > seconds["responses"] > 5 * seconds["table_"]
    if study == "smoke":
        assert seconds["train_"] < 30
