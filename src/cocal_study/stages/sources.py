"""Sources of registered question sets: fetched where the cache lacks them, and verified."""

import logging
from typing import ClassVar

from pydantic import Field

from cocal.settings.parse import parse_settings
from cocal_study.questions.registry import Registry
from cocal_study.stages.base import Out, from_environment
from cocal_study.stages.shared import Cached


class Sources(Cached):
    """Fetches the files that the cache lacks, verifies all files, and reports them."""

    command: ClassVar[str] = "sources"
    computed: ClassVar[bool] = False

    registry: Registry = Field(default_factory=lambda: parse_settings(Registry, "config/datasets.yaml"))
    """YAML file of the registry, or a part of it as JSON (default: config/datasets.yaml)"""
    sets: tuple[str, ...] = ()
    """registered names (default: all)"""
    mirror: str | None = from_environment("COCAL_MIRROR")
    """address that replaces the hosts: http(s)://... or file:///folder (default: the variable COCAL_MIRROR)"""
    output: Out | None = None
    """JSON report of the files and their checksums"""

    def run(self) -> None:
        """Fetch, verify and report."""
        from cocal.store import provenance, write_document
        from cocal.store.provenance import file_digest
        from cocal_study.questions.sources import fetch

        registry, report = self.registry.slice(self.sets or self.registry.sets), {}
        for name, entry in registry.sets.items():
            for file in entry.source.files:
                path = fetch(entry.source, file, self.cache, self.mirror)
                facts = {"sha256": file_digest(path), "bytes": path.stat().st_size}
                report.setdefault(name, {})[entry.source.place(file)] = facts
            logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
        if self.output:
            write_document(self.output, {"files": report}, provenance("sources", registry))
