"""`cocal latency`: measure the inference times of one checkpoint and its companions on this device."""

import argparse
from pathlib import Path

from cocal.commands.flags import COUNT, SEED, add_output, add_prompts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: sampling parameters, pool and engine")
    parser.add_argument(
        "--datasets", required=True, help="JSON: longest response in tokens, by mathematical evaluation set"
    )
    parser.add_argument("--questions", required=True, type=Path, help="folder of question sets")
    parser.add_argument("--checkpoint", required=True, type=Path, help="policy to time")
    parser.add_argument(
        "--companions", required=True, type=Path, metavar="FOLDER", help="CoCal's companions on last+mean states"
    )
    parser.add_argument(
        "--prompt-companions",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="pre-generation companions on prompt states",
    )
    add_prompts(parser)
    parser.add_argument(
        "--samples", type=COUNT, default=8, metavar="N", help="questions of each set that are timed, one at a time"
    )
    parser.add_argument(
        "--concurrent", type=COUNT, default=64, metavar="N", help="largest number of responses generated together"
    )
    parser.add_argument(
        "--predictions", type=COUNT, default=1000, metavar="N", help="timed predictions of a companion, one at a time"
    )
    parser.add_argument("--seed", type=SEED, default=42, help="seed of the choice of questions")
    add_output(parser, "--output", required=True, metavar="FILE.json", help="file for the times")


def run(options: argparse.Namespace) -> None:
    """Load the models, measure the times, and write them.

    Raises:
        ConfigError: if a set has too few questions.
        ContractError: if a file is broken, or companions read other states than the flag asks for.
    """
    from cocal.config import parse_settings
    from cocal.config.evaluation import GenerationSettings
    from cocal.questions.prompts import Prompts

    settings = parse_settings(GenerationSettings, options.settings)
    prompts = Prompts(options.prompts)

    from cocal.companion.companions import load_companions
    from cocal.companion.latency import PromptSet, ResponseLengths, SingleCompanion, measure_latency
    from cocal.features.capture import PROMPT, RESPONSE_POOLINGS
    from cocal.generation.engines import open_engine
    from cocal.generation.transformers_engine import TransformersEngine
    from cocal.models.loading import load_policy
    from cocal.models.text import chat_ids
    from cocal.runtime.machine import fix_threads
    from cocal.store import read_frame
    from cocal.store.contracts import QUESTIONS
    from cocal.study.costs import write_cost
    from cocal.study.lineage import Source, descent, inherited

    fix_threads()
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
        )
    write_cost(options.output, latency, attributes)
