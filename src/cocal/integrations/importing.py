"""Importing rollouts, one step after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from cocal.errors import ContractError
from cocal.integrations import jsonl, trl
from cocal.integrations.slime import dumps as slime
from cocal.integrations.tables import StepTables
from cocal.policy.recorder import Outputs, RolloutRecorder
from cocal.runtime.progress import Progress
from cocal.store.run_folder import RunFolder, file_states

FORMATS: dict[str, ModuleType] = {"slime": slime, "trl": trl, "jsonl": jsonl}
"""Each with `files` (rollout step -> file) and `read` (samples of a file)."""


@dataclass(frozen=True)
class Dumps:
    """Rollouts of a training as another engine left them: one file a step.

    Attributes:
        format: key of FORMATS.
        files: of the steps 1 to n.
        reward_key: the reward's name where there are several.
    """

    format: str
    files: Mapping[int, Path]
    reward_key: str

    @classmethod
    def of(cls, format: str, folder: Path, steps: int, reward_key: str) -> "Dumps":
        """The dumps of the first `steps` steps in a folder.

        Raises:
            ContractError: if one is missing.
        """
        found = FORMATS[format].files(folder)
        missing = [step for step in range(1, steps + 1) if step not in found]
        if missing:
            raise ContractError(f"{folder}: no dump of rollout step {missing[0]}; steps 1 to {steps} are needed")
        return cls(format, {step: found[step] for step in range(1, steps + 1)}, reward_key)

    def state(self) -> dict[str, tuple[int, int]]:
        """What tells one set of dumps from another."""
        return file_states(self.files.values())


def import_rollouts(dumps: Dumps, tables: StepTables, run: RunFolder, outputs: Outputs) -> None:
    """Write a table a step, and publish them. One step is in memory at a time; a killed import goes on with the next.

    Args:
        dumps: what to read.
        tables: makes the tables.
        run: working folder.
        outputs: folder for `step-00001.parquet` and so on, and their provenance.

    Raises:
        ContractError: naming file, sample and what is wrong.
    """
    steps = len(dumps.files)
    recorder = RolloutRecorder(run, steps, outputs.attributes)
    todo = recorder.missing()
    progress = Progress("step", steps, done=steps - len(todo))
    for step in todo:
        path = dumps.files[step]
        frame = tables.table(step, FORMATS[dumps.format].read(path, dumps.reward_key), str(path))
        recorder.write(frame)
        accuracy, truncated = frame["correct"].mean(), frame["truncated"].mean()
        progress.add(detail=f"accuracy {accuracy:.3f}, truncated {100 * truncated:.1f} %")
    recorder.publish(outputs, items=steps)
