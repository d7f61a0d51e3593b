"""Hidden-state features of responses, of prompts and of stored rollouts."""

import argparse
import json

from cocal.config import parse_settings
from cocal.config.evaluation import FeatureSettings
from cocal.features.extract import (
    StepCheckpoints,
    extract_features,
    extract_prompts,
    replay,
    step_tables,
    task_responses,
)
from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
from cocal.models.loading import load_policy
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.run_folder import RunFolder, file_states


def run_features(options: argparse.Namespace) -> None:
    """Run one teacher-forced pass over the exact token ids of each response."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    policy = load_policy(options.checkpoint)
    columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
    for name, samples in json.loads(options.samples).items():
        table, output = options.responses / f"{name}.parquet", options.output / f"{name}.zarr"
        frame = read_frame(table, RESPONSES, columns)
        frame = frame[frame["sample"] < samples].reset_index(drop=True)
        facts = {"task_response": options.task_response}
        facts |= inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset")
        sources = [Source(table), Source(options.checkpoint)]
        extract_features(
            policy,
            task_responses(frame, policy.tokenizer) if options.task_response else frame,
            settings,
            output=output,
            attributes=descent(output, "features", settings, sources, **facts),
            poolings=(*RESPONSE_POOLINGS, PROMPT) if options.prompt else RESPONSE_POOLINGS,
        )


def run_prompts(options: argparse.Namespace) -> None:
    """Run one pass over the prompts of every stage."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    checkpoints = StepCheckpoints(options.checkpoints, options.exact)
    columns = ["dataset", "question_id", "response_id", "step", "sample", "prompt_ids"]
    # the responses to a question share its prompt, so only the first of them is read
    rollouts = read_frame(options.rollouts, RESPONSES, columns, where=[("sample", "=", 0)])
    facts = inherited(options.rollouts, "backbone", "algorithm") | {"experience": "prompts"}
    sources = [Source(path, experience="rollouts") for path in (options.rollouts, *checkpoints.folders)]
    extract_prompts(
        checkpoints,
        rollouts[rollouts["step"] <= checkpoints.last],
        settings,
        output=options.output,
        attributes=descent(options.output, "prompts", settings, sources, **facts),
    )


def run_replay(options: argparse.Namespace) -> None:
    """Run one pass over the exact token ids of every rollout."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    checkpoints = StepCheckpoints(options.checkpoints, options.exact)
    tables = file_states(step_tables(options.rollouts).values())
    depends_on = {"features": settings, "weights": "of every step" if options.exact else "of the stage that follows"}
    sources = [Source(options.rollouts), *map(Source, checkpoints.folders)]
    facts = inherited(options.rollouts, "backbone", "algorithm", "experience")
    attributes = descent(options.output, "replay", depends_on, sources, **facts)
    inputs = {"rollouts": tables, "checkpoints": checkpoints.state(), "parents": identities(attributes)}
    replay(
        checkpoints,
        options.rollouts,
        settings,
        run=RunFolder(options.run_folder, digest(depends_on | inputs)),
        output=options.output,
        attributes=attributes,
    )
