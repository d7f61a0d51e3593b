"""Companions that learn inside the training of a policy (section 4.1)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.companions import write_companions
from cocal.companion.settings import OnlineSettings
from cocal.companion.stepwise import OnlineCompanions, summary
from cocal.companion.supervision import in_validation
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import NumberFormat

STATE = "online.pt"
"""Name of the file with the state of the learning in a checkpoint of the training."""


class OnlineLearner:
    """Lets companions learn from the rollouts of each step, once they are recorded.

    They read the deepest of the captured blocks. The responses to a share of the questions are held out, as from
    companions that replay the rollouts, so that both learn from the same responses.

    Args:
        settings: Architecture, training and window.
        questions: Training set (cocal.store.contracts.QUESTIONS).
        layer: Zero-based index of the deepest captured block.
        hidden: Width of a state.
        number_format: Number format to which states are rounded.
    """

    def __init__(
        self, settings: OnlineSettings, questions: pd.DataFrame, layer: int, hidden: int, number_format: NumberFormat
    ):
        companion = settings.companion
        held_out = in_validation(
            questions["question"], questions["question"], companion.validation_share, companion.split_seed
        )
        self._held_out = dict(zip(questions["question_id"], held_out, strict=True))
        self._texts = dict(zip(questions["question_id"], questions["question"], strict=True))
        self._layer = layer
        options = {"number_format": number_format, "window": settings.window, "bins": settings.bins}
        self._learner = OnlineCompanions(companion, len(RESPONSE_POOLINGS) * hidden, **options)
        self.summary = ""
        """Scores of the last step in words, for the progress line; empty after the first step."""

    def learn(self, frame: pd.DataFrame, states: np.ndarray) -> None:
        """Score the rollouts of a step (`OnlineCompanions.observe`), then learn from them.

        Args:
            frame: Rollouts of one step in the contract of cocal.store.contracts.RESPONSES.
            states: float32 (rollouts, layers, poolings, hidden), of which the last layer is read.
        """
        asked = frame["question_id"]
        rows = frame.assign(held_out=asked.map(self._held_out), question=asked.map(self._texts))
        found = self._learner.observe(states[:, -1].reshape(len(states), -1), rows)
        self.summary = "" if found is None else summary(found)

    def save(self, checkpoint: Path) -> None:
        """Put the state of the learning into a checkpoint of the training."""
        self._learner.save(checkpoint / STATE)

    def restore(self, checkpoint: Path) -> None:
        """Go on from a checkpoint of the training.

        Raises:
            ContractError: if it holds no state of this learning.
        """
        self._learner.restore(checkpoint / STATE)

    def write(self, folder: Path, attributes: Mapping[str, str]) -> None:
        """Write the companions and the scores of all steps, as `history.csv`."""
        found = self._learner.companions(self._layer)
        step = str(found.spec.steps)
        facts = {"experience": "online", "source_step": step, "validation_step": step}
        write_companions(folder, found, self._learner.scores, {**attributes, **facts})
