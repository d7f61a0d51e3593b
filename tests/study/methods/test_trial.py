"""Trials of baselines on random rollouts before a study: what a mistake in a baseline is told by."""

import numpy as np
import pytest

from cocal.cli import main
from cocal.store.columns import LABELS, ON_REQUEST, RESPONSES
from cocal.store.contracts import RESPONSES as CONTRACT
from cocal_study.config.method import Baseline
from cocal_study.methods.base.trial import random_rollouts, try_baseline

LEARNER = """
import numpy as np
class Scored:
    def apply(self, states, table):
        return {}
def learn(target, training, validation):
    assert target == "binary" and len(validation.table) == len(validation.states)
    return Scored()
"""
RIGHT = "1 / (1 + table['length'].to_numpy() + (states.shape[1] != 2 * 24))"


@pytest.fixture
def baseline(tmp_path, monkeypatch):
    """A function that makes a baseline whose score is this expression."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(name, score):
        (tmp_path / f"{name}.py").write_text(LEARNER.format(score))
        declared = {"method": "cocal-binary", "learn": f"{name}:learn", "columns": ("length",), "poolings": ("last",)}
        return Baseline(name="tried", position=95, blocks=(0, -1), **declared)

    return of


def test_random_rollouts_are_such_as_rollouts():
    found = random_rollouts(np.random.default_rng(0), 64)
    declared = [name for name in RESPONSES if name not in (*LABELS, *ON_REQUEST)]
    assert {*found} - {*LABELS} == {*declared}
    assert CONTRACT.check(found, "random", declared)["length"].nunique() > 8


def test_all_that_learns_here_passes(capsys):
    """Also what was added a minute ago."""
    assert main(["try", "--width", "16"]) == 0
    assert "linear-binary: learns from random rollouts and scores others" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "score", "message"),
    [
        ("misspelt", "table['lenght'] / 99", "tried: fails on random rollouts: KeyError('lenght')"),
        ("undeclared", "-table['mean_logprob']", "KeyError('mean_logprob')"),
        (
            "wide",
            "np.ones((len(states), 2))",
            "scores of random rollouts are (80, 2), from 1 to 1; return (80,), each from 0 to 1",
        ),
        ("undefined", "np.full(len(states), np.nan)", "are (80,), from nan to nan"),
        ("surer", "table['length'].to_numpy()", "are (80,), from 1 to 39"),
    ],
)
def test_a_mistake_is_told(baseline, name, score, message):
    with pytest.raises(Exception, match="tried") as told:
        try_baseline(baseline(name, score), width=24)
    assert message in str(told.value)


def test_a_baseline_is_given_what_it_declares(baseline):
    try_baseline(baseline("right", RIGHT), width=24)


def test_what_does_not_learn_is_named(capsys):
    assert main(["try", "length"]) == 2
    assert "'length' is no baseline that learns; there are linear-group, " in capsys.readouterr().err
