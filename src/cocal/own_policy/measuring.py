"""The quality of fitted companions on responses to held-out questions, as the fields of `About` state it."""

from math import ceil

import numpy as np

from cocal.metrics.calibration import reliability_bins
from cocal.metrics.settings import MetricSettings
from cocal.own_policy.about import About
from cocal.own_policy.facts import HeldOut, ResponseFacts
from cocal.own_policy.quality import compared, measured
from cocal.own_policy.rollouts import Experience

LAST_STAGE = 10
"""The last stage is the last of so many parts of the steps: its responses are like what the finished policy answers."""


def last_stage(experience: Experience, held_out: np.ndarray) -> np.ndarray:
    """The responses of the last stage, bool (n,): of the last steps with held-out responses; where the rollouts name no
    steps, the last of these responses and all between them."""
    moment = experience.rows["step" if experience.has_steps else "response_id"].to_numpy()
    moments = np.unique(moment[held_out])
    return moment >= moments[-ceil(len(moments) / LAST_STAGE)]


def measured_fields(
    about: About, experience: Experience, held_out: np.ndarray, confidence: np.ndarray, others: dict[str, np.ndarray]
) -> dict[str, HeldOut | ResponseFacts | None]:
    """The fields of `About` that tell the quality on the responses to held-out questions, truncated ones included.

    `held_out` is bool (n,), `confidence` float64 (n,), and `others` has further ones by their names.
    """
    settings, rows = about.spec.settings, experience.rows
    last, cut = last_stage(experience, held_out), rows["truncated"].to_numpy()

    def quality(chosen: np.ndarray) -> HeldOut:
        held, correct = rows[chosen], rows["correct"].to_numpy()[chosen]
        bins = reliability_bins(confidence[chosen], correct, MetricSettings().bins).query("count > 0")
        return HeldOut.of(
            measured(held["question"], confidence[chosen], correct),
            bins=bins.to_dict("records"),
            steps=(int(held["step"].min()), int(held["step"].max())) if experience.has_steps else None,
            responses=len(held),
            questions=held["question"].nunique(),
            cut=float(held["truncated"].mean()) if experience.tells_cut else None,
            seeds=settings.seeds,
            target=about.spec.usual_target,
            constant=float(correct.var()),
            others={name: compared(one[chosen], correct) for name, one in others.items()},
        )

    stage, apart = rows[last], experience.tells_cut and 0 < cut[held_out].mean() < 1
    return {
        "held_out": quality(held_out & last),
        "held_out_all_steps": None if last[held_out].all() else quality(held_out),
        "held_out_uncut": quality(held_out & ~cut) if apart else None,
        "held_out_cut": quality(held_out & cut) if apart else None,
        "rollouts": ResponseFacts.of(stage["length"], stage["truncated"] if experience.tells_cut else None),
    }
