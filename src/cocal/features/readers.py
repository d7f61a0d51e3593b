"""Assigns to each rollout step the checkpoint that recomputes its hidden states."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.store.run_folder import file_states

_STAGE = re.compile(r"step-(\d+)")
_EXACT = re.compile(r"(weight_v|step-)(\d+)")


class StepCheckpoints:
    """Checkpoints in place of the policies that sampled the rollouts.

    The paper's approximation (appendix F.4) uses, for the steps after one stage and up to the next, the next stage's
    checkpoint. If the weights of every step were kept, each step uses the policy that sampled it.

    Args:
        stages: Policies by the step after which they were saved.
        exact: Folder with the weights of every step, if they were kept. `weight_v000001` holds the weights that sampled
            step 1 (slime's `--update-weight-disk-dir`), `step-0` those of the policy before step 1.
    """

    def __init__(self, stages: Mapping[int, Path], exact: Path | None = None):
        self._stages = dict(sorted(stages.items()))
        self._folder = exact
        self._exact = _by_step(exact) if exact else {}

    @classmethod
    def from_folders(cls, stages: Sequence[Path], exact: Path | None = None) -> "StepCheckpoints":
        """Take the stages from folders named step-N.

        Raises:
            ConfigError: if a folder has another name, or neither stages nor exact weights are given.
        """
        found = {}
        for path in stages:
            match = _STAGE.fullmatch(path.name)
            if match is None:
                raise ConfigError(f"--checkpoints: {path} is not named step-N")
            found[int(match[1])] = path
        if not found and exact is None:
            raise ConfigError("--checkpoints: give the checkpoints of the stages, or weights of every step (--exact)")
        return cls(found, exact)

    def of_step(self, step: int) -> Path:
        """Return the checkpoint of a rollout step, counted from 1.

        Raises:
            ContractError: if there is none.
        """
        if self._folder:
            if step not in self._exact:
                raise ContractError(f"{self._folder}: no weights of the policy that sampled step {step}")
            return self._exact[step]
        for stage, path in self._stages.items():
            if step <= stage:
                return path
        raise ContractError(f"no checkpoint is of step {step} or later; the last one is of step {max(self._stages)}")

    def spans(self, steps: int) -> Iterator[tuple[Path, range]]:
        """Yield each checkpoint with the range of steps among 1 to `steps` that it is used for."""
        first = 1
        for step in range(1, steps + 1):
            if step == steps or self.of_step(step + 1) != self.of_step(first):
                yield self.of_step(first), range(first, step + 1)
                first = step + 1

    @property
    def last(self) -> int:
        """The last step that has a checkpoint."""
        return max(self._exact or self._stages)

    @property
    def folders(self) -> list[Path]:
        """The checkpoints, in the order of their steps."""
        return list((self._exact or self._stages).values())

    def state(self) -> dict[str, tuple[int, int]]:
        """Return the states of all weight files, which differ between sets of policies."""
        return file_states(file for folder in self.folders for file in sorted(folder.glob("*.safetensors")))


def _by_step(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        raise ContractError(f"{folder}: there is no such folder with the weights of every step")
    found = {}
    for entry in sorted(folder.iterdir()):
        if match := _EXACT.fullmatch(entry.name):
            found[int(match[2]) + (match[1] == "step-")] = entry
    return found
