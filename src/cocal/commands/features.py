"""`cocal features`: extract hidden-state features of the evaluated responses of one checkpoint."""

import argparse
import json
from pathlib import Path

from cocal.commands.flags import add_output
from cocal.commands.outputs import Kind


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: layers, dtype, batch_tokens")
    parser.add_argument("--samples", required=True, help="JSON: evaluated responses per question, by question set")
    parser.add_argument("--responses", required=True, type=Path, help="folder that holds {set}.parquet")
    parser.add_argument("--checkpoint", required=True, type=Path, help="policy that produced the responses")
    parser.add_argument("--prompt", action="store_true", help="also store the state of the last prompt token")
    parser.add_argument(
        "--task-response", action="store_true", help="stop before the first <reason> or confidence statement"
    )
    add_output(
        parser, "--output", kind=Kind(folder=True, entries="*.zarr"), required=True, help="folder for {set}.zarr"
    )


def writes(options: argparse.Namespace) -> list[Path]:
    """The stores; another job may write those of other sets into the same folder."""
    return [options.output / f"{name}.zarr" for name in json.loads(options.samples)]


def run(options: argparse.Namespace) -> None:
    """Run one teacher-forced pass over the exact token ids of each response."""
    from cocal.config import parse_settings
    from cocal.config.evaluation import FeatureSettings
    from cocal.features.capture import PROMPT, RESPONSE_POOLINGS
    from cocal.features.extract import extract_features
    from cocal.features.span import task_responses
    from cocal.models.loading import load_policy
    from cocal.runtime.machine import fix_threads
    from cocal.store import read_frame
    from cocal.store.contracts import RESPONSES
    from cocal.study.lineage import Source, descent, inherited

    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    policy = load_policy(options.checkpoint)
    columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
    for name, samples in json.loads(options.samples).items():
        table, output = options.responses / f"{name}.parquet", options.output / f"{name}.zarr"
        frame = read_frame(table, RESPONSES, columns)
        frame = frame[frame["sample"] < samples].reset_index(drop=True)
        extract_features(
            policy,
            task_responses(frame, policy.tokenizer) if options.task_response else frame,
            settings,
            output=output,
            attributes=descent(
                output,
                "features",
                settings,
                [Source(table), Source(options.checkpoint)],
                task_response=options.task_response,
                **inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset"),
            ),
            poolings=(*RESPONSE_POOLINGS, PROMPT) if options.prompt else RESPONSE_POOLINGS,
        )
