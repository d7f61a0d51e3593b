"""CoCal: companions score the hidden states of the evaluated responses (section 4.3)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.errors import ConfigError, ContractError
from cocal.estimators.registry import Method
from cocal.estimators.responses import Inputs, Responses
from cocal.features.store import FeatureReader, open_features

COLUMNS = ()

_ROWS = 4096
"""Feature rows read at a time: 128 MiB at a hidden size of 4,096."""


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[tuple[str, int], np.ndarray]:
    """Confidences by every companion of the methods' targets, in one pass over the features.

    Raises:
        ConfigError: if there are no companions of a target.
        ContractError: if the features are not those of the evaluated responses.
    """
    companions = inputs.companions
    members = {}
    for method in methods:
        seeds = [seed for target, seed in companions.members if target == method.target]
        if not seeds:
            held = ", ".join(sorted({target for target, _ in companions.members}))
            raise ConfigError(f"{method.name} needs companions of target {method.target!r}; there are only {held}")
        members |= {(method.name, seed): companions.members.index((method.target, seed)) for seed in seeds}
    reader = open_features(inputs.features / f"{responses.dataset}.zarr")
    rows = match_features(reader, responses.evaluated, responses.path)
    scores = _score(companions, reader)[:, rows]
    return {key: scores[member] for key, member in members.items()}


def match_features(reader: FeatureReader, evaluated: pd.DataFrame, source: Path) -> np.ndarray:
    """Feature row of each evaluated response, int64 (n,).

    Equal ids do not prove equal responses (ids count from 0 in every set), equal token lengths nearly do: together
    they keep out features of other responses.

    Raises:
        ContractError: if the two hold different response ids, or a token length differs.
    """
    expected = evaluated.set_index("response_id")["length"]
    found = pd.Series(reader.length, index=reader.response_id)
    different = expected.index.symmetric_difference(found.index)
    if len(different) or found.index.has_duplicates:
        first = different[0] if len(different) else found.index[found.index.duplicated()][0]
        raise ContractError(
            f"{reader.path}: holds {len(found)} responses, {source} has {len(expected)} evaluated ones, and they do "
            f"not match at response_id {first}; extract the features of these responses"
        )
    lengths = found.reindex(expected.index)
    wrong = np.flatnonzero(lengths.to_numpy() != expected.to_numpy())
    if len(wrong):
        row = wrong[0]
        raise ContractError(
            f"{reader.path}: response_id {expected.index[row]} has {lengths.iloc[row]} tokens, but "
            f"{expected.iloc[row]} in {source} ({len(wrong)} such response(s)): these are features of other "
            "responses; extract them anew"
        )
    return found.index.get_indexer(expected.index)


def _score(companions: Companions, reader: FeatureReader) -> np.ndarray:
    """float64 (members, rows) of all feature rows, read in slices."""
    spec = companions.spec
    scores = np.empty((len(companions.members), len(reader)))
    for start in range(0, len(reader), _ROWS):
        stop = min(start + _ROWS, len(reader))
        features = reader.read(start, stop, layer=spec.layer, poolings=spec.poolings)
        scores[:, start:stop] = companions.predict(features)
    return scores
