"""`cocal resample`: answer the training questions with the final policy, for post-hoc calibration."""

import argparse
from pathlib import Path

from cocal.commands.flags import add_output, add_prompts, add_run_folder
from cocal.commands.outputs import FOLDER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: sampling settings of PostCal")
    parser.add_argument("--policy", required=True, help="JSON: the policy training whose questions are repeated")
    parser.add_argument("--features", default="{}", help="JSON: layers and dtype")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--engine", default='{"kind":"transformers"}', help="JSON: engine that samples")
    parser.add_argument("--checkpoint", required=True, type=Path, help="final policy")
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--questions", required=True, type=Path, help="training set")
    parser.add_argument(
        "--like",
        type=Path,
        metavar="FOLDER",
        help="rollouts whose questions are repeated, step by step; by default those of the schedule of --policy",
    )
    add_prompts(parser)
    add_run_folder(parser)
    add_output(parser, "--rollouts", kind=FOLDER, required=True, help="folder for the response tables, one per step")
    add_output(parser, "--output-features", kind=FOLDER, required=True, help="feature store of the responses")
    add_output(parser, "--cost", help="JSON file for the time of the sampling alone")


def run(options: argparse.Namespace) -> None:
    """Sample the responses, or resume their sampling, and publish them."""
    from cocal.answers.equivalence import Verifier
    from cocal.config import parse_settings
    from cocal.config.engine import EngineChoice
    from cocal.config.evaluation import FeatureSettings, PostCalSettings, VerifierSettings
    from cocal.config.policy import PolicySettings
    from cocal.models.loading import fingerprint, load_policy
    from cocal.questions.identity import questions_digests
    from cocal.questions.prompts import Prompts
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest, read_frame
    from cocal.store.contracts import QUESTIONS, RESPONSES
    from cocal.store.run_folder import RunFolder
    from cocal.study.lineage import Source, descent, identities

    settings = parse_settings(PostCalSettings, options.settings)
    training = parse_settings(PolicySettings, options.policy, "--policy")
    features = parse_settings(FeatureSettings, options.features, "--features")
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    engine_settings = parse_settings(EngineChoice, options.engine, "--engine").root
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)

    from cocal.generation.engines import open_engine
    from cocal.generation.responses import Sampler
    from cocal.policy.recorder import Outputs
    from cocal.policy.resample import resample
    from cocal.policy.schedule import asked_questions, question_schedule

    fix_threads()
    depends_on = {"postcal": settings, "policy": training, "features": features, "verifier": bounds}
    depends_on["prompts"] = prompts.identity("answer")
    inputs = {"checkpoint": fingerprint(options.checkpoint), "engine": engine_settings} | questions_digests(questions)
    sources = [Source(options.checkpoint, experience="rollouts"), Source(options.questions)]
    if options.like:
        sources.append(Source(options.like, experience="rollouts"))
        columns = ["step", "question_id", "response_id"]
        rollouts = read_frame(options.like, RESPONSES, columns)
        schedule = asked_questions(rollouts, questions, training.steps, training.responses_per_question)
    else:
        schedule = question_schedule(len(questions), training.steps, training.questions_per_step, training.seed)
    facts = {"backbone": options.backbone, "algorithm": "grpo", "step": training.steps, "experience": "resampled"}
    attributes = descent(options.rollouts, "resample", depends_on, sources, **facts)
    inputs["parents"] = identities(attributes)
    loaded = load_policy(options.checkpoint)
    with Verifier(bounds) as verifier, open_engine(engine_settings, options.checkpoint, loaded) as engine:
        inputs["decoder"] = engine.label
        resample(
            settings,
            training,
            policy=loaded,
            sampler=Sampler(engine, loaded.tokenizer, prompts),
            identity=f"{options.backbone}/postcal",
            questions=questions,
            schedule=schedule,
            verifier=verifier,
            features=features,
            run=RunFolder(options.run_folder, digest(depends_on | inputs)),
            outputs=Outputs(
                {},
                options.rollouts,
                options.output_features,
                options.cost,
                {**attributes, "engine": engine.label},
            ),
        )
