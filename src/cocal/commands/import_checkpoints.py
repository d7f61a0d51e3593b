"""`cocal import-checkpoints`: make checkpoints that another engine trained the policies of a study."""

import argparse
from pathlib import Path

from cocal.commands.flags import add_output
from cocal.commands.outputs import STEPS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--backbone", required=True, help="JSON: the backbone's settings")
    parser.add_argument("--algorithm", default="grpo", help="algorithm that trained them (default: grpo)")
    parser.add_argument("--base", required=True, type=Path, help="base policy, whose vocabulary the stages must have")
    parser.add_argument("--stages", required=True, nargs="+", metavar="STEP=FOLDER", help="checkpoint of each stage")
    add_output(parser, "--output", kind=STEPS, required=True, help="folder for step-N checkpoints")


def run(options: argparse.Namespace) -> None:
    """Check every stage's checkpoint and put it in its place."""
    from cocal.config import ConfigError, parse_settings
    from cocal.config.backbone import BackboneChoice
    from cocal.models.importing import import_checkpoint
    from cocal.study.lineage import Source, descent, inherited

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
