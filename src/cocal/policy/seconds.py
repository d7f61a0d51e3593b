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
        self._seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def record(self, step: int, seconds: float) -> None:
        """Record the seconds that `step` took."""
        self._seconds[str(step)] = seconds
        write_text(self._path, json.dumps(self._seconds))

    def cost(self, items: int) -> Cost:
        """Cost of all steps, which processed this number of items."""
        return Cost(seconds=sum(self._seconds.values()), items=items, device=device_name())
