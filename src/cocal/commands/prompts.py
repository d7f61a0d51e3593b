"""`cocal prompts`: hidden-state features of the prompts that policy training asked."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: layers, dtype, batch_tokens")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables")
    parser.add_argument(
        "--checkpoints",
        required=True,
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="step-N of every stage: steps after the stage before and up to N are read by it",
    )
    parser.add_argument("--output", required=True, type=Path, help="feature store to write")


def run(options: argparse.Namespace) -> None:
    """One pass over the prompts of every stage."""
    from cocal.config import ConfigError, parse_settings
    from cocal.config.protocol import Features
    from cocal.features.prompts import extract_prompts
    from cocal.runtime import fix_threads
    from cocal.schemas import RESPONSES
    from cocal.store import provenance, read_frame

    fix_threads()
    settings = parse_settings(Features, options.settings)
    checkpoints = {}
    for path in options.checkpoints:
        name, _, step = path.name.partition("-")
        if name != "step" or not step.isdecimal():
            raise ConfigError(f"--checkpoints: {path} is not named step-N")
        checkpoints[int(step)] = path
    columns = ["dataset", "question_id", "response_id", "step", "sample", "prompt_ids"]
    rollouts = read_frame(options.rollouts, RESPONSES, columns)
    extract_prompts(
        dict(sorted(checkpoints.items())),
        rollouts[rollouts["step"] <= max(checkpoints)],
        settings,
        output=options.output,
        attributes=provenance("prompts", settings),
    )
