"""A small study's predictions for the tests of tables and figures: polarised, over-confident and spread."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from cocal.metrics.settings import MetricSettings
from cocal_study.config.methods import METHODS as REGISTRY
from cocal_study.cubes.cells import policy_cell
from cocal_study.cubes.cube import evaluate_cells

OURS = (
    *("base-verbal", "verbal", "self-consistency", "token-probability", "p-true", "rlcr", "dcpo"),
    *("postcal-group", "postcal-binary", "cocal-group", "cocal-binary", "cocal-pre-generation"),
    *("cocal-on-rlcr", "cocal-on-dcpo"),
)
"""The methods of the paper, in the order of its tables. The registry may hold others between them."""
SEEDS = (42, 137)
METHODS = ("base-verbal", "verbal", "self-consistency", "token-probability", "cocal-group", "cocal-binary")
STAGES = ("rlcr", "dcpo", "cocal-group", "cocal-binary")


def sample_predictions(*datasets: str, methods: Sequence[str] = METHODS, step: int = 60) -> pd.DataFrame:
    """Every method on 40 questions of the first dataset and three more of each further one, each policy with its own
    correctness.

    The pre-RL model is at step 0, the others at `step`; companions learnt from the rollouts up to it.
    """
    parts = []
    for place, dataset in enumerate(datasets):
        questions = 40 + 3 * place
        for method in methods:
            algorithm, policy_step = policy_cell(method, step)
            share = 0.6 - 0.1 * ["grpo", "dcpo", "rlcr", "base"].index(algorithm)
            correct = np.random.default_rng([place, policy_step]).random(questions) < share
            seeded = REGISTRY[method].target is not None
            for seed in SEEDS if seeded else (-1,):
                key = [place, policy_step, [*OURS, method].index(method), seed + 1]
                confidence = _confidence(method, correct, np.random.default_rng(key))
                names = [f"{dataset}-{i:03d}" for i in range(questions)]
                of_set = {"algorithm": algorithm, "step": policy_step, "dataset": dataset, "question_id": names}
                parts.append(predicted(method, seed, confidence, correct, learnt_from=step, **of_set))
    return pd.concat(parts, ignore_index=True)


def predicted(method: str, seed: int, confidence, correct, learnt_from: int, **columns) -> pd.DataFrame:
    """Predictions of one method on responses to questions of one set; a companion, which has a seed, learnt from the
    rollouts up to a step."""
    seeded = seed >= 0
    found = {
        **{"backbone": "tiny-a", "algorithm": "grpo", "step": learnt_from, "dataset": "", "question_id": ""},
        **{"response_id": np.arange(len(correct)), "method": method, "seed": seed},
        **dict.fromkeys(("source_step", "validation_step"), learnt_from if seeded else -1),
        **{"layer": 2 if seeded else -1, "pooling": "last+mean" if seeded else ""},
        **{"confidence": confidence, "valid": ~np.isnan(confidence), "correct": correct, "truncated": False},
        **{"answered": True, "decided": True, "exact_match": None, "p_true_mass": np.nan},
    }
    return pd.DataFrame(found | columns)


def doubtful_predictions() -> pd.DataFrame:
    """Two sets; on the first, a quarter of Verbal's responses states no confidence and a fifth has no answer."""
    frame = sample_predictions("amc23", "amc24", methods=("verbal", "p-true", "cocal-binary"))
    place = frame["response_id"]
    first = frame["dataset"] == "amc23"
    frame["p_true_mass"] = np.where(frame["method"] == "p-true", np.where(first, 0.2, 0.9), np.nan)
    silent = first & (frame["method"] == "verbal") & (place % 4 == 0)
    frame["confidence"] = frame["confidence"].mask(silent)
    frame["valid"] = frame["confidence"].notna()
    frame["answered"] = ~(first & (place % 5 == 0))
    frame["decided"] = ~(first & (place == 1))
    return frame


def metric_cube(predictions: pd.DataFrame, settings: MetricSettings, *given, **options) -> xr.Dataset:
    """The cube of the metrics that `evaluate_cells` computes from these arguments."""
    return evaluate_cells(predictions, settings, *given, **options).cube()


def sweep_cube(*datasets: str, methods: Sequence[str], source_steps: Sequence[int], step: int = 60) -> xr.Dataset:
    """Metric cube of companions that learnt from several numbers of rollout steps; the more, the sharper."""
    cubes = []
    for place, source_step in enumerate(source_steps):
        frame = sample_predictions(*datasets, methods=methods, step=step)
        towards = 0.5 - 0.4 * place / len(source_steps)
        pull = towards * np.where(frame["method"].str.startswith("postcal"), 0.9, 0.5)
        frame = frame.assign(source_step=source_step, confidence=(1 - towards) * frame["confidence"] + pull)
        cubes.append(metric_cube(frame, MetricSettings(resamples=20), {"macro-mathematics": datasets}))
    return xr.concat(cubes, pd.Index(source_steps, name="source_step"))


def _confidence(method: str, correct: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    n = len(correct)
    if method.endswith("verbal"):
        confidence = generator.choice([0.8, 0.9, 0.99], n)
        confidence[0] = np.nan
        return confidence
    if method == "self-consistency":
        return generator.integers(0, 11, n) / 10
    if method == "rlcr":
        return np.where(generator.random(n) < 0.8, correct, ~correct) * 0.98 + 0.01
    if method == "dcpo":
        return np.where(correct, 0.95, generator.choice([0.6, 0.9], n))
    return np.clip(0.35 * correct + 0.65 * generator.random(n), 0, 1)
