"""The time of a run's steps, kept across interruptions."""

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cocal.errors import ContractError
from cocal.store import read_document, write_document
from cocal.store.damage import remedy, unreadable
from cocal.study.costs import Cost, device_name

_Seconds = dict[str, tuple[float, float]]
"""Seconds of each step, and those of its passes over states."""


class StepSeconds:
    """Wall-clock seconds of each step of a run. If a resumed run repeats a step, only the repetition counts.

    Args:
        path: JSON file in the run's working folder, rewritten after every step.

    Raises:
        ContractError: if the file cannot be read, or has changed since it was written.
    """

    def __init__(self, path: Path):
        self._path = path
        try:
            self._seconds = TypeAdapter(_Seconds).validate_python(read_document(path) if path.exists() else {})
        except ValidationError as error:
            raise ContractError(unreadable(path, "file of the times of steps", error.errors()[0]["msg"])) from None

    def record(self, step: int, seconds: float, states: float = 0.0) -> None:
        """Record the seconds that `step` took, and those of its passes over states, which are not among them."""
        self._seconds[str(step)] = seconds, states
        write_document(self._path, self._seconds, {})

    def cost(self, items: int) -> Cost:
        """Cost of all steps, which processed this number of items.

        Raises:
            ContractError: if no step was recorded, because the file was lost.
        """
        if not self._seconds:
            raise ContractError(f"{self._path}: the times of all steps are lost; {remedy(self._path)}")
        seconds, states = map(sum, zip(*self._seconds.values(), strict=True))
        return Cost(seconds=seconds, items=items, states_seconds=states or None, device=device_name())
