"""`cocal latency`: measure the inference times of one checkpoint and its companions on this device."""

import argparse

from cocal.companion.companions import load_companions
from cocal.engines.engine import open_engine
from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
from cocal.models.loading import load_policy
from cocal.models.text import chat_ids
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent, identities, inherited
from cocal.store.provenance import digest
from cocal.store.run_folder import RunFolder
from cocal_study.config import parse_settings
from cocal_study.config.engine import gpus_of
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.latency import PromptSet, ResponseLengths, SingleCompanion, measure_latency
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.planning.costs import device_name, write_cost
from cocal_study.questions.prompts import Prompts


def run_latency(options: argparse.Namespace) -> None:
    """Load the models, measure the times, and write them. A killed run on the same device keeps those of whole sets.

    Raises:
        ConfigError: if a set has too few questions.
        ContractError: if a file is broken, or companions read other states than the flag asks for.
    """
    settings = parse_settings(GenerationSettings, options.settings)
    prompts = Prompts(options.prompts)
    fix_threads(gpus_of(settings.engine))
    lengths = parse_settings(ResponseLengths, options.datasets, "--datasets").root
    questions = {name: read_frame(options.questions / f"{name}.parquet", QUESTIONS)["question"] for name in lengths}
    cell = inherited(options.checkpoint, "backbone", "algorithm", "step")
    steps = {"source_step": cell["step"]} if "step" in cell else {}
    sources = [
        Source(options.checkpoint),
        Source(options.companions, experience="rollouts", **steps),
        Source(options.prompt_companions, experience="prompts", **steps),
        *(Source(options.questions / f"{name}.parquet") for name in lengths),
    ]
    depends_on = {"generation": settings, "lengths": lengths, "prompts": prompts.identity("answer")}
    attributes = descent(options.output, "latency", depends_on, sources, **cell)
    timed = {"parents": identities(attributes), "options": [options.samples, options.seed], "device": device_name()}
    run = RunFolder(options.run_folder, digest(depends_on | timed))
    policy = load_policy(options.checkpoint)
    pre, post = (
        SingleCompanion(load_companions(path), policy, poolings, path)
        for path, poolings in ((options.prompt_companions, [PROMPT]), (options.companions, RESPONSE_POOLINGS))
    )
    sets = {
        name: PromptSet(chat_ids(policy.tokenizer, [prompts.message("answer", text) for text in texts]), lengths[name])
        for name, texts in questions.items()
    }
    engine = settings.engine.of_concurrency(options.concurrent)
    with open_engine(engine, options.checkpoint, policy) as generator:
        latency = measure_latency(
            sets,
            pipeline=TransformersEngine.of(policy, batch_size=1),
            generator=generator,
            pre=pre,
            post=post,
            settings=settings,
            questions=options.samples,
            predictions=options.predictions,
            concurrent=options.concurrent,
            seed=options.seed,
            kept=run.path / "times.json",
        )
    write_cost(options.output, latency, attributes)
    run.publish({})
