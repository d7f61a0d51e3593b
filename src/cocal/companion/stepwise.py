"""Companions that learn while the policy trains, one rollout step after the other (section 4.1).

The paper depicts the companion this way, and replays stored states instead "for implementation convenience". Here every
rollout step is scored before it is learnt from, which measures the companions on responses that they have not seen,
without a held-out set (prequential evaluation), and the step's states are forgotten, at the latest after a window of
some steps. Only responses to questions that are asked for the first time are scored: what was learnt from an earlier
answer to a question would help with the next one.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cocal.companion.companions import Companions, build_model, write_companions
from cocal.companion.model import Training, matmul_precision
from cocal.companion.settings import CompanionSettings, OnlineSettings, Target
from cocal.companion.spec import CompanionSpec, companion_members
from cocal.companion.supervision import confidence_targets, in_validation
from cocal.errors import ContractError
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import NumberFormat, decoded, encoded
from cocal.metrics.calibration import evaluate
from cocal.runtime.machine import best_device
from cocal.store import atomic_path
from cocal.store.damage import unreadable
from cocal.store.rows import normalised

_ROWS = 512
"""Number of responses that are scored at a time."""


class OnlineCompanions:
    """Companions of every target and seed that learn from each rollout step when it is produced.

    With every step they take one pass of gradient steps over the last `window` steps, the oldest first, in batches of
    the settings' size that never cross two steps. With a window of ten, every response is learnt from ten times, as
    often as in the paper's ten passes. There is no best pass: the weights are always the latest.

    Initial weights and dropped units are those of the replayed companions. No random number of the policy's training is
    touched, so that the policy stays the same to the last bit.

    Args:
        settings: Architecture and training; `passes` has no meaning here.
        inputs: Width of the states.
        number_format: Number format to which states are rounded, as a feature store rounds them.
        window: Number of the last rollout steps that are learnt from.
        bins: Number of bins of the calibration error.

    Attributes:
        steps: Number of rollout steps that were seen.
        kept_bytes: Largest number of bytes of states that were kept from one step to the next.
    """

    def __init__(
        self,
        settings: CompanionSettings,
        inputs: int,
        *,
        number_format: NumberFormat = "float32",
        window: int = 1,
        bins: int = 10,
    ):
        self.settings, self.inputs, self.window = settings, inputs, window
        self.steps = self.kept_bytes = 0
        self._format: NumberFormat = number_format
        self._bins = bins
        self._model = build_model(settings, inputs).to(best_device())
        self._training = Training(self._model, settings)
        self._recent: deque[tuple[Tensor, Tensor]] = deque()
        self._counts = {"training": 0, "validation": 0, "right": 0}
        self._asked: set[str] = set()
        self._scores: list[pd.DataFrame] = []

    @property
    def scores(self) -> pd.DataFrame:
        """Scores of all steps but the first, each before it was learnt from."""
        return pd.concat(self._scores, ignore_index=True) if self._scores else pd.DataFrame(columns=COLUMNS)

    def observe(self, states: np.ndarray, rows: pd.DataFrame) -> pd.DataFrame | None:
        """Score the responses of the next rollout step to questions that no earlier step has asked, then learn from all
        complete ones of training questions. Raises a ContractError if the states have another shape.

        Args:
            states: float32 (n, inputs), pooled states of all responses of the step.
            rows: A row for each response, with the columns correct, group_accuracy (of the whole group), truncated,
                held_out (whether it answers a validation question) and question (its text).

        Returns:
            A row for each member (`scores`); None for the first step, before which nothing was learnt.
        """
        correct, truncated, held_out = (rows[name].to_numpy(bool) for name in ("correct", "truncated", "held_out"))
        if states.shape != (len(rows), self.inputs):
            raise ContractError(
                f"states of rollout step {self.steps + 1} have shape {states.shape}, not {(len(rows), self.inputs)}"
            )
        rounded = torch.from_numpy(decoded(encoded(np.ascontiguousarray(states), self._format), self._format))
        with matmul_precision(self.settings.matmul):
            with torch.inference_mode():
                parts = [self._model(part.to(self._model.device)).cpu() for part in rounded.split(_ROWS)]
            before = torch.cat(parts, dim=1).double().numpy()
            self._learn(rounded, correct, rows["group_accuracy"].to_numpy(), ~truncated & ~held_out)
        self._counts["validation"] += int((~truncated & held_out).sum())
        texts = [normalised(text) for text in rows["question"]]
        new = np.array([text not in self._asked for text in texts])
        self._asked.update(texts)
        self.steps += 1
        if self.steps == 1:
            return None
        table = scores(companion_members(self.settings), before[:, new], correct[new], self._bins, self.steps - 1)
        self._scores.append(table)
        return table

    def _learn(self, states: Tensor, correct: np.ndarray, group_accuracy: np.ndarray, learnt: np.ndarray) -> None:
        self._counts["training"] += int(learnt.sum())
        self._counts["right"] += int((learnt & correct).sum())
        targets = [confidence_targets(t, correct[learnt], group_accuracy[learnt]) for t in self.settings.targets]
        given = states[torch.from_numpy(learnt)], torch.from_numpy(np.stack(targets)[:, None])
        self._recent.append((given[0].to(self._model.device), given[1].to(self._model.device)))
        if any(len(rows) for rows, _ in self._recent):
            size = self.settings.batch_size  # a batch never crosses two steps
            steps = (
                zip(rows.split(size), of.split(size, dim=2), strict=True) for rows, of in self._recent if len(rows)
            )
            self._training.run(chain.from_iterable(steps))
        if len(self._recent) == self.window:
            self._recent.popleft()  # it is not learnt from again
        width = 4 if self._format == "float32" else 2
        self.kept_bytes = max(self.kept_bytes, sum(rows.numel() * width for rows, _ in self._recent))

    def companions(self, layer: int) -> Companions:
        """Copy the companions as they are now, on the processor; `layer` is the zero-based index of the block whose
        states were given. Raises a ContractError if nothing was learnt yet."""
        if not self._counts["training"]:
            raise ContractError(f"online companions have seen {self.steps} rollout steps, and nothing to learn from")
        model = build_model(self.settings, self.inputs).eval()
        model.load_state_dict(self._model.state_dict())
        spec = CompanionSpec(
            settings=self.settings,
            inputs=self.inputs,
            layer=layer,
            poolings=RESPONSE_POOLINGS,
            steps=self.steps,
            validation_steps=self.steps,
            order="online",
            shuffle_seed=None,
            training_responses=self._counts["training"],
            validation_responses=self._counts["validation"],
            training_error_share=1 - self._counts["right"] / self._counts["training"],
            best_pass=(1,) * len(companion_members(self.settings)),
        )
        return Companions(spec, model)

    def save(self, path: Path) -> None:
        """Write all that is needed to go on from here, atomically: weights, optimiser, window and scores."""
        state = {
            "steps": self.steps,
            "kept_bytes": self.kept_bytes,
            "counts": self._counts,
            "asked": sorted(self._asked),
            "model": self._model.state_dict(),
            "training": self._training.state(),
            "recent": [*self._recent],
            "scores": self.scores.to_dict("list"),
        }
        with atomic_path(path) as partial:
            torch.save(state, partial)

    def restore(self, path: Path) -> None:
        """Resume from what `save` wrote. Raises a ContractError if it is missing, damaged, or of other settings."""
        try:
            state = torch.load(path, map_location=self._model.device, weights_only=True)
            self._model.load_state_dict(state["model"])
            self._training.restore(state["training"])
            self._recent.extend(state["recent"])
            self._asked.update(state["asked"])
        except (OSError, KeyError, RuntimeError, ValueError, UnpicklingError) as error:
            raise ContractError(unreadable(path, "state of these online companions", error)) from None
        self.steps, self.kept_bytes, self._counts = state["steps"], state["kept_bytes"], state["counts"]
        self._scores = [pd.DataFrame(state["scores"])] if self.steps > 1 else []


COLUMNS = ("source_step", "step", "target", "seed", "responses", "accuracy", "mean_confidence", "ece", "auroc")
"""Columns of `scores`; `step` is that of the responses."""


def scores(
    members: Sequence[tuple[Target, int]], confidence: np.ndarray, correct: np.ndarray, bins: int, source_step: int
) -> pd.DataFrame:
    """Score confidences in responses of the rollout step that follows those learnt from, truncated ones included.

    Args:
        members: Target and seed of each member.
        confidence: float64 (members, n) in [0, 1].
        correct: bool (n,), verdicts.
        bins: Number of bins of the calibration error.
        source_step: Number of rollout steps that were learnt from.

    Returns:
        One row for each member, with the columns `COLUMNS`; the AUROC is NaN if all responses are correct or all are
        wrong, and all four metrics are NaN without responses.
    """
    valid = np.ones(len(correct), dtype=bool)
    rows = [
        {"source_step": source_step, "step": source_step + 1, "target": target, "seed": seed, "responses": len(correct)}
        | evaluate(values, valid, correct, bins)
        for (target, seed), values in zip(members, confidence, strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def summary(table: pd.DataFrame) -> str:
    """The `scores` of the first target on one step in words, for a line of progress."""
    if not table["responses"].iloc[0]:
        return "before learning from it: no new question"
    means = table[table["target"] == table["target"].iloc[0]][["ece", "auroc"]].mean()
    return f"before learning from it: ECE {means['ece']:.3f}, AUROC {means['auroc']:.3f}"


class OnlineLearner(OnlineCompanions):
    """Companions that learn inside the training of a policy, from the rollouts of each step once they are recorded.

    They read the deepest of the captured blocks, whose zero-based index is `layer`. The responses to a share of the
    questions (a table with the columns question_id and question) are held out, as from companions that replay the
    rollouts, so that both learn from the same responses.

    Attributes:
        summary: Scores of the last step in words, for the progress line; empty after the first step.
    """

    def __init__(
        self, settings: OnlineSettings, questions: pd.DataFrame, layer: int, hidden: int, number_format: NumberFormat
    ):
        companion, ids, texts = settings.companion, questions["question_id"], questions["question"]
        inputs = len(RESPONSE_POOLINGS) * hidden
        super().__init__(companion, inputs, number_format=number_format, window=settings.window)
        held_out = in_validation(texts, texts, companion.validation_share, companion.split_seed)
        self._held_out = dict(zip(ids, held_out, strict=True))
        self._texts = dict(zip(ids, texts, strict=True))
        self._layer = layer
        self.summary = ""

    def learn(self, frame: pd.DataFrame, states: np.ndarray) -> None:
        """Score the rollouts of a step (`OnlineCompanions.observe`), then learn from them.

        The frame is in the contract of cocal.store.contracts.RESPONSES. Of the states, float32 (rollouts, layers,
        poolings, hidden), the last layer is read.
        """
        asked = frame["question_id"]
        rows = frame.assign(held_out=asked.map(self._held_out), question=asked.map(self._texts))
        table = self.observe(states[:, -1].reshape(len(states), -1), rows)
        self.summary = "" if table is None else summary(table)

    def write(self, folder: Path, attributes: Mapping[str, str]) -> None:
        """Write the companions and the scores of all steps, as `history.csv`."""
        companions = self.companions(self._layer)
        step = str(companions.spec.steps)
        facts = {"experience": "online", "source_step": step, "validation_step": step}
        write_companions(folder, companions, self.scores, {**attributes, **facts})
