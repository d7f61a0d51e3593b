"""Checkpoints that exist: download those of the hub, and make those of another engine a study's policies."""

import argparse
from pathlib import Path

from cocal.commands.words import pairs
from cocal.models.hub import download
from cocal.models.loading import load_tokenizer, require_complete
from cocal.store import write_text
from cocal.store.lineage import Source, descent, inherited
from cocal.store.provenance import canonical
from cocal_study.backbones.importing import import_checkpoint
from cocal_study.config import parse_settings
from cocal_study.config.backbone import BackboneChoice


def run_hub(options: argparse.Namespace) -> None:
    """Download the checkpoint into the hub's own cache, and check it."""
    folder = download(options.name, options.revision)
    require_complete(folder)
    load_tokenizer(folder)
    write_text(options.output, canonical({"name": options.name, "revision": options.revision}) + "\n")


def run_import_checkpoints(options: argparse.Namespace) -> None:
    """Check every stage's checkpoint and put it in its place."""
    backbone = parse_settings(BackboneChoice, options.backbone, "--backbone").root
    stages = {int(step): Path(to) for step, to in pairs("--stages", options.stages, "STEP=FOLDER", str.isdecimal)}
    base = Source(options.base, algorithm="base", step=0)
    facts = inherited(options.base, "backbone") | {"algorithm": options.algorithm, "experience": "rollouts"}
    for step, source in stages.items():
        output = options.output / f"step-{step}"
        import_checkpoint(
            source,
            output,
            depth=backbone.depth,
            width=backbone.width,
            attributes=descent(output, "import-checkpoints", {"source": str(source)}, [base], step=step, **facts),
            base=options.base,
        )
