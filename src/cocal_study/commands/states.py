"""Hidden-state features of responses, of prompts and of stored rollouts."""

import argparse
import json

from cocal.features.extract import poolings_of
from cocal.features.settings import FeatureSettings
from cocal.models.loading import load_policy, load_tokenizer
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config import parse_settings
from cocal_study.generation.evaluated import copy_features, extract_features, task_responses
from cocal_study.generation.replay import StepCheckpoints, extract_prompts, replay, step_tables


def run_features(options: argparse.Namespace) -> None:
    """Run one teacher-forced pass over the exact token ids of each response, or take the states that vLLM kept."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    policy = None if options.kept else load_policy(options.checkpoint)
    columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
    for name, samples in json.loads(options.samples).items():
        table, output = options.responses / f"{name}.parquet", options.output / f"{name}.zarr"
        frame = read_frame(table, RESPONSES, columns)
        frame = frame[frame["sample"] < samples].reset_index(drop=True)
        facts = {"task_response": options.task_response}
        facts |= inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset")
        sources = [Source(table), Source(options.checkpoint)]
        if options.task_response:
            frame = task_responses(frame, load_tokenizer(options.checkpoint))
        attributes = descent(output, "features", settings, sources, **facts)
        if options.kept:
            copy_features(options.kept / f"{name}.zarr", frame, output=output, attributes=attributes)
        else:
            poolings = poolings_of(options.prompt)
            extract_features(policy, frame, settings, output=output, attributes=attributes, poolings=poolings)


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
