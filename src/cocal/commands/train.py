"""`cocal train`: reinforcement learning with recorded rollouts; under `accelerate launch` on several GPUs."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", required=True, help="JSON: policy")
    parser.add_argument("--features", default="{}", help="JSON: layers and dtype of the live features")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--algorithm", required=True, choices=["grpo", "rlcr", "dcpo"])
    parser.add_argument("--base", required=True, type=Path, help="checkpoint to start from")
    parser.add_argument("--questions", required=True, type=Path, help="training set")
    parser.add_argument("--prompts", default="tiny", help="prompt set")
    parser.add_argument("--run-folder", required=True, type=Path, help="working folder; a killed run resumes from it")
    parser.add_argument("--stages", required=True, type=Path, help="folder for step-N checkpoints")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder for the rollouts, a table a step")
    parser.add_argument("--output-features", type=Path, help="feature store of the rollouts, for companions")
    parser.add_argument("--cost", type=Path, help="JSON file for the time of the rollout steps")


def run(options: argparse.Namespace) -> None:
    """Train or resume, then publish."""
    from cocal.answers.equivalence import Verifier
    from cocal.checkpoints.loading import fingerprint
    from cocal.config import parse_settings
    from cocal.config.evaluation import FeatureSettings, VerifierSettings
    from cocal.config.policy import PolicySettings
    from cocal.policy.objectives import PROMPT_FORMATS
    from cocal.prompts import Prompts
    from cocal.questions.identity import golds_digest, texts_digest
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest, provenance, read_frame
    from cocal.store.contracts import QUESTIONS

    settings = parse_settings(PolicySettings, options.settings)
    features = parse_settings(FeatureSettings, options.features)
    bounds = parse_settings(VerifierSettings, options.verifier)
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)

    from cocal.policy.train import Outputs, train_policy

    fix_threads()
    depends_on = {
        "policy": settings,
        "features": features if options.output_features else None,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    inputs = {
        "base": fingerprint(options.base),
        "questions": texts_digest(questions),
        "golds": golds_digest(questions),
    }
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
            run_digest=digest(depends_on | inputs),
            outputs=Outputs(
                {step: options.stages / f"step-{step}" for step in settings.stages},
                options.rollouts,
                options.output_features,
                options.cost,
            ),
            attributes=provenance("train", depends_on, algorithm=options.algorithm),
        )
