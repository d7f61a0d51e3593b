"""How long the steps of a run took, across its interruptions."""

import json
from pathlib import Path

from cocal.store import write_text
from cocal.study.costs import Cost, device_name


class StepSeconds:
    """Wall-clock seconds of each step of a run. A step that a resumed run repeats counts once, the last time.

    Args:
        path: file in the run's working folder, kept from step to step.
    """

    def __init__(self, path: Path):
        self._path = path
        self._seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def record(self, step: int, seconds: float) -> None:
        """The seconds that `step` took."""
        self._seconds[str(step)] = seconds
        write_text(self._path, json.dumps(self._seconds))

    def cost(self, items: int) -> Cost:
        """All steps together.

        Args:
            items: what was done in them.
        """
        return Cost(seconds=sum(self._seconds.values()), items=items, device=device_name())
