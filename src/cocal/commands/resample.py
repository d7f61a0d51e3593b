"""`cocal resample`: answer the training questions with the final policy, for post-hoc calibration."""

import argparse

from cocal.answers.equivalence import Verifier
from cocal.config import parse_settings
from cocal.config.engine import EngineChoice
from cocal.config.evaluation import FeatureSettings, PostCalSettings, VerifierSettings
from cocal.config.policy import PolicySettings
from cocal.generation.engines import open_engine
from cocal.generation.responses import Sampler
from cocal.models.loading import fingerprint, load_policy
from cocal.policy.recorder import Outputs
from cocal.policy.resample import resample
from cocal.policy.schedule import asked_questions, question_schedule
from cocal.questions.identity import questions_digests
from cocal.questions.prompts import Prompts
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS, RESPONSES
from cocal.store.lineage import Source, descent, identities
from cocal.store.run_folder import RunFolder


def run(options: argparse.Namespace) -> None:
    """Sample the responses, or resume their sampling, and publish them."""
    settings = parse_settings(PostCalSettings, options.settings)
    training = parse_settings(PolicySettings, options.policy, "--policy")
    features = parse_settings(FeatureSettings, options.features, "--features")
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    engine_settings = parse_settings(EngineChoice, options.engine, "--engine").root
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
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
