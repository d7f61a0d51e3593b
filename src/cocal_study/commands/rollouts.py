"""Rollouts that TRL does not make here: those of slime, of dumps, and PostCal's."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.engines.engine import open_engine
from cocal.engines.states import Reading
from cocal.features.forward import RESPONSE_POOLINGS, resolve_layers
from cocal.features.settings import FeatureSettings
from cocal.models.loading import fingerprint, load_policy, load_tokenizer, read_config, read_vocabulary, text_config
from cocal.objectives import PROMPT_FORMATS
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS, RESPONSES
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config import parse_settings
from cocal_study.config.backbone import BackboneChoice
from cocal_study.config.engine import EngineChoice, gpus_of
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.replay import Rescorer, StepCheckpoints
from cocal_study.generation.responses import Sampler
from cocal_study.policy.importing import Dumps, StepTables, import_rollouts
from cocal_study.policy.recorder import Outputs
from cocal_study.policy.resample import resample
from cocal_study.policy.schedule import asked_questions, question_schedule
from cocal_study.questions.build import questions_digests
from cocal_study.questions.prompts import Prompts
from cocal_study.slime.run import SlimePaths, train_with_slime


def run_slime(options: argparse.Namespace) -> None:
    """Train with slime, or resume, import its dumps and checkpoints, and publish them."""
    settings = parse_settings(PolicySettings, options.settings).for_training(options.algorithm)
    backbone = parse_settings(BackboneChoice, options.backbone, "--backbone").root
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
    depends_on = {
        "policy": settings,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    # a run may resume with slime on other machines, but not with another computation
    computed = depends_on | {"policy": settings.rollout_settings(options.algorithm)}
    sources = [Source(options.base, algorithm="base", step=0), Source(options.questions)]
    facts = {"backbone": options.backbone_name, "algorithm": options.algorithm, "experience": "rollouts"}
    attributes = descent(options.rollouts, "slime", depends_on, sources, **facts)
    inputs = {"base": fingerprint(options.base), "parents": identities(attributes)} | questions_digests(questions)
    folder = RunFolder(options.run_folder.absolute(), digest(computed | inputs))
    train_with_slime(
        settings,
        options.algorithm,
        backbone=backbone,
        paths=SlimePaths(options.base.absolute(), Path(settings.slime.torch_dist[options.backbone_name]), folder.path),
        questions=questions,
        prompts=prompts,
        verifier=bounds,
        per_node=options.per_node,
        run=folder,
        outputs=Outputs(
            {step: options.stages / f"step-{step}" for step in settings.stages},
            options.rollouts,
            cost=options.cost,
            attributes=attributes,
        ),
    )


def run_import_rollouts(options: argparse.Namespace) -> None:
    """Import the dumps, or resume their import, and publish the tables."""
    fix_threads()
    settings = parse_settings(PolicySettings, options.settings)
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    features = parse_settings(FeatureSettings, options.features, "--features")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.tokenise) if options.tokenise else None
    dumps = Dumps.of(options.format, options.dumps, settings.steps, options.reward_key)
    read = options.checkpoints or options.exact
    checkpoints = StepCheckpoints(options.checkpoints, options.exact) if read else None
    depends_on = {
        "policy": settings,
        "verifier": bounds,
        "format": options.format,
        "correctness": options.correctness,
        "reward_key": options.reward_key,
        "tokenised_text": prompts and prompts.identity(PROMPT_FORMATS[options.algorithm]),
        "missing_logprobs": "computed" if checkpoints else "refused",
    }
    inputs = {
        "dumps": file_states(dumps.files.values()),
        "checkpoints": checkpoints and checkpoints.state(),
    } | questions_digests(questions)
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


def run_resample(options: argparse.Namespace) -> None:
    """Sample the responses, or resume their sampling, and publish them."""
    settings = parse_settings(PostCalSettings, options.settings)
    training = parse_settings(PolicySettings, options.policy, "--policy")
    features = parse_settings(FeatureSettings, options.features, "--features")
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    engine_settings = parse_settings(EngineChoice, options.engine, "--engine").root
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
    fix_threads(gpus_of(engine_settings))
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
    config, reading, loaded = text_config(read_config(options.checkpoint)), None, None
    if features.source == "engine":
        reading = Reading(resolve_layers(features.layers, config.num_hidden_layers), RESPONSE_POOLINGS)
        tokenizer = load_tokenizer(options.checkpoint)
    else:
        loaded = load_policy(options.checkpoint)
        tokenizer = loaded.tokenizer
    opened = open_engine(engine_settings, options.checkpoint, loaded, reading)
    with Verifier(bounds) as verifier, opened as engine:
        inputs["decoder"] = engine.label
        resample(
            settings,
            training,
            policy=loaded,
            config=config,
            sampler=Sampler(engine, tokenizer, prompts),
            identity=f"{options.backbone}/postcal",
            questions=questions,
            schedule=schedule,
            verifier=verifier,
            features=features,
            run=RunFolder(options.run_folder, digest(depends_on | inputs)),
            outputs=Outputs(
                {}, options.rollouts, options.output_features, options.cost, {**attributes, "engine": engine.label}
            ),
        )
