"""Nearest centroid: states are judged by their distances to the mean states of right and of wrong rollouts."""

import numpy as np

from cocal.settings.base import Model
from cocal_study.config.method import Baseline

BASELINES = (
    Baseline(
        name="nearest-centroid",
        label="Nearest centroid",
        position=95,  # its row, between those of 90 and 100
        method="cocal-binary",  # whose responses it scores; the target of its companion is what `learn` is given
        learn=f"{__name__}:learn",
        ranks_only=True,  # no probability, so that its ECE is shown after recalibration alone
    ),
)


class Centroids(Model):
    """What was learnt: any object with `apply`, which lives as long as the job and is not stored."""

    right: tuple[float, ...]
    wrong: tuple[float, ...]

    def apply(self, states):
        """The distance to wrong rollouts as a share of both distances, float64 (n,) in [0, 1]."""
        if not (self.right and self.wrong):  # nothing to tell apart
            return np.full(len(states), 0.5)
        right, wrong = (np.linalg.norm(states - np.array(mean), axis=1) for mean in (self.right, self.wrong))
        return wrong / (right + wrong)


def learn(target, training, validation):
    """The means of the states of right and of wrong rollouts; empty where there are none.

    Args:
        target: What a companion would learn, "binary" or "group".
        training: Rollouts with `states`, float32 (n, d), last token and mean of the last block side by side; `correct`,
            bool (n,); and `group_accuracy`, float64 (n,).
        validation: The same of other questions, for choices such as that of a penalty.
    """
    parts = {"right": training.states[training.correct], "wrong": training.states[~training.correct]}
    means = {name: part.mean(axis=0, dtype="float64").tolist() if len(part) else () for name, part in parts.items()}
    return Centroids(**means)
