"""`cocal hub`: download a pinned checkpoint of the Hugging Face hub before the jobs that load it."""

import argparse

from cocal.commands.flags import add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--name", required=True, help="owner/name on the hub")
    parser.add_argument("--revision", required=True, help="commit of the checkpoint")
    add_output(parser, "--output", required=True, help="JSON file to write when the checkpoint is there")


def run(options: argparse.Namespace) -> None:
    """Download the checkpoint into the hub's own cache, and check it."""
    from cocal.models.hub import download
    from cocal.models.loading import load_tokenizer, require_complete
    from cocal.store import write_text
    from cocal.store.provenance import canonical

    folder = download(options.name, options.revision)
    require_complete(folder)
    load_tokenizer(folder)
    write_text(options.output, canonical({"name": options.name, "revision": options.revision}) + "\n")
