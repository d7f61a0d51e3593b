"""`cocal prompts`: extract hidden-state features of the prompts that policy training asked."""

import argparse

from cocal.config import parse_settings
from cocal.config.evaluation import FeatureSettings
from cocal.features.replay import StepCheckpoints, extract_prompts
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.lineage import Source, descent, inherited


def run(options: argparse.Namespace) -> None:
    """Run one pass over the prompts of every stage."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    checkpoints = StepCheckpoints.from_folders(options.checkpoints, options.exact)
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
