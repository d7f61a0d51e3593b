"""Stages as typed models: their flags, the words of planned jobs, and what is refused."""

import argparse
from pathlib import Path

import pytest
from pydantic import BaseModel

from cocal.cli import main
from cocal.errors import ConfigError
from cocal.settings.base import Count, Model
from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.stages import base
from cocal_study.stages.base import In, Out, OutFolder, Stage, from_environment, job_of, stage_of
from planned_jobs import jobs_of, study_of

TYPED = [name for name, command in STAGES.items() if callable(command.flags)]


def parsed(words):
    """The job that a command line describes."""
    parser = argparse.ArgumentParser()
    STAGES[words[0]].add_to(parser)
    return job_of(parser.parse_args(words[1:], argparse.Namespace(command=words[0])))


@pytest.mark.parametrize("name", ["smoke", "paper"])
def test_the_words_of_a_planned_job_make_the_same_job(name):
    seen = set()
    for job in jobs_of(study_of(name)).values():
        if not job.rule.startswith(("table_", "figure_")) and job.words not in seen:
            seen.add(job.words)
            again = parsed(job.words)
            assert type(again) is stage_of(job.words[0])
            assert tuple(again.words) == job.words
    assert {words[0] for words in seen} >= {*TYPED} - {"replay", "judge", "sources", "hub"} - {
        *("import-checkpoints", "import-rollouts", "import-cost")
    }


def test_what_a_job_imports_by_name_counts_as_its_code():
    """The engine of a judge beside that of the responses, methods and baselines."""
    judge = {"kind": "llm", "checkpoint": "./judge", "engine": {"kind": "vllm"}}
    found = {}
    for job in jobs_of(study_of("smoke", judge=judge)).values():
        if not job.rule.startswith(("table_", "figure_")):
            found.setdefault(job.words[0], set()).update(parsed(job.words).named())
    opens = [f"cocal_study.generation.{name}_engine:open_{name}" for name in ("transformers", "vllm")]
    assert found["responses"] == {*opens}
    assert found["resample"] == found["latency"] == {opens[0]}
    assert "cocal_study.methods.p_true:estimate" in found["predictions"]
    assert {"cocal_study.methods.linear_probe:learn", "cocal_study.methods.base.stated:score"} <= found["recalibrate"]


class Inner(Model):
    """Settings of a stage."""

    bins: Count = 10


class Probe(Stage):
    """A stage with a field of every kind."""

    settings: Inner = Inner()
    """settings"""
    step: Count | None = None
    """a step"""
    many: tuple[Count, ...] = ()
    """numbers, 50 % of them"""
    one: dict[str, In] = {}
    """one place of each kind"""
    several: dict[str, tuple[In, ...]] = {}
    """places of each kind"""
    given: bool = False
    """whether"""
    left: In | None = None
    """a place"""
    variable: str | None = from_environment("COCAL_OF_A_TEST")
    """from the environment"""
    output: OutFolder
    """a folder"""
    beside: Out | None = None
    """a file"""

    def run(self):
        """It does nothing."""


@pytest.fixture
def probe(monkeypatch):
    """Reads the flags of the stage above."""
    monkeypatch.setattr(base, "stage_of", lambda command: Probe)

    def read(*words):
        parser = argparse.ArgumentParser()
        for flag in base.flags_of("probe"):
            flag.add_to(parser)
        return job_of(parser.parse_args(words, argparse.Namespace(command="probe")))

    return read


def test_words_and_flags_are_inverse_and_a_default_may_come_from_the_environment(probe, monkeypatch):
    words = ["--settings", '{"bins":3}', "--step", "2", "--many", "1", "5", "--one", "a=x", "b=y=z"]
    words += ["--several", "a=p", "a=q", "b=r", "--given", "--left", "l", "--output", "o", "--beside", "f"]
    stage = probe(*words)
    assert stage.words == ["probe", *words]
    assert stage.one == {"a": Path("x"), "b": Path("y=z")}
    assert stage.several == {"a": (Path("p"), Path("q")), "b": (Path("r"),)}
    assert {*map(str, stage.reads())} == {"x", "y=z", "p", "q", "r", "l"}
    assert stage.writes() == [Path("o")]
    monkeypatch.setenv("COCAL_OF_A_TEST", "there")
    assert (probe(*words).variable, probe(*words, "--variable", "here").variable) == ("there", "here")


def test_what_is_empty_or_not_given_is_left_out_and_zero_is_not():
    stage = Probe(output="o", many=(), one={}, given=False, left=None, beside=None, settings=Inner())
    assert stage.words == ["probe", "--settings", '{"bins":10}', "--output", "o"]
    at_zero = stage_of("predictions")(
        backbone="b", algorithm="base", step=0, samples={}, responses={}, output="o"
    ).words
    assert at_zero[at_zero.index("--step") + 1] == "0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--step", "0"], "--step: Input should be greater than or equal to 1"),
        (["--many", "1", "x"], "--many.1: Input should be a valid integer"),
        (["--settings", '{"bin": 3}'], "--settings: 1 problem"),
        (["--settings", "{"], "--settings: not valid JSON"),
        (["--one", "a"], "--one: 'a' is not KIND=VALUE"),
        (["--one", "a=x", "a=y"], "--one: 2 values of a; give one"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_flag(probe, words, message):
    with pytest.raises(ConfigError) as caught:
        probe("--output", "o", *words)
    assert message in str(caught.value)


def test_a_command_ends_with_one_sentence_about_a_wrong_value(tmp_path, capsys):
    words = ["metrics", "--predictions", "p", "--seeds", "one", "--output", str(tmp_path / "m.nc")]
    assert main(words) == 2
    assert "cocal metrics: error: flags of cocal metrics: 1 problem" in (said := capsys.readouterr().err)
    assert "--seeds.0: Input should be a valid integer" in said
    assert list(tmp_path.iterdir()) == []


def test_every_command_has_its_stage_whose_fields_hide_none_of_pydantic():
    for command in TYPED:
        assert stage_of(command).command == command
        assert stage_of(command).__doc__
        assert not {*stage_of(command).model_fields} & {*dir(BaseModel)}
