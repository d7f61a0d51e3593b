"""The cells of the paper's study, in full number but with random confidences."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal.companion.spec import Prefix
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study, load_study
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.planning.plan import (
    ablation_states,
    budget_prefixes,
    companion_methods,
    domains_of,
    evaluated_cells,
    layers_of,
    methods_of,
    restricted,
    sweep_prefixes,
)

DEFAULT_POOLINGS = "last+mean"


def paper_study() -> Study:
    """The study of config/paper.yaml."""
    return load_study(Path(__file__).resolve().parents[1] / "config/paper.yaml")


class Cell(NamedTuple):
    """Predictions of one method, with one companion, on the responses of one checkpoint to one set."""

    backbone: str
    algorithm: str
    step: int
    dataset: str
    method: str
    source_step: int = -1
    validation_step: int = -1
    layer: int = -1
    pooling: str = ""


def cubes(study: Study) -> dict[str, tuple[list[Cell], list[str]]]:
    """Cells of every metric cube of the workflow, and the dimensions that the cube sweeps over."""
    main = study.main_backbone
    found = {backbone: (list(_evaluated(study, backbone)), []) for backbone in study.backbones}
    found[f"{main}-sweep"] = (list(_swept(study)), ["source_step"])
    found[f"{main}-budgets"] = (list(_budgets(study)), ["source_step"])
    for backbone in study.backbones:
        found[f"{backbone}-ablations"] = (list(_ablated(study, backbone)), ["layer", "pooling"])
    return found


def _evaluated(study: Study, backbone: str) -> Iterator[Cell]:
    final = layers_of(study, backbone)[-1]
    for algorithm, step in evaluated_cells(study, backbone):
        for domain in domains_of(study, backbone, algorithm, step):
            for dataset in study.evaluation_sets(domain):
                for method in methods_of(study, backbone, algorithm, step):
                    companion = (*restricted(step), final, DEFAULT_POOLINGS) if METHODS[method].experience else ()
                    yield Cell(backbone, algorithm, step, dataset, method, *companion)


def _swept(study: Study) -> Iterator[Cell]:
    for step in study.policy.stages:
        for method in companion_methods(study, "rollouts"):
            yield from _companions(study, step, method, sweep_prefixes(study, step))


def _budgets(study: Study) -> Iterator[Cell]:
    for method in companion_methods(study, "rollouts", "resampled"):
        yield from _companions(study, study.policy.steps, method, budget_prefixes(study))


def _companions(study: Study, step: int, method: str, prefixes: list[Prefix]) -> Iterator[Cell]:
    backbone = study.main_backbone
    final = layers_of(study, backbone)[-1]
    for prefix in prefixes:
        for dataset in study.evaluation_sets("mathematics"):
            yield Cell(backbone, "grpo", step, dataset, method, *prefix, final, DEFAULT_POOLINGS)


def _ablated(study: Study, backbone: str) -> Iterator[Cell]:
    step = study.policy.steps
    for state in ablation_states(study, backbone):
        layer, pooling = state.split("/")
        for dataset in study.evaluation_sets("mathematics"):
            yield Cell(backbone, "grpo", step, dataset, "cocal-binary", *restricted(step), int(layer), pooling)


def predictions(study: Study, cells: list[Cell]) -> pd.DataFrame:
    """Random predictions of the cells in the contract `cocal_study.store.contracts.PREDICTIONS`.

    Correctness is the same for all methods that share the responses. Confidences are continuous for companions, and
    otherwise multiples of a tenth, of which a few are invalid.
    """
    return pd.concat([_rows(study, cell) for cell in cells], ignore_index=True)


def runs_of(study: Study, cell: Cell) -> tuple[int, ...]:
    """Companion seeds of a cell, or the label of a method without seeds."""
    return study.companion.seeds if METHODS[cell.method].experience else (UNSEEDED,)


def _rows(study: Study, cell: Cell) -> pd.DataFrame:
    dataset, method, runs = study.datasets[cell.dataset], METHODS[cell.method], runs_of(study, cell)
    questions, samples = dataset.size, dataset.samples
    shared = _generator(cell.backbone, cell.algorithm, str(cell.step), cell.dataset, method.prompt_format)
    own = _generator(*map(str, cell))
    difficulty = np.repeat(shared.random(questions), samples)
    n = len(difficulty)
    correct = np.tile(shared.random(n) < difficulty, len(runs))
    confidence = 0.5 * np.tile(difficulty, len(runs)) + 0.5 * own.random(n * len(runs))
    if not method.experience:
        confidence = np.where(own.random(n) < 0.02, np.nan, np.round(confidence, 1))
    response = np.arange(n)
    text = pd.Index([f"{cell.dataset}-{i:05d}" for i in range(questions)])
    return pd.DataFrame(
        {
            **{name: getattr(cell, name) for name in ("backbone", "algorithm", "step", "dataset")},
            "question_id": text.repeat(samples).append([text.repeat(samples)] * (len(runs) - 1)),
            "response_id": np.tile(response, len(runs)),
            "method": cell.method,
            "seed": np.repeat(runs, n),
            **{name: getattr(cell, name) for name in ("source_step", "validation_step", "layer", "pooling")},
            "confidence": confidence,
            "valid": ~np.isnan(confidence),
            "correct": correct,
            "truncated": np.tile(shared.random(n) < 0.05, len(runs)),
            "answered": True,
            "decided": True,
            "exact_match": None,
            "p_true_mass": np.nan,
        }
    )


def _generator(*names: str) -> np.random.Generator:
    return np.random.default_rng(list("/".join(names).encode()))
