"""`cocal hub`: download a pinned checkpoint of the Hugging Face hub before the jobs that load it."""

import argparse

from cocal.models.importing import download
from cocal.models.loading import load_tokenizer, require_complete
from cocal.store import write_text
from cocal.store.provenance import canonical


def run(options: argparse.Namespace) -> None:
    """Download the checkpoint into the hub's own cache, and check it."""
    folder = download(options.name, options.revision)
    require_complete(folder)
    load_tokenizer(folder)
    write_text(options.output, canonical({"name": options.name, "revision": options.revision}) + "\n")
