"""The time of a run's steps, kept across interruptions."""

import json
from pathlib import Path

from cocal.store import write_text
from cocal.study.costs import Cost, device_name


class StepSeconds:
    """Wall-clock seconds of each step of a run. If a resumed run repeats a step, only the repetition counts.

    Args:
        path: JSON file in the run's working folder, rewritten after every step.
    """

    def __init__(self, path: Path):
        self._path = path
        self._seconds: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def record(self, step: int, seconds: float, states: float = 0.0) -> None:
        """Record the seconds that `step` took, and those of its passes over states, which are not among them."""
        self._seconds[str(step)] = [seconds, states]
        write_text(self._path, json.dumps(self._seconds))

    def cost(self, items: int) -> Cost:
        """Cost of all steps, which processed this number of items."""
        seconds, states = map(sum, zip(*self._seconds.values(), strict=True))
        return Cost(seconds=seconds, items=items, states_seconds=states or None, device=device_name())
