"""Nearest centroid: states are judged by their distances to the mean states of right and of wrong rollouts."""

import numpy as np

from cocal.settings.base import Model
from cocal_study.config.method import Rival

RIVALS = (
    Rival(
        name="nearest-centroid",
        label="Nearest centroid",
        position=95,
        method="cocal-binary",
        learn=f"{__name__}:learn",
        ranks_only=True,
    ),
)


class Centroids(Model):
    """What was learnt."""

    right: tuple[float, ...]
    wrong: tuple[float, ...]

    def apply(self, states):
        """The distance to wrong rollouts as a share of both distances, float64 (n,) in [0, 1]."""
        if not (self.right and self.wrong):  # nothing to tell apart
            return np.full(len(states), 0.5)
        right, wrong = (np.linalg.norm(states - np.array(mean), axis=1) for mean in (self.right, self.wrong))
        return wrong / (right + wrong)


def learn(target, training, validation):
    """The means of the states of right and of wrong rollouts; empty where there are none."""
    parts = {"right": training.states[training.correct], "wrong": training.states[~training.correct]}
    means = {name: part.mean(axis=0, dtype="float64").tolist() if len(part) else () for name, part in parts.items()}
    return Centroids(**means)
