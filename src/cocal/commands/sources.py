"""`cocal sources`: download and verify the files of registered question sets."""

import argparse
import logging
import os
from pathlib import Path

from cocal.commands.flags import add_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "--registry", default="config/datasets.yaml", help="YAML file of the registry, or JSON: a slice of it"
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="registered names; all by default")
    add_cache(parser)
    parser.add_argument(
        "--mirror",
        default=os.environ.get("COCAL_MIRROR"),
        help="base instead of the hosts: http(s)://... or file:///folder; the variable COCAL_MIRROR by default",
    )
    parser.add_argument("--output", type=Path, help="JSON: what lies where, with checksums")


def run(options: argparse.Namespace) -> None:
    """Fetch what the cache lacks, verify all of it, say what is there."""
    import json

    from cocal.config import parse_settings
    from cocal.questions.registry import Registry
    from cocal.questions.sources import describe, fetch
    from cocal.store import provenance, write_text

    registry = parse_settings(Registry, options.registry, "--registry")
    registry = registry.slice(options.sets or registry.sets)
    report = {}
    for name, entry in registry.sets.items():
        for file in entry.source.files:
            path = fetch(entry.source, file, options.cache, options.mirror)
            report.setdefault(name, {})[entry.source.place(file)] = describe(path)
        logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
    if options.output:
        content = {"files": report, "provenance": provenance("sources", registry)}
        write_text(options.output, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
