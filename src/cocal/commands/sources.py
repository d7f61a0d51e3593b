"""`cocal sources`: download and verify the files of registered question sets."""

import argparse
import logging

from cocal.config import parse_settings
from cocal.questions.registry import Registry
from cocal.questions.sources import fetch
from cocal.store import provenance, write_document
from cocal.store.provenance import file_digest


def run(options: argparse.Namespace) -> None:
    """Fetch the files that the cache lacks, verify all files, and report them."""
    registry = parse_settings(Registry, options.registry, "--registry")
    registry = registry.slice(options.sets or registry.sets)
    report = {}
    for name, entry in registry.sets.items():
        for file in entry.source.files:
            path = fetch(entry.source, file, options.cache, options.mirror)
            facts = {"sha256": file_digest(path), "bytes": path.stat().st_size}
            report.setdefault(name, {})[entry.source.place(file)] = facts
        logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
    if options.output:
        write_document(options.output, {"files": report}, provenance("sources", registry))
