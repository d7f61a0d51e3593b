"""Import of another engine's rollouts, one step after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from cocal.errors import ContractError
from cocal.integrations import jsonl
from cocal.integrations.slime import dumps as slime
from cocal.integrations.tables import StepTables
from cocal.integrations.trl import dumps as trl
from cocal.policy.recorder import Outputs, RolloutRecorder
from cocal.runtime.progress import Progress
from cocal.store.run_folder import RunFolder

FORMATS: dict[str, ModuleType] = {"slime": slime, "trl": trl, "jsonl": jsonl}
"""Module of each dump format: its `files` finds the file of every rollout step, its `read` returns a file's samples."""


@dataclass(frozen=True)
class Dumps:
    """Rollout dumps of a training by another engine, one file per step.

    Attributes:
        format: Key of FORMATS.
        files: File of each rollout step, from 1 to n.
        reward_key: Name of the reward where a sample has several.
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


def import_rollouts(dumps: Dumps, tables: StepTables, run: RunFolder, outputs: Outputs) -> None:
    """Write a table `step-00001.parquet` and so on for each step, and publish them.

    Only one step is in memory at a time; a killed import resumes.

    Raises:
        ContractError: if a dump is invalid; the message names file and sample.
    """
    steps, read = len(dumps.files), FORMATS[dumps.format].read
    recorder = RolloutRecorder(run, steps, outputs.attributes)
    todo = recorder.missing()
    progress = Progress("step", steps, done=steps - len(todo))
    with recorder:
        for step in todo:
            path = dumps.files[step]
            frame = tables.table(step, read(path, dumps.reward_key), str(path))
            recorder.write(frame)
            accuracy, truncated = frame["correct"].mean(), frame["truncated"].mean()
            progress.add(detail=f"accuracy {accuracy:.3f}, truncated {100 * truncated:.1f} %")
    recorder.publish(outputs, items=steps)
