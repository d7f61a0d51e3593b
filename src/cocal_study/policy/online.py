"""Companions that learn step by step from stored rollouts, and the scores of replayed companions for comparison."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.companion.stepwise import OnlineCompanions, scores, summary
from cocal.companion.supervision import in_validation
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import FeatureReader
from cocal.runtime.progress import Progress
from cocal.store.rows import normalised


def learn_online(
    learners: Sequence[OnlineCompanions],
    features: FeatureReader,
    rollouts: pd.DataFrame,
    questions: Sequence[str],
    progress: Progress,
) -> Iterator[int]:
    """Let online companions of one split, which read the states of the deepest block stored, learn from stored
    rollouts; yield each step when all have learnt from it. For features, rollouts and questions see
    `cocal.companion.fit.fit_companions`."""
    split = learners[0].settings
    held_out = in_validation(rollouts["question"], questions, split.validation_share, split.split_seed)
    for step, rows in rollouts.assign(held_out=held_out).groupby("step"):
        start, stop = int(rows.index[0]), int(rows.index[-1]) + 1
        states = features.read(start, stop, poolings=RESPONSE_POOLINGS)
        tables = [learner.observe(states, rows) for learner in learners]
        progress.add(detail="nothing learnt before it" if tables[0] is None else summary(tables[0]))
        yield int(step)


def replayed(
    fits: Iterable[Companions], features: FeatureReader, rollouts: pd.DataFrame, bins: int
) -> Iterator[pd.DataFrame]:
    """Score replayed companions, except those of the last step, on those rollouts of the step after their own that
    `OnlineCompanions.observe` scores. The column kept_bytes is the size of the states that replaying keeps."""
    steps, last = rollouts["step"].to_numpy(), int(rollouts["step"].iloc[-1])
    first_asked = rollouts["step"].groupby(rollouts["question"].map(normalised)).transform("min").to_numpy()
    for companions in fits:
        spec = companions.spec
        if spec.steps >= last:
            continue
        start, stop = np.searchsorted(steps, [spec.steps + 1, spec.steps + 2]).tolist()
        confidence = companions.predict(features.read(start, stop, layer=spec.layer, poolings=spec.poolings))
        new, correct = first_asked[start:stop] > spec.steps, rollouts["correct"].to_numpy()[start:stop]
        table = scores(companions.members, confidence[:, new], correct[new], bins, spec.steps)
        yield table.assign(kept_bytes=start * spec.inputs * features.itemsize)
