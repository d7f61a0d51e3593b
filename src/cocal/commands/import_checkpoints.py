"""`cocal import-checkpoints`: make checkpoints that another engine trained the policies of a study."""

import argparse
from pathlib import Path

from cocal.config import ConfigError, parse_settings
from cocal.config.backbone import BackboneChoice
from cocal.models.importing import import_checkpoint
from cocal.store.lineage import Source, descent, inherited


def run(options: argparse.Namespace) -> None:
    """Check every stage's checkpoint and put it in its place."""
    backbone = parse_settings(BackboneChoice, options.backbone, "--backbone").root
    stages = {}
    for word in options.stages:
        step, equals, folder = word.partition("=")
        if not equals or not step.isdecimal():
            raise ConfigError(f"--stages: {word!r} is not STEP=FOLDER")
        stages[int(step)] = Path(folder)
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
