"""`cocal sources`: download and verify the files of registered question sets."""

import argparse
import logging
import os

from cocal.commands.flags import add_cache, add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "--registry", default="config/datasets.yaml", help="YAML file of the registry, or a part of it as JSON"
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="registered names (default: all)")
    add_cache(parser)
    parser.add_argument(
        "--mirror",
        default=os.environ.get("COCAL_MIRROR"),
        help="address that replaces the hosts: http(s)://... or file:///folder (default: the variable COCAL_MIRROR)",
    )
    add_output(parser, "--output", help="JSON report of the files and their checksums")


def run(options: argparse.Namespace) -> None:
    """Fetch the files that the cache lacks, verify all files, and report them."""
    from cocal.config import parse_settings
    from cocal.questions.registry import Registry
    from cocal.questions.sources import describe, fetch
    from cocal.store import provenance, write_document

    registry = parse_settings(Registry, options.registry, "--registry")
    registry = registry.slice(options.sets or registry.sets)
    report = {}
    for name, entry in registry.sets.items():
        for file in entry.source.files:
            path = fetch(entry.source, file, options.cache, options.mirror)
            report.setdefault(name, {})[entry.source.place(file)] = describe(path)
        logging.info("%s: %d file(s) verified; licence: %s", name, len(report[name]), entry.licence)
    if options.output:
        write_document(options.output, {"files": report}, provenance("sources", registry))
