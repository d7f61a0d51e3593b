"""`cocal import-rollouts`: turn rollout dumps of another engine into rollout tables."""

import argparse
from contextlib import nullcontext

from cocal.answers.equivalence import Verifier
from cocal.config import parse_settings
from cocal.config.evaluation import FeatureSettings, VerifierSettings
from cocal.config.policy import PolicySettings
from cocal.features.replay import Rescorer, StepCheckpoints
from cocal.integrations.importing import Dumps, import_rollouts
from cocal.integrations.tables import StepTables
from cocal.models.loading import read_vocabulary
from cocal.policy.objectives import PROMPT_FORMATS
from cocal.policy.recorder import Outputs
from cocal.questions.identity import questions_digests
from cocal.questions.prompts import Prompts
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.run_folder import RunFolder


def run(options: argparse.Namespace) -> None:
    """Import the dumps, or resume their import, and publish the tables."""
    fix_threads()
    settings = parse_settings(PolicySettings, options.settings)
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    features = parse_settings(FeatureSettings, options.features, "--features")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.tokenise) if options.tokenise else None
    dumps = Dumps.of(options.format, options.dumps, settings.steps, options.reward_key)
    read = options.checkpoints or options.exact
    checkpoints = StepCheckpoints.from_folders(options.checkpoints, options.exact) if read else None
    depends_on = {
        "policy": settings,
        "verifier": bounds,
        "format": options.format,
        "correctness": options.correctness,
        "reward_key": options.reward_key,
        "tokenised_text": prompts and prompts.identity(PROMPT_FORMATS[options.algorithm]),
        "missing_logprobs": "computed" if checkpoints else "refused",
    }
    inputs = {"dumps": dumps.state(), "checkpoints": checkpoints and checkpoints.state()} | questions_digests(questions)
    sources = [Source(options.policy, algorithm="base", step=0), Source(options.questions)]
    facts = inherited(options.policy, "backbone") | {"algorithm": options.algorithm, "experience": "rollouts"}
    attributes = descent(options.output, "import-rollouts", depends_on, sources, **facts)
    with Verifier(bounds) if options.correctness == "verifier" else nullcontext() as judge:
        tables = StepTables(
            settings,
            options.algorithm,
            questions=questions,
            vocabulary=read_vocabulary(options.policy),
            judge=judge,
            scorer=checkpoints and Rescorer(checkpoints, features.batch_tokens),
            prompts=prompts,
        )
        run_folder = RunFolder(options.run_folder, digest(depends_on | inputs | {"parents": identities(attributes)}))
        import_rollouts(dumps, tables, run_folder, Outputs({}, options.output, attributes=attributes))
