"""Which checkpoint reads the rollouts of which step."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.store.run_folder import file_states

_STAGE = re.compile(r"step-(\d+)")
_EXACT = re.compile(r"(weight_v|step-)(\d+)")


class StepCheckpoints:
    """Checkpoints that stand for the policies of the past.

    The paper's approximation (appendix F.4): the steps after one stage and up to the next are read by that next stage's
    checkpoint. Where the weights of every step were kept, each step is read by the policy that sampled it.

    Args:
        stages: policies by the step they were kept after.
        exact: folder of the weights of every step: `weight_v000001` is what sampled step 1 (slime's
            `--update-weight-disk-dir`), `step-0` is the policy before step 1.
    """

    def __init__(self, stages: Mapping[int, Path], exact: Path | None = None):
        self._stages = dict(sorted(stages.items()))
        self._folder = exact
        self._exact = _by_step(exact) if exact else {}

    @classmethod
    def from_folders(cls, stages: Sequence[Path], exact: Path | None = None) -> "StepCheckpoints":
        """From folders named step-N.

        Raises:
            ConfigError: if one has another name, or none is given.
        """
        found = {}
        for path in stages:
            match = _STAGE.fullmatch(path.name)
            if match is None:
                raise ConfigError(f"--checkpoints: {path} is not named step-N")
            found[int(match[1])] = path
        if not found and exact is None:
            raise ConfigError("--checkpoints: give those of the stages, or the weights of every step (--exact)")
        return cls(found, exact)

    def of_step(self, step: int) -> Path:
        """The checkpoint that reads a rollout step, from 1.

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
        raise ContractError(f"no checkpoint is of step {step} or later; the last one is of {max(self._stages)}")

    def spans(self, steps: int) -> Iterator[tuple[Path, range]]:
        """The steps 1 to `steps`, those together that one checkpoint reads."""
        first = 1
        for step in range(1, steps + 1):
            if step == steps or self.of_step(step + 1) != self.of_step(first):
                yield self.of_step(first), range(first, step + 1)
                first = step + 1

    @property
    def last(self) -> int:
        """The last step that can be read."""
        return max(self._exact or self._stages)

    def state(self) -> dict[str, tuple[int, int]]:
        """What tells one set of policies from another."""
        folders = self._exact.values() if self._folder else self._stages.values()
        return file_states(file for folder in folders for file in sorted(folder.glob("*.safetensors")))


def _by_step(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        raise ContractError(f"{folder}: no such folder of the weights of every step")
    found = {}
    for entry in sorted(folder.iterdir()):
        if match := _EXACT.fullmatch(entry.name):
            found[int(match[2]) + (match[1] == "step-")] = entry
    return found
