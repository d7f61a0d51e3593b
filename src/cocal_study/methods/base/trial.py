"""A trial of baselines that learn, on random rollouts: what fails does so in seconds, and not after the policies."""

from pkgutil import resolve_name

import numpy as np
import pandas as pd

from cocal.engines.engine import Completion
from cocal.errors import ConfigError
from cocal.rewards import group_accuracy
from cocal.rollouts.recorded import sampled_rows
from cocal_study.config.method import Baseline
from cocal_study.config.methods import METHODS
from cocal_study.methods.base.responses import LabelledStates


def try_baseline(baseline: Baseline, width: int) -> None:
    """Let a baseline learn from random rollouts, with states of a model of this width, and score others. Raises
    ConfigError if its code raises an error or does not return a number from 0 to 1 for each response."""
    draw = np.random.default_rng(0)
    training, validation, scored = (_labelled(draw, baseline, width, count) for count in (480, 160, 80))
    try:
        learnt = resolve_name(baseline.learn)(METHODS[baseline.method].target, training, validation)
        scores = np.asarray(
            learnt.apply(scored.states, *([scored.table] if baseline.columns else [])), dtype=np.float64
        )
    except Exception as error:  # the code of a baseline may raise anything
        raise ConfigError(
            f"{baseline.name}: fails on random rollouts: {error!r} (COCAL_TRACEBACK=1 has more)"
        ) from error
    if scores.shape != (80,) or not ((scores >= 0) & (scores <= 1)).all():
        fault = f"{scores.shape}, from {scores.min():g} to {scores.max():g}"
        raise ConfigError(f"{baseline.name}: scores of random rollouts are {fault}; return (80,), each from 0 to 1")


def _labelled(draw: np.random.Generator, baseline: Baseline, width: int, count: int) -> LabelledStates:
    states = draw.normal(size=(count, width * len(baseline.blocks) * len(baseline.poolings))).astype(np.float32)
    correct = draw.random(count) < 0.5
    return LabelledStates(
        states, correct, group_accuracy(correct, 8), random_rollouts(draw, count)[[*baseline.columns]]
    )


def random_rollouts(draw: np.random.Generator, count: int) -> pd.DataFrame:
    """Random rollouts in groups of eight, with the columns of `cocal.store.contracts.RESPONSES` that are not labels."""
    logprobs = [-draw.exponential(size=length).astype(np.float32) for length in draw.integers(1, 40, count)]
    given = [Completion([7] * len(values), values, "stop") for values in logprobs]
    asked = {"question_ids": [f"question-{row // 8}" for row in range(count)], "prompt_ids": [np.array([1, 2])] * count}
    rows = sampled_rows(given, ["It is 7."] * count, "answer", dataset="random", group_size=8, step=1, **asked)
    ids = rows["response_ids"].map(np.array)  # as a file gives them
    return rows.assign(step=rows["response_id"] // 32 + 1, response_ids=ids, answer_class=np.nan, decided=True)
