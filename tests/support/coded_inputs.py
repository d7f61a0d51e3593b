"""Inputs of exhibits in which no two numbers are equal, so that a number tells where it comes from."""

from hashlib import blake2b

import numpy as np
import pandas as pd
import xarray as xr

from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec
from cocal.metrics.calibration import METRICS
from cocal_study.cubes.cells import RATES
from cocal_study.cubes.resamples import Key, Resamples
from cocal_study.methods.recalibration.calibrators import Fit, Fits, Isotonic, Platt

SEEDS = ("mean", "42", "137", "500")
DOMAINS = {
    "macro-mathematics": ("math500", "aime24", "aime25", "amc23", "amc24"),
    "macro-factual": ("squad", "webq", "cwq", "musique", "popqa"),
}
SETS = [name for macro, names in DOMAINS.items() for name in (*names, macro)]
POLICIES = {"base-verbal": "base", "rlcr": "rlcr", "cocal-on-rlcr": "rlcr", "dcpo": "dcpo", "cocal-on-dcpo": "dcpo"}
"""The algorithm on whose policy a method is evaluated; GRPO for all others."""


def hashed(*labels) -> int:
    """A whole number below 2^64 that is these labels' own, whatever other labels there are."""
    return int.from_bytes(blake2b(repr(labels).encode(), digest_size=8).digest(), "little")


def shares(kind: str, **coordinates) -> np.ndarray:
    """A number between 0 and 1 in every cell, which depends on the labels of the cell alone."""
    mixed = np.zeros((), np.uint64)
    for name, labels in coordinates.items():
        own = np.array([hashed(kind, name, label) for label in labels], np.uint64)
        mixed = mixed[..., None] * np.uint64(0x9E3779B97F4A7C15) + own
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(11)) / 2.0**53


def coded_cube(backbone: str, methods, metrics=METRICS, **dimensions) -> xr.Dataset:
    """A metric cube with a number of its own in every cell; policies of all stages, and sweeps as `dimensions`."""
    coordinates = {"backbone": [backbone], "algorithm": ["base", "dcpo", "grpo", "rlcr"], "step": [0, 40, 60, 80, 120]}
    coordinates |= {name: list(labels) for name, labels in dimensions.items()}
    coordinates |= {"dataset": SETS, "method": list(methods), "seed": list(SEEDS), "metric": list(metrics)}
    names = [*coordinates]

    def numbers(kind, *without: str, least=0.0, most=1.0):
        dims = [name for name in names if name not in without]
        return dims, least + (most - least) * shares(kind, **{name: coordinates[name] for name in dims})

    cube = xr.Dataset({"value": numbers("value"), "seed_sd": numbers("sd", "seed", most=0.01)}, coords=coordinates)
    rates = {name: numbers(name, "metric", least=0.85) for name in RATES}
    cube = cube.assign(n=numbers("n", "metric", least=50, most=90), **rates)
    low, high = (0.1 * xr.DataArray(numbers(kind)[1], dims=names) for kind in ("low", "high"))
    return cube.assign(n=cube["n"].astype(int), lower=cube["value"] - low, upper=cube["value"] + high)


def policy_of(method: str, step: int) -> dict:
    """The place of a method's responses in a cube."""
    algorithm = POLICIES.get(method.partition("+")[0], "grpo")
    return {"algorithm": algorithm, "step": 0 if algorithm == "base" else step, "seed": "mean"}


