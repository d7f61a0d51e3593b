"""The table of the confidences of all methods that are evaluated on one checkpoint."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cocal.companion.spec import Prefix
from cocal.errors import ConfigError, ContractError
from cocal.runtime.progress import Progress
from cocal_study.config.evaluation import EvaluationSets
from cocal_study.config.method import Method
from cocal_study.config.methods import METHODS
from cocal_study.methods.base.responses import FACTS, Estimator, Inputs, Responses, read_responses

logger = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """The policy whose responses are scored; its algorithm is "base" if it was not trained."""

    backbone: str
    algorithm: str
    step: int


def predict(
    names: Sequence[str], sets: EvaluationSets, folders: Mapping[Any, Path], inputs: Inputs, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Compute the predictions of methods on one checkpoint (`cocal_study.store.contracts.PREDICTIONS`), whose responses
    in each prompt format lie in a folder as {dataset}.parquet.

    Every evaluated response has a row for every method, source step and seed, even without a valid confidence. The rows
    are sorted by set, method, source step and seed. Raises ConfigError if a method is evaluated on another policy, or
    something that it needs is not given, and ContractError if a file breaks its contract.
    """
    methods = _check_needs(names, checkpoint.algorithm, folders, inputs)
    return predictions_of(_estimated(methods, sets, folders, inputs, checkpoint.step), checkpoint)


def predictions_of(
    estimated: Iterable[tuple[Responses, Estimator, np.ndarray]], checkpoint: Checkpoint
) -> pd.DataFrame:
    """Put confidences on one checkpoint together as a table in the contract PREDICTIONS. `estimated` holds responses,
    the estimator of their confidences, and these, float64 (n,), one for each evaluated response, NaN if it is not
    valid. Raises ContractError if there are not as many confidences as responses, or one is not from 0 to 1."""
    parts = []
    for responses, estimator, given in estimated:
        confidence, wanted = np.asarray(given), (len(responses.evaluated),)
        if confidence.shape != wanted or confidence.dtype.kind != "f" or ((confidence < 0) | (confidence > 1)).any():
            fault = f"of shape {confidence.shape} and type {confidence.dtype}"
            if confidence.shape == wanted and confidence.dtype.kind == "f":
                fault = f"from {np.nanmin(confidence):g} to {np.nanmax(confidence):g}"
            raise ContractError(
                f"{_words(estimator)}: its confidences in responses of {responses.dataset} are {fault}; return float64 "
                f"of shape {wanted}: a number from 0 to 1 for each evaluated response, NaN where there is none"
            )
        valid = ~np.isnan(confidence)
        logger.info(
            "%s, %s: %d responses, %d without a valid confidence, mean confidence %s",
            responses.dataset,
            _words(estimator),
            len(confidence),
            np.count_nonzero(~valid),
            f"{confidence[valid].mean():.3f}" if valid.any() else "undefined",
        )
        labels = responses.evaluated[["dataset", "question_id", "response_id", *FACTS]]
        # the mass is kept only for P(True), whose confidence depends on it
        method = METHODS.get(estimator.method)
        mass = responses.evaluated["p_true_mass"] if method and "p_true_mass" in method.columns else np.nan
        parts.append(labels.assign(**estimator._asdict(), confidence=confidence, valid=valid, p_true_mass=mass))
    return pd.concat(parts, ignore_index=True).assign(**checkpoint._asdict())


def on_fixed_responses(predictions: pd.DataFrame) -> pd.DataFrame:
    """The rows of the methods of the answer format."""
    return predictions[predictions["method"].isin([m.name for m in METHODS.values() if m.prompt_format == "answer"])]


def check_shared_responses(predictions: pd.DataFrame) -> None:
    """Check that all methods of the answer format are evaluated on the same fixed responses (appendix B.1), on any
    number of checkpoints. Raises ContractError if two of these methods have different responses, or labels or order of
    responses, in a set of one checkpoint."""
    identity = ["question_id", "response_id", "correct", "truncated", "answered", "decided"]
    for cell, part in on_fixed_responses(predictions).groupby(["backbone", "algorithm", "step", "dataset"], sort=False):
        estimators = part.groupby(list(Estimator._fields), sort=False)
        (first, reference), *others = ((Estimator(*key), rows[identity].to_numpy()) for key, rows in estimators)
        for other, rows in others:
            if not np.array_equal(rows, reference):
                raise ContractError(
                    f"{' '.join(map(str, cell))}: {_words(other)} and {_words(first)} are not evaluated on the same "
                    "fixed responses; predict them on one set of responses"
                )


def _estimated(
    methods: Sequence[Method], sets: EvaluationSets, folders: Mapping[str, Path], inputs: Inputs, step: int
) -> Iterator[tuple[Responses, Estimator, np.ndarray]]:
    progress = Progress("set", len(sets.root))
    for dataset, samples in sets.root.items():
        for prompt_format, of_format in _grouped(methods, "prompt_format").items():
            columns = [column for method in of_format for column in method.columns]
            responses = read_responses(folders[prompt_format], dataset, samples, step, columns)
            estimates: dict[Estimator, np.ndarray] = {}
            for name, together in _grouped(of_format, "estimate").items():
                estimates |= resolve_name(name)(together, responses, inputs)
            order = [method.name for method in of_format]
            for estimator in sorted(estimates, key=lambda key: order.index(key.method)):
                yield responses, estimator, estimates[estimator]
        progress.add(detail=dataset)


def _grouped(methods: Sequence[Method], field: str) -> dict[str, list[Method]]:
    groups: dict[str, list[Method]] = {}
    for method in methods:
        groups.setdefault(getattr(method, field), []).append(method)
    return groups


def _check_needs(names: Sequence[str], algorithm: str, folders: Mapping[str, Path], inputs: Inputs) -> list[Method]:
    """The methods, once each and in the order of the registry. Raises ConfigError if they need more than is given."""
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise ConfigError(f"methods: {unknown[0] if unknown else 'none'} given; known are {', '.join(METHODS)}")
    methods = [method for method in METHODS.values() if method.name in names]
    for method in methods:
        if method.policy != algorithm:
            raise ConfigError(
                f"{method.name} is evaluated on responses of the {method.policy} policy, not of {algorithm}"
            )
        if method.prompt_format not in folders:
            raise ConfigError(f"{method.name} needs responses in the {method.prompt_format} format; none are given")
        if method.experience and not (
            method.prompt_format in inputs.features and inputs.companions.get(method.experience)
        ):
            raise ConfigError(
                f"{method.name} needs features in the {method.prompt_format} format, and companions on "
                f"{method.experience}; give both"
            )
    return methods


def _words(estimator: Estimator) -> str:
    if estimator.source_step < 0:
        return estimator.method
    prefix = Prefix(estimator.source_step, estimator.validation_step)
    states = f"layer {estimator.layer}, {estimator.pooling}"
    return f"{estimator.method} (steps {prefix}, {states}, seed {estimator.seed})"
