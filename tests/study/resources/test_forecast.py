"""What a study takes before it runs: disk and memory from its shapes, jobs from the workflow itself."""

import pytest

import started
from cocal.cli import main
from cocal_study.config.study import load_study
from cocal_study.planning.plan import ablation_states, companion_prefixes
from cocal_study.resources.forecast import disk
from cocal_study.resources.memory import held_by, parameters_of
from planned_jobs import rules_of_any_study


@pytest.fixture(scope="module")
def paper(repository):
    return load_study(repository / "config/paper.yaml")


def test_disk_of_the_paper_study(paper):
    """Section 7 of the design: 145 GB for all layers of 8B; one companion has 19.5 M parameters.

    A training has two checkpoints while the second is written, each with the weights in float32 and two moments.
    """
    small, large = (parameters_of(paper.backbones[name]) for name in ("qwen3-8b", "qwen3-14b"))
    assert (small, large) == (pytest.approx(8.19e9, rel=0.001), pytest.approx(14.77e9, rel=0.001))
    only = paper.model_copy(update={"backbones": {"qwen3-8b": paper.backbones["qwen3-8b"]}})
    narrow = only.model_copy(update={"features": only.features.model_copy(update={"layers": "final"})})
    (kept, more), (kept_narrow, _) = disk(only), disk(narrow)
    assert more == 3 * 2 * 12 * small
    companion = 4 * 19.5e6
    ablations = 35 * 5 * companion  # five seeds on each of the blocks
    assert kept - kept_narrow == pytest.approx(145e9 * 35 / 36 + ablations, rel=0.01)
    other = kept_narrow - 2 * small * 10 - 2 * 145e9 / 36  # ten checkpoints, CoCal's and PostCal's states of one block
    ours, theirs = (len(companion_prefixes(only, "qwen3-8b", one)) for one in ("rollouts", "resampled"))
    assert other == pytest.approx(
        5 * companion * (2 * (ours + theirs) + len(ablation_states(narrow, "qwen3-8b"))), rel=0.02
    )


@pytest.mark.slow
def test_the_command_counts_the_jobs_of_the_workflow(repository):
    printed = started.run(["cocal", "plan", "--study", "config/smoke.yaml"], repository).stdout
    jobs = {row[0]: int(row[1]) for row in map(str.split, printed.splitlines()) if row[1:] and row[1].isdecimal()}
    assert jobs["train_grpo"] == 2, "two backbones"
    assert jobs["questions"] >= 1
    assert jobs.pop("total") == sum(jobs.values()) > 40


def test_the_plan_has_a_line_for_each_rule(repository, monkeypatch, capsys):
    monkeypatch.setattr("cocal_study.commands.study.jobs_left", lambda *_: {"train_grpo": 2, "unheard_of": 3})
    assert main(["plan", "--study", str(repository / "config/paper.yaml")]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line}
    assert (rows["train_grpo"][1:3], rows["unheard_of"][1:], rows["total"][1:]) == (["2", "8"], ["3"], ["5"])


def test_a_rule_asks_for_a_gpu_where_its_jobs_hold_something_there():
    asking = {name for name, rule in rules_of_any_study().items() if rule.gpus}
    assert asking == {name for name in rules_of_any_study() if held_by(name)}
    assert {held_by(name) for name in ("table_online", "figure_online", "questions")} == {None}
    found = [held_by(name) for name in ("train_grpo", "factual_responses", "prompt_features", "latency")]
    assert found == ["update", "engine", "policy", "engine and policy"]
