"""A pinned checkpoint of the Hugging Face hub, downloaded into its own cache."""

from typing import ClassVar

from cocal_study.stages.base import Out, Stage


class Hub(Stage):
    """Downloads a checkpoint and checks it."""

    command: ClassVar[str] = "hub"
    computed: ClassVar[bool] = False

    name: str
    """owner/name on the hub"""
    revision: str
    """commit of the checkpoint"""
    output: Out
    """JSON file to write when the checkpoint is there"""

    def run(self) -> None:
        """Download, check, and say so."""
        from cocal.models.hub import download
        from cocal.models.loading import load_tokenizer, require_complete
        from cocal.store import write_text
        from cocal.store.provenance import canonical

        folder = download(self.name, self.revision)
        require_complete(folder)
        load_tokenizer(folder)
        write_text(self.output, canonical({"name": self.name, "revision": self.revision}) + "\n")
