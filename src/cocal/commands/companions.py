"""`cocal companions`: fit companions of all targets and seeds on prefixes of the rollouts."""

import argparse
import time

from cocal.companion.companions import log_best, write_companions
from cocal.companion.fit import fit_companions
from cocal.companion.spec import ORDERS
from cocal.companion.supervision import check_features, question_texts, read_prompts, read_rollouts
from cocal.config import ConfigError, parse_settings
from cocal.config.evaluation import CompanionSettings
from cocal.features.capture import PROMPT, RESPONSE_POOLINGS
from cocal.features.store import open_features
from cocal.runtime.machine import fix_threads
from cocal.runtime.progress import Progress
from cocal.store.lineage import Source, descent, inherited, placed
from cocal.study.costs import Cost, device_name, write_cost
from cocal.study.plan import Prefix


def run(options: argparse.Namespace) -> None:
    """Read and check the inputs, fit the companions, and write them."""
    settings = parse_settings(CompanionSettings, options.settings)
    try:
        prefixes = sorted({Prefix.parse(word) for word in options.steps})
    except ConfigError as error:
        raise ConfigError(f"--steps: {error}") from None
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
    layer, slash, poolings = words.partition("/")
    if not slash or not layer.isdecimal() or not poolings:
        raise ConfigError(f"--states: {words!r} is not LAYER/POOLINGS, such as 2/last+mean")
    return int(layer), poolings.split("+")
