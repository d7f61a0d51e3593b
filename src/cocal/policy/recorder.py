"""Recording of a run's rollouts on disk: one table per step, one feature store, and the time of each step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from cocal.answers.judge import Verdicts
from cocal.config.evaluation import FeatureSettings
from cocal.config.policy import PolicySettings
from cocal.errors import ContractError
from cocal.features.extract import stored_states
from cocal.features.store import FeatureWriter, create_features, open_features
from cocal.policy.objectives import Rewards
from cocal.rewards import group_accuracy
from cocal.store import read_document, write_document, write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import remedy
from cocal.store.lineage import placed
from cocal.store.run_folder import RunFolder, WriteBehind
from cocal.study.costs import Cost, device_name, write_cost

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class StepSeconds:
    """Wall-clock seconds of each step of a run. If a resumed run repeats a step, only the repetition counts.

    Args:
        path: JSON file in the run's working folder, rewritten after every step.

    Raises:
        ContractError: if the file cannot be read, or has changed since it was written.
    """

    def __init__(self, path: Path):
        self._path = path
        self._seconds: dict[str, tuple[float, ...]] = read_document(path) if path.exists() else {}

    def record(self, step: int, seconds: float, states: float = 0.0, difference: Sequence[float] = ()) -> None:
        """Record the seconds that `step` took, and those of its passes over states, which are not among them.

        Args:
            difference: Mean and largest difference of log-probabilities (`cocal.study.costs.Cost.vllm_differences`).
        """
        self._seconds[str(step)] = seconds, states, *difference
        write_document(self._path, self._seconds, {})

    def cost(self, items: int) -> Cost:
        """Cost of all steps, which processed this number of items.

        Raises:
            ContractError: if no step was recorded, because the file was lost.
        """
        if not self._seconds:
            raise ContractError(f"{self._path}: the times of all steps are lost; {remedy(self._path)}")
        rows = [self._seconds[step] for step in sorted(self._seconds, key=int)]
        seconds, states = (sum(row[k] for row in rows) for k in (0, 1))
        differences = tuple(tuple(row[2:]) for row in rows if row[2:])
        states = states or None
        return Cost(
            seconds=seconds, items=items, states_seconds=states, vllm_differences=differences, device=device_name()
        )


@dataclass(frozen=True)
class Outputs:
    """Where a run's results go.

    Attributes:
        stages: Checkpoint folder by rollout step; empty where no policy is trained.
        rollouts: Folder of the rollout tables, one per step.
        features: Feature store of all rollouts; None where no companion learns from them later.
        cost: File for the time of all steps; None if it is not wanted.
        attributes: Provenance of all results; see `of`.
        online: Folder of the companions that have learnt inside the training; None without such.
    """

    stages: Mapping[int, Path]
    rollouts: Path
    features: Path | None = None
    cost: Path | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    online: Path | None = None

    def of(self, output: Path, **facts: str) -> dict[str, str]:
        """Provenance of one of the results, with its own place and these further facts."""
        return {**self.attributes, **placed(output), **facts}


def rollout_rows(sampled: pd.DataFrame, verdicts: Verdicts, rewards: Rewards, group_size: int) -> pd.DataFrame:
    """Sampled rollouts with verdicts and rewards, in the contract of cocal.store.contracts.RESPONSES.

    Rollouts answer mathematical questions, and their answers are not compared with one another.

    Args:
        sampled: Responses in the contract of cocal.store.contracts.SAMPLED; those to one question are consecutive.
    """
    return sampled.assign(
        answer_class=np.nan,
        correct=verdicts.values,
        exact_match=pd.array([None] * len(sampled), dtype="boolean"),
        decided=verdicts.decided,
        group_accuracy=group_accuracy(verdicts.values, group_size),
        reward_task=rewards.task,
        reward_calibration=np.nan if rewards.calibration is None else rewards.calibration,
    )


class StepWriter:
    """Writes rollouts and their states, each step's while the next is computed.

    A step that a resumed training writes again replaces the earlier one.

    Args:
        folder: Folder that gets `rollouts` with `step-00001.parquet` and so on.
        features: Writer of a store that holds all steps; None where no states are kept.
    """

    def __init__(self, folder: Path, attributes: Mapping[str, str], features: FeatureWriter | None = None):
        self._folder = folder / "rollouts"
        self._attributes = dict(attributes)
        self.features = features
        self._behind = WriteBehind()

    def write(self, frame: pd.DataFrame | Callable[[], pd.DataFrame], features: np.ndarray | None = None) -> None:
        """Begin to record the rollouts of one step; all steps have the same number of rollouts.

        Args:
            frame: Rollouts in the contract of cocal.store.contracts.RESPONSES; response ids count through all steps.
                The caller does not change it afterwards. A function is called for them in the thread that writes.
            features: Pooled states, float32 (rollouts, layers, poolings, hidden), which the caller does not change
                afterwards; None without a store.

        Raises:
            ContractError, OSError: raised by the writing of the step before.
        """
        self._behind.start(lambda: self._write(frame, features))

    def wait(self) -> None:
        """Wait until all steps that were given are on disk; raises what writing the last of them raised."""
        self._behind.wait()

    def _write(self, frame: pd.DataFrame | Callable[[], pd.DataFrame], features: np.ndarray | None) -> None:
        if callable(frame):
            frame = frame()
        if self.features is not None:
            self.features.write(int(frame["response_id"].iloc[0]), frame, features)
        write_frame(self.table(frame["step"].iloc[0]), frame, RESPONSES, self._attributes)

    def table(self, step: int) -> Path:
        """Table of a step; names sort in the order of the steps."""
        return self._folder / f"step-{step:05d}.parquet"


class RolloutRecorder(StepWriter):
    """Writes the rollouts of a run, and publishes them with its other results.

    As a context manager it waits at the end for the last write, after an error too, so that the steps given before it
    are there when the work is resumed.

    Args:
        run: Working folder; it gets what `StepWriter` writes, and `seconds.json`.
        features: Writer of a store that holds all steps; None where no companion learns from the rollouts.
    """

    def __init__(
        self, run: RunFolder, steps: int, attributes: Mapping[str, str], features: FeatureWriter | None = None
    ):
        super().__init__(run.path, attributes, features)
        self._run = run
        self._steps = range(1, steps + 1)
        self.seconds = StepSeconds(run.path / "seconds.json")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.wait()

    def missing(self) -> list[int]:
        """Steps without a table."""
        return [step for step in self._steps if not self.table(step).exists()]

    def publish(self, outputs: Outputs, items: int) -> None:
        """Move all results to their places, and remove the working folder.

        Args:
            outputs: Places of the results; the working folder holds a policy `step-N` for each of the stages, and the
                folder `online` if there is a place for it.
            items: Number of items that all steps processed, for the cost.

        Raises:
            ContractError: if rollouts or features of a step are missing, or the last step could not be written.
        """
        self.wait()
        if missing := self.missing():
            raise ContractError(f"{self._folder}: rollouts of step {missing[0]} are missing; {remedy(self._folder)}")
        places = {"rollouts": outputs.rollouts}
        if self.features is not None:
            open_features(self.features.path)  # raises an error if the store has gaps
            places["features.zarr"] = outputs.features
        if outputs.online is not None:
            places["online"] = outputs.online
        if outputs.cost is not None:
            write_cost(outputs.cost, self.seconds.cost(items), outputs.of(outputs.cost))
        self._run.publish(places | {f"step-{step}": folder for step, folder in outputs.stages.items()})


def open_recorder(
    run: RunFolder, training: PolicySettings, config: "PretrainedConfig", features: FeatureSettings, outputs: Outputs
) -> RolloutRecorder:
    """Open the recorder of a new or a resumed run.

    Args:
        run: Working folder; it also gets `features.zarr` where the outputs name a feature store.
        training: Settings of the training, for the number and size of the steps.
        config: The policy's configuration (`cocal.models.loading.text_config`).
        features: Layers and number format of the store.
    """
    writer = None
    if outputs.features is not None:
        rollouts = training.questions_per_step * training.responses_per_question
        writer = create_features(
            run.path / "features.zarr",
            responses=training.steps * rollouts,
            rows_per_chunk=rollouts,
            attributes=outputs.of(outputs.features),
            resume=run.resumed,
            **stored_states(config, features),
        )
    return RolloutRecorder(run, training.steps, outputs.attributes, writer)