def coded_resamples(backbone: str, methods, keys=None, comparison="main", spread=0.05) -> Resamples:
    """Resampled metrics with numbers of their own in every cell; in this comparison are `keys`, or all final cells."""
    keys = keys or [
        Key(method, *(policy_of(method, 120)[name] for name in ("algorithm", "step")), dataset)
        for method in methods
        for dataset in SETS
    ]
    draws = [np.random.default_rng(hashed(backbone, *vars(key).values())) for key in keys]
    value = np.stack([draw.random(4) for draw in draws])
    noise = np.stack([draw.normal(0, spread, (4, 99)) for draw in draws])
    by_seed = value[:, None] + np.stack([draw.normal(0, spread / 5, (3, 4)) for draw in draws])
    labels = {name: ("cell", [getattr(key, name) for key in keys]) for name in Key.__dataclass_fields__}
    data = {
        "value": (("cell", "metric"), value),
        "by_seed": (("cell", "seed", "metric"), by_seed),
        "resampled": (("cell", "metric", "resample"), value[..., None] + noise),
        "backbone": ("cell", [backbone] * len(keys)),
        "questions": ("cell", [key.dataset for key in keys]),
    }
    coordinates = {"metric": list(METRICS), "seed": list(SEEDS[1:])}
    return Resamples.of(xr.Dataset(data | labels, coordinates, {"level": 0.9}), backbone, comparison)


def coded_specs(steps, last=120) -> list[CompanionSpec]:
    """Specs of CoCal's and PostCal's companions of these budgets, each with counts and an error share of its own."""
    common = {"settings": CompanionSettings(), "inputs": 8192, "layer": 35, "poolings": ("last", "mean")}
    return [
        CompanionSpec(
            **common,
            steps=step,
            validation_steps=last,
            order=order,
            shuffle_seed=7 if shuffled else None,
            training_responses=150_000 + 31 * place - 7000 * shuffled,
            validation_responses=17_000 + 17 * place - 3000 * shuffled,
            training_error_share=0.6 - 0.011 * place - 0.2 * shuffled,
            best_pass=(1 + place % 3,) * 10,
        )
        for shuffled, order in enumerate(("chronological", "shuffled"))
        for place, step in enumerate(steps)
    ]


def coded_fits(slopes) -> Fits:
    """Calibrators with these slopes of Platt scaling, by baseline, seed and basis."""
    isotonic = Isotonic(scores=(0.0, 1.0), confidences=(0.2, 0.7))
    fits = [
        Fit.model_validate(
            {"baseline": baseline, "seed": seed, "basis": basis, "part": "training", "responses": 9}
            | {"calibrators": {"platt": Platt(slope=slope, intercept=0.1), "isotonic": isotonic}}
        )
        for (baseline, seed, basis), slope in slopes.items()
    ]
    return Fits(bases=("all", "last", "resampled"), fits=tuple(fits))


def coded_scores(windows, steps: int) -> pd.DataFrame:
    """Scores of online companions; replayed ones, of window 0, stand at some of the steps alone."""
    rows = [
        {"window": window, "source_step": step, "step": step + 1, "target": target, "seed": seed, "responses": 64}
        | {metric: hashed(metric, window, step, target, seed) / 2**64 for metric in ("ece", "auroc")}
        | {"kept_bytes": 510_000 * window or 7_300_000_000}
        for window in (*windows, 0)
        for step in range(1, steps, 1 if window else 30)
        for target in ("binary", "group")
        for seed in (42, 137, 500)
    ]
    return pd.DataFrame(rows)


def coded_rollouts() -> dict[str, pd.DataFrame]:
    """Rollouts of GRPO, RLCR and DCPO in the paper's number; each algorithm, step and level has shares of its own."""
    found = {}
    for place, name in enumerate(("grpo", "rlcr", "dcpo")):
        draw = np.random.default_rng(hashed(name))
        step, question = np.repeat(np.arange(1, 121), 2048), draw.integers(60, size=245_760)
        found[name] = pd.DataFrame({"question_id": [f"q-{number}" for number in question], "step": step})
        found[name]["truncated"] = draw.random(len(step)) < 0.1 + 0.04 * (question % 6) + 0.03 * place
        found[name]["correct"] = draw.random(len(step)) < 0.4 + 0.05 * place + step / 400
    return found


def coded_questions() -> pd.DataFrame:
    """The questions of `coded_rollouts`; a sixth of them has no level (0)."""
    return pd.DataFrame({"question_id": [f"q-{number}" for number in range(60)], "level": np.arange(60) % 6})
