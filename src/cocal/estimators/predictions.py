"""Confidences of all methods that are evaluated on one checkpoint, as one table."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.config.method import Method
from cocal.config.methods import METHODS
from cocal.errors import ConfigError, ContractError
from cocal.estimators.responses import FACTS, Estimate, Estimator, EvaluationSets, Inputs, Responses, read_responses
from cocal.runtime.progress import Progress
from cocal.study.prefix import Prefix

logger = logging.getLogger(__name__)


def predict(
    names: Sequence[str],
    sets: EvaluationSets,
    folders: Mapping[str, Path],
    inputs: Inputs,
    *,
    backbone: str,
    algorithm: str,
    step: int,
) -> pd.DataFrame:
    """Confidences in the contract of cocal.store.contracts.PREDICTIONS, by set, method, source step and seed.

    Every evaluated response has a row for every method, source step and seed, also without a valid confidence.

    Args:
        names: methods.
        sets: evaluated question sets.
        folders: by prompt format, the folder of {dataset}.parquet with the checkpoint's responses.
        inputs: what else the methods need.
        backbone: name of the backbone.
        algorithm: how the policy was trained; "base" if it was not.
        step: rollout step of the checkpoint.

    Raises:
        ConfigError: if a method is evaluated on another policy, or something that it needs is not given.
        ContractError: if a file breaks its contract.
    """
    methods = _check_needs(names, algorithm, folders, inputs)
    parts, progress = [], Progress("set", len(sets.root))
    for dataset, samples in sets.root.items():
        for prompt_format, of_format in _grouped(methods, "prompt_format").items():
            columns = [column for method in of_format for column in method.columns]
            responses = read_responses(folders[prompt_format], dataset, samples, step, columns)
            estimates: dict[Estimator, np.ndarray] = {}
            for function, together in _grouped(of_format, "estimate").items():
                estimates |= _loaded(function)(together, responses, inputs)
            order = [method.name for method in of_format]
            for estimator, confidence in sorted(estimates.items(), key=lambda item: order.index(item[0].method)):
                parts.append(_rows(responses, estimator, confidence))
        progress.add(detail=dataset)
    table = pd.concat(parts, ignore_index=True).assign(backbone=backbone, algorithm=algorithm, step=step)
    check_shared_responses(table)
    return table


def check_shared_responses(predictions: pd.DataFrame) -> None:
    """CoCal, PostCal, SelfConsis, TokenProb and P(True) are evaluated on the same fixed responses (appendix B.1).

    Args:
        predictions: of any number of checkpoints; every method has its rows in the order of the responses.

    Raises:
        ContractError: if two methods of the answer format have different responses, or labels of them, in a set of
            one checkpoint.
    """
    fixed = predictions[predictions["method"].map(lambda name: METHODS[name].prompt_format == "answer").astype(bool)]
    identity = ["question_id", "response_id", "correct", "truncated", "answered", "decided"]
    for cell, part in fixed.groupby(["backbone", "algorithm", "step", "dataset"], sort=False):
        estimators = part.groupby(list(Estimator._fields), sort=False)
        (first, reference), *others = ((Estimator(*key), rows[identity].to_numpy()) for key, rows in estimators)
        for other, rows in others:
            if not np.array_equal(rows, reference):
                raise ContractError(
                    f"{' '.join(map(str, cell))}: {_words(other)} and {_words(first)} are not evaluated on the same "
                    "fixed responses; predict them on one set of responses"
                )


def _grouped(methods: Sequence[Method], field: str) -> dict[str, list[Method]]:
    """Methods that declare the same, by what they declare."""
    groups: dict[str, list[Method]] = {}
    for method in methods:
        groups.setdefault(getattr(method, field), []).append(method)
    return groups


def _loaded(function: str) -> Estimate:
    """The function that "module:function" names, imported when it is needed: companions alone need torch."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


def _check_needs(names: Sequence[str], algorithm: str, folders: Mapping[str, Path], inputs: Inputs) -> list[Method]:
    """The methods in the order of the registry, once each."""
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


def _rows(responses: Responses, estimator: Estimator, confidence: np.ndarray) -> pd.DataFrame:
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
    # P(True) alone reads what its confidence rests on, and it alone carries it on.
    reads_mass = "p_true_mass" in METHODS[estimator.method].columns
    mass = responses.evaluated["p_true_mass"] if reads_mass else np.nan
    return labels.assign(**estimator._asdict(), confidence=confidence, valid=valid, p_true_mass=mass)


def _words(estimator: Estimator) -> str:
    """Name for logs and errors."""
    if estimator.source_step < 0:
        return estimator.method
    prefix = Prefix(estimator.source_step, estimator.validation_step)
    states = f"layer {estimator.layer}, {estimator.pooling}"
    return f"{estimator.method} (steps {prefix}, {states}, seed {estimator.seed})"
