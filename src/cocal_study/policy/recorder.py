"""Recording of a run's rollouts on disk: one table per step, one feature store, and the time of each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.features.store import FeatureWriter, create_features, open_features
from cocal.rollouts.recorded import StepWriter
from cocal.store import read_document, write_document
from cocal.store.damage import remedy
from cocal.store.run_folder import RunFolder
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.evaluated import stored_states
from cocal_study.planning.costs import Cost, device_name, write_cost
from cocal_study.provenance.lineage import placed

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class StepSeconds:
    """Wall-clock seconds of each step of a run, in a JSON file of its working folder. If a resumed run repeats a
    step, only the repetition counts. Raises ContractError if the file cannot be read, or has changed since it was
    written.
    """

    def __init__(self, path: Path):
        self._path = path
        self._seconds: dict[str, tuple[float, ...]] = read_document(path) if path.exists() else {}

    def record(self, step: int, seconds: float, states: float = 0.0, difference: Sequence[float] = ()) -> None:
        """Record the seconds that a step took without its passes over states, the seconds of these (`states`), and the
        mean and largest difference of log-probabilities (`cocal_study.planning.costs.Cost.vllm_differences`)."""
        self._seconds[str(step)] = seconds, states, *difference
        write_document(self._path, self._seconds, {})

    def cost(self, items: int) -> Cost:
        """Cost of all steps, which processed this number of items. Raises ContractError if the file was lost."""
        if not self._seconds:
            raise ContractError(f"{self._path}: the times of all steps are lost; {remedy(self._path)}")
        rows = [self._seconds[step] for step in sorted(self._seconds, key=int)]
        seconds, states = (sum(row[k] for row in rows) for k in (0, 1))
        differences = tuple((mean, largest) for _, _, mean, largest in (row for row in rows if row[2:]))
        states = states or None
        return Cost(
            seconds=seconds, items=items, states_seconds=states, vllm_differences=differences, device=device_name()
        )


@dataclass(frozen=True)
class Outputs:
    """Places of a run's results."""

    stages: Mapping[int, Path]
    """Checkpoint folder by rollout step; empty where no policy is trained."""
    rollouts: Path
    """Folder of the rollout tables, one per step."""
    features: Path | None = None
    """Feature store of all rollouts; None where no companion learns from them later."""
    cost: Path | None = None
    """File for the time of all steps; None if it is not recorded."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Provenance of all results; see `of`."""

    def of(self, output: Path, **facts: str) -> dict[str, str]:
        """Provenance of one of the results, with its own place and these further facts."""
        return {**self.attributes, **placed(output), **facts}


class RolloutRecorder(StepWriter):
    """Writes the rollouts of a run and its `seconds.json`, and publishes them with its other results.

    As a context manager, it waits at its end for the last write, also after an error, so that all steps given to it are
    there when the work is resumed.
    """

    def __init__(
        self, run: RunFolder, steps: int, attributes: Mapping[str, str], features: FeatureWriter | None = None
    ):
        super().__init__(run.path, attributes, features)
        self._run = run
        self._steps = range(1, steps + 1)
        self.seconds = StepSeconds(run.path / "seconds.json")

    def missing(self) -> list[int]:
        """Steps without a table."""
        return [step for step in self._steps if not self.table(step).exists()]

    def publish(self, outputs: Outputs, items: int) -> None:
        """Move all results to their places, `step-N` to that of each stage, and remove the working folder. The cost is
        that of `items` items. Raises ContractError if rollouts or features of a step are missing, or the last step
        could not be written."""
        self.wait()
        if missing := self.missing():
            raise ContractError(f"{self._folder}: rollouts of step {missing[0]} are missing; {remedy(self._folder)}")
        places: dict[str, Any] = {"rollouts": outputs.rollouts}
        if self.features is not None:
            open_features(self.features.path)  # raises an error if the store has gaps
            places["features.zarr"] = outputs.features
        if outputs.cost is not None:
            write_cost(outputs.cost, self.seconds.cost(items), outputs.of(outputs.cost))
        self._run.publish(places | {f"step-{step}": folder for step, folder in outputs.stages.items()})


def open_recorder(
    run: RunFolder, training: PolicySettings, config: "PretrainedConfig", features: FeatureSettings, outputs: Outputs
) -> RolloutRecorder:
    """Open the recorder of a new or a resumed run for the steps of `training` and a policy with this `config`
    (`cocal.models.loading.text_config`). The run's folder gets `features.zarr` if the outputs name a store."""
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
