"""`cocal replay`: extract hidden-state features of stored rollouts whose training did not keep them."""

import argparse

from cocal.config import parse_settings
from cocal.config.evaluation import FeatureSettings
from cocal.features.replay import StepCheckpoints, replay, step_tables
from cocal.runtime.machine import fix_threads
from cocal.store import digest
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.run_folder import RunFolder, file_states


def run(options: argparse.Namespace) -> None:
    """Run one pass over the exact token ids of every rollout."""
    fix_threads()
    settings = parse_settings(FeatureSettings, options.settings)
    checkpoints = StepCheckpoints.from_folders(options.checkpoints, options.exact)
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
