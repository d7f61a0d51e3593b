"""Confidences of CoCal and PostCal, whose companions score hidden states of responses (section 4.3, appendix B.2)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.batches import Batches
from cocal.companion.companions import Companions
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader, open_features
from cocal.runtime.machine import best_device
from cocal_study.config.method import Method
from cocal_study.methods.base.responses import Estimator, Inputs, Responses

TASK_RESPONSES = ("rlcr",)
"""Prompt formats whose features end before the uncertainty reasoning and the confidence (appendix D)."""
_ROWS = 4096
"""Number of responses whose features are on the device at a time."""


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Score the responses with every companion of the methods' experiences and targets. Raises ConfigError if no
    companion has a method's target, and ContractError if the features are not those of the evaluated responses."""
    prompt_format = methods[0].prompt_format
    reader = open_features(inputs.features[prompt_format] / f"{responses.dataset}.zarr")
    whole = prompt_format not in TASK_RESPONSES
    if (reader.attributes.get("task_response") == "True") == whole:
        part = "whole responses" if whole else "responses up to <reason>"
        raise ContractError(
            f"{reader.path}: in the {prompt_format} format companions read {part}; extract the features "
            f"{'without' if whole else 'with'} --task-response"
        )
    rows = match_features(reader, responses.evaluated, responses.path, whole=whole)
    experiences = dict.fromkeys(method.experience for method in methods)
    every = np.arange(len(reader))
    scored = {experience: score_rows(inputs.companions[experience], reader, every) for experience in experiences}
    estimates = {}
    for method in methods:
        for companions, scores in zip(inputs.companions[method.experience], scored[method.experience], strict=True):
            members = [(seed, k) for k, (target, seed) in enumerate(companions.members) if target == method.target]
            if not members:
                held = ", ".join(companions.spec.settings.targets)
                raise ConfigError(f"{method.name} needs companions of target {method.target!r}; there are only {held}")
            for seed, member in members:
                spec = companions.spec
                estimator = Estimator(method.name, seed, *spec.prefix, spec.layer, spec.pooling)
                estimates[estimator] = np.where(rows >= 0, scores[member, rows], np.nan)
    return estimates


def match_features(reader: FeatureReader, evaluated: pd.DataFrame, source: Path, *, whole: bool = True) -> np.ndarray:
    """Return the feature row of each evaluated response, int64 (n,), or -1 for a response of which nothing was pooled.
    Unless `whole` responses were pooled, a response may have fewer pooled tokens or no row.

    Response ids count from 0 in every set, so they do not identify responses. Question ids and token lengths are
    compared too, which nearly rules out features of other responses. Raises ContractError, which names `source`, if the
    response ids differ, or a question or token length does.
    """
    expected = evaluated.set_index("response_id")[["question_id", "length"]]
    stored = pd.DataFrame({"question_id": reader.question_id, "length": reader.length}, index=reader.response_id)
    ids = stored.index
    unmatched = expected.index.symmetric_difference(ids) if whole else ids.difference(expected.index)
    if len(unmatched := unmatched.append(ids[ids.duplicated()])):
        raise ContractError(
            f"{reader.path}: holds {len(stored)} responses, {source} has {len(expected)} evaluated ones, and they do "
            f"not match at response_id {unmatched[0]}; extract the features of the evaluated responses"
        )
    rows = ids.get_indexer(expected.index)
    there = stored.take(rows).set_index(expected.index)  # for row -1 another response, which does not count
    longer, shorter = there["length"] > expected["length"], there["length"] < expected["length"]
    other = (there["question_id"] != expected["question_id"]) | longer | (shorter & whole)
    wrong = np.flatnonzero((rows >= 0) & other)
    if len(wrong):
        first = expected.index[wrong[0]]
        theirs, ours = (" and ".join(map(str, table.loc[first])) for table in (there, expected))
        raise ContractError(
            f"{reader.path}: response_id {first} has question and tokens {theirs}, but {ours} in {source} "
            f"({len(wrong)} such response(s)): these are features of other responses; extract them anew"
        )
    return rows


def score_rows(companions: Sequence[Companions], reader: FeatureReader, rows: np.ndarray) -> list[np.ndarray]:
    """Return each companion's confidences of feature rows (ascending, int64), float64 (members, n), computed on the GPU
    if there is one. Companions that read the same states share one pass over the store."""
    device = best_device()
    scores = [np.empty((len(fit.members), len(rows))) for fit in companions]
    by_states: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for place, fit in enumerate(companions):
        by_states.setdefault((fit.spec.layer, fit.spec.poolings), []).append(place)
    for (layer, poolings), places in by_states.items():
        here = {place: companions[place].to(device) for place in places}
        for span, states in Batches(reader, layer, poolings, rows, _ROWS, device=device).of(len(rows)):
            for place, fit in here.items():
                scores[place][:, span] = fit.predict(states)
    return scores
