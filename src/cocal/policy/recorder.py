"""Writes the rollouts of a run as it goes: one table a step, features into one store."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.features.capture import RESPONSE_POOLINGS
from cocal.features.formats import NumberFormat
from cocal.features.store import FeatureWriter, create_features, open_features
from cocal.policy.seconds import StepSeconds
from cocal.store import write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import remedy
from cocal.store.run_folder import RunFolder


class RolloutRecorder:
    """Keeps rollouts on disk. Writing a step again, as a resumed run does, replaces it.

    Args:
        folder: for `step-00001.parquet` and so on.
        features: writer of a store that holds all steps; None where no companion learns from the rollouts.
        attributes: provenance.
    """

    def __init__(self, folder: Path, features: FeatureWriter | None, attributes: dict[str, str]):
        self._folder = folder
        self._features = features
        self._attributes = attributes

    def write(self, frame: pd.DataFrame, features: np.ndarray | None) -> None:
        """Record the rollouts of one step; all steps have the same number of rollouts.

        Args:
            frame: in the contract of cocal.store.contracts.RESPONSES; response ids count through all steps.
            features: float32 (rollouts, layers, poolings, hidden); None without a store.
        """
        if self._features is not None:
            ids = frame["response_id"].to_numpy()
            self._features.write(int(ids[0]), ids, frame["question_id"].tolist(), frame["length"].to_numpy(), features)
        write_frame(self._file(frame["step"].iloc[0]), frame, RESPONSES, self._attributes)

    def missing(self, steps: int) -> list[int]:
        """Steps up to `steps` without a table."""
        return [step for step in range(1, steps + 1) if not self._file(step).exists()]

    def require(self, steps: int) -> None:
        """Raise ContractError if rollouts or features of a step are missing."""
        missing = self.missing(steps)
        if missing:
            advice = remedy(self._folder, "delete the run, rerun")
            raise ContractError(f"{self._folder}: rollouts of step {missing[0]} are missing; {advice}")
        if self._features is not None:
            open_features(self._features.path)  # refuses a store with gaps

    def _file(self, step: int) -> Path:
        """Table of a step; names sort in the order of the steps."""
        return self._folder / f"step-{step:05d}.parquet"


def open_recorder(
    run: RunFolder,
    *,
    steps: int,
    rollouts: int,
    layers: Sequence[int],
    hidden: int,
    dtype: NumberFormat,
    attributes: dict[str, str],
) -> tuple[RolloutRecorder, StepSeconds]:
    """Recorder and stopwatch of a run, with what the run holds already.

    Args:
        run: gets `rollouts`, `features.zarr` and `seconds.json`.
        steps: rollout steps.
        rollouts: of each step.
        layers: zero-based block indices whose states are kept; none: no store.
        hidden: width of a state.
        dtype: number format of the store.
        attributes: provenance.
    """
    writer = None
    if layers:
        writer = create_features(
            run.path / "features.zarr",
            responses=steps * rollouts,
            layers=layers,
            hidden=hidden,
            rows_per_chunk=rollouts,
            dtype=dtype,
            poolings=RESPONSE_POOLINGS,
            attributes=attributes,
            resume=run.resumed,
        )
    return RolloutRecorder(run.path / "rollouts", writer, attributes), StepSeconds(run.path / "seconds.json")
