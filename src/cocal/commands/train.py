"""`cocal train`: train a policy and record its rollouts; `accelerate launch` starts it on several GPUs."""

import argparse
from pathlib import Path

from cocal.commands.flags import add_training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_training(parser)
    parser.add_argument("--features", default="{}", help="JSON: layers and dtype of the live features")
    parser.add_argument("--output-features", type=Path, help="feature store of the rollouts, for companions")


def run(options: argparse.Namespace) -> None:
    """Train the policy, or resume its training, and publish the results."""
    from cocal.answers.equivalence import Verifier
    from cocal.checkpoints.loading import fingerprint
    from cocal.config import parse_settings
    from cocal.config.evaluation import FeatureSettings, VerifierSettings
    from cocal.config.policy import PolicySettings
    from cocal.policy.objectives import PROMPT_FORMATS
    from cocal.prompts import Prompts
    from cocal.questions.identity import questions_digests
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest, provenance, read_frame
    from cocal.store.contracts import QUESTIONS

    settings = parse_settings(PolicySettings, options.settings)
    features = parse_settings(FeatureSettings, options.features)
    bounds = parse_settings(VerifierSettings, options.verifier)
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)

    from cocal.policy.recorder import Outputs
    from cocal.policy.train import train_policy

    fix_threads()
    depends_on = {
        "policy": settings,
        "features": features if options.output_features else None,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    run_digest = digest(depends_on | {"base": fingerprint(options.base)} | questions_digests(questions))
    outputs = Outputs(
        {step: options.stages / f"step-{step}" for step in settings.stages},
        options.rollouts,
        options.output_features,
        options.cost,
        provenance("train", depends_on, algorithm=options.algorithm),
    )
    with Verifier(bounds) as verifier:
        train_policy(
            settings,
            options.algorithm,
            base=options.base,
            questions=questions,
            prompts=prompts,
            features=features,
            verifier=verifier,
            run_folder=options.run_folder,
            run_digest=run_digest,
            outputs=outputs,
        )
