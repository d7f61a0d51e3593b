"""`cocal hub`: a pinned checkpoint of the Hugging Face hub, downloaded before the jobs that load it."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--name", required=True, help="owner/name on the hub")
    parser.add_argument("--revision", required=True, help="commit")
    parser.add_argument("--output", required=True, type=Path, help="JSON file that says that it is there")


def run(options: argparse.Namespace) -> None:
    """Download into the hub's own cache, and check."""
    from cocal.checkpoints.hub import download
    from cocal.checkpoints.loading import load_tokenizer, require_complete
    from cocal.store import write_text
    from cocal.store.provenance import canonical

    folder = download(options.name, options.revision)
    require_complete(folder)
    load_tokenizer(folder)
    write_text(options.output, canonical({"name": options.name, "revision": options.revision}) + "\n")
