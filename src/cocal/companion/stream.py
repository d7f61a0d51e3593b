"""Stored rollouts as online companions see them: one step after the other, in constant memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.companion.online import OnlineCompanions
from cocal.companion.prequential import scores
from cocal.companion.split import in_validation
from cocal.config.evaluation import CompanionSettings
from cocal.features.store import FeatureReader
from cocal.runtime.progress import Progress


class Step(NamedTuple):
    """The rollouts of one step.

    Attributes:
        number: The rollout step, counted from 1.
        states: float32 (n, inputs), pooled states.
        labels: The step's rows of the table from `cocal.companion.supervision.read_rollouts`.
        held_out: bool (n,), which responses answer validation questions.
    """

    number: int
    states: np.ndarray
    labels: pd.DataFrame
    held_out: np.ndarray


def steps_of(
    features: FeatureReader,
    rollouts: pd.DataFrame,
    questions: Sequence[str],
    settings: CompanionSettings,
    poolings: Sequence[str],
) -> Iterator[Step]:
    """Read the rollouts step by step, with the states of the deepest block stored.

    Args:
        features: Feature store; row k belongs to row k of `rollouts`.
        rollouts: Chronological table from `cocal.companion.supervision.read_rollouts`.
        questions: Texts of the whole question table, a share of which is held out.
        settings: Settings of the companions, for the split.
        poolings: Names of the poolings, concatenated in this order.
    """
    held_out = in_validation(rollouts["question"], questions, settings.validation_share, settings.split_seed)
    steps = rollouts["step"].to_numpy()
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
        states = features.read(int(start), int(stop), poolings=poolings)
        yield Step(int(steps[start]), states, rollouts.iloc[start:stop], held_out[start:stop])


def learn_online(steps: Iterable[Step], learners: Sequence[OnlineCompanions], progress: Progress) -> Iterator[int]:
    """Let online companions learn from each step; yield its number when all have learnt from it."""
    for step in steps:
        labels = [step.labels[name].to_numpy() for name in ("correct", "group_accuracy", "truncated")]
        found = [learner.observe(step.states, *labels, step.held_out) for learner in learners]
        progress.add(detail="nothing learnt before it" if found[0] is None else summary(found[0]))
        yield step.number


def summary(found: pd.DataFrame) -> str:
    """Scores of the first target on one step, in words, for a line of progress."""
    means = found[found["target"] == found["target"].iloc[0]][["ece", "auroc"]].mean()
    return f"before learning from it: ECE {means['ece']:.3f}, AUROC {means['auroc']:.3f}"


def replayed(
    fits: Iterable[Companions], features: FeatureReader, rollouts: pd.DataFrame, bins: int
) -> Iterator[pd.DataFrame]:
    """Score replayed companions on the rollouts of the step after their own; see `cocal.companion.prequential.scores`.

    The column kept_bytes says how large the states are that replaying keeps: those of all their responses.
    Companions of the last step have no next one, and are passed over.
    """
    steps, last = rollouts["step"].to_numpy(), int(rollouts["step"].iloc[-1])
    for one in fits:
        spec = one.spec
        if spec.steps >= last:
            continue
        start, stop = np.searchsorted(steps, [spec.steps + 1, spec.steps + 2]).tolist()
        confidence = one.predict(features.read(start, stop, layer=spec.layer, poolings=spec.poolings))
        found = scores(one.members, confidence, rollouts["correct"].to_numpy()[start:stop], bins, spec.steps)
        yield found.assign(kept_bytes=start * spec.inputs * features.itemsize)
