"""The time of a training elsewhere, as its study states it."""

from typing import ClassVar

from cocal.settings.base import Count, Positive
from cocal_study.stages.base import Out, Stage


class ImportCost(Stage):
    """Writes what a training took that another engine ran."""

    command: ClassVar[str] = "import-cost"
    computed: ClassVar[bool] = False

    seconds: Positive
    """wall-clock time of the training"""
    items: Count
    """number of its steps"""
    device: str
    """name of the device that it ran on"""
    output: Out
    """JSON file for the time"""

    def run(self) -> None:
        """Write it; it has no provenance, since nobody measured it here."""
        from cocal.store import write_text
        from cocal.store.provenance import canonical

        write_text(self.output, canonical(self.model_dump(include={"seconds", "items", "device"})) + "\n")
