"""`cocal companions`: fit companions of all targets and seeds on prefixes of the rollouts."""

import argparse
import time
from pathlib import Path

from cocal.commands.flags import AMOUNT, SEED, add_output
from cocal.commands.outputs import FOLDER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", help="JSON: settings of companions (default: the paper's)")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables")
    parser.add_argument("--questions", required=True, type=Path, help="whole training set, with validation questions")
    parser.add_argument("--features", required=True, type=Path, help="feature store of the rollouts")
    parser.add_argument(
        "--steps",
        required=True,
        nargs="+",
        metavar="N[/M]",
        help="each word makes one fit, which trains on rollout steps 1 to N and chooses its best pass by validation on "
        "steps 1 to M (default: N)",
    )
    parser.add_argument("--order", choices=["chronological", "shuffled"], default="chronological")
    parser.add_argument("--shuffle-seed", type=SEED, help="seed of the order; needed by --order shuffled")
    parser.add_argument(
        "--states",
        nargs="+",
        metavar="LAYER/POOLINGS",
        help="each word makes one fit and names a zero-based block index and its pooled states in order, such as "
        "0/last+mean (default: last+mean of the deepest block stored)",
    )
    parser.add_argument(
        "--prompts", action="store_true", help="the features belong to prompts, with one row per group of rollouts"
    )
    parser.add_argument(
        "--memory",
        type=AMOUNT,
        metavar="GIB",
        help="memory for features, on the GPU if there is one; features that do not fit are read again in every pass, "
        "with the same result (default: 5, or half of the GPU's free memory)",
    )
    add_output(
        parser, "--cost", metavar="FILE.json", help="file for the time of the last fit (longest prefix, last states)"
    )
    add_output(
        parser,
        "--output",
        kind=FOLDER,
        required=True,
        help="folder for steps-N and steps-N-validation-M, each with weights, history and spec; with --states, for "
        "LAYER/POOLINGS/steps-N",
    )


def run(options: argparse.Namespace) -> None:
    """Read and check the inputs, fit the companions, and write them."""
    from cocal.config import ConfigError, parse_settings
    from cocal.config.evaluation import CompanionSettings
    from cocal.study.prefix import Prefix

    settings = parse_settings(CompanionSettings, options.settings)
    try:
        prefixes = sorted({Prefix.parse(word) for word in options.steps})
    except ConfigError as error:
        raise ConfigError(f"--steps: {error}") from None

    from cocal.companion.companions import log_best, write_companions
    from cocal.companion.fit import fit_companions
    from cocal.companion.spec import ORDERS
    from cocal.companion.supervision import check_features, question_texts, read_prompts, read_rollouts
    from cocal.features.capture import PROMPT, RESPONSE_POOLINGS
    from cocal.features.store import open_features
    from cocal.runtime.machine import fix_threads
    from cocal.runtime.progress import Progress
    from cocal.store.lineage import placed
    from cocal.study.costs import Cost, device_name, write_cost
    from cocal.study.lineage import Source, descent, inherited

    fix_threads()
    read = read_prompts if options.prompts else read_rollouts
    rollouts = read(options.rollouts, options.questions, max(map(max, prefixes)))
    questions = question_texts(options.questions)
    features = open_features(options.features)
    check_features(rollouts, features)
    experience = (
        "prompts" if options.prompts else next(kind for kind, order in ORDERS.items() if order == options.order)
    )
    sources = [
        Source(options.rollouts, experience="rollouts" if options.prompts else experience),
        Source(options.features),
        Source(options.questions),
    ]
    facts = inherited(options.rollouts, "backbone", "algorithm") | {"experience": experience}
    attributes = descent(options.output, "companions", settings, sources, **facts)
    default = None, [PROMPT] if options.prompts else list(RESPONSE_POOLINGS), options.output
    states = [(*_states(words), options.output / words) for words in options.states or ()] or [default]
    progress = Progress("", settings.passes * sum(prefix.steps for prefix in prefixes) * len(states))
    for layer, poolings, output in states:
        fits = fit_companions(
            settings,
            features,
            rollouts,
            questions,
            prefixes,
            order=options.order,
            shuffle_seed=options.shuffle_seed,
            layer=layer,
            poolings=poolings,
            memory=None if options.memory is None else int(options.memory * 2**30),
            progress=progress,
        )
        started = time.monotonic()
        for companions, history in fits:
            spent = time.monotonic() - started
            prefix = companions.spec.prefix
            steps = {"source_step": str(prefix.steps), "validation_step": str(prefix.validation_steps)}
            folder = output / prefix.folder
            write_companions(folder, companions, history, attributes | steps | placed(folder))
            log_best(folder, companions.spec)
            started = time.monotonic()
    if options.cost:
        write_cost(
            options.cost,
            Cost(seconds=spent, items=len(companions.members), device=device_name()),
            attributes | placed(options.cost),
        )


def _states(words: str) -> tuple[int, list[str]]:
    """Split LAYER/POOLINGS into the layer and its poolings."""
    from cocal.config import ConfigError

    layer, slash, poolings = words.partition("/")
    if not slash or not layer.isdecimal() or not poolings:
        raise ConfigError(f"--states: {words!r} is not LAYER/POOLINGS, such as 2/last+mean")
    return int(layer), poolings.split("+")
