"""`cocal features`: extract hidden-state features of the evaluated responses of one checkpoint."""

import argparse
import json

from cocal.config import parse_settings
from cocal.config.evaluation import FeatureSettings
from cocal.features.capture import PROMPT, RESPONSE_POOLINGS
from cocal.features.extract import extract_features
from cocal.features.span import task_responses
from cocal.models.loading import load_policy
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.lineage import Source, descent, inherited


def run(options: argparse.Namespace) -> None:
    """Run one teacher-forced pass over the exact token ids of each response."""
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
