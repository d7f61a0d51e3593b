"""Companions on stored rollouts: fitted on prefixes, or step by step."""

import argparse
import time
from pathlib import Path

import pandas as pd

from cocal.companion.companions import load_companions, log_best, write_companions
from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import ORDERS, Prefix
from cocal.companion.stepwise import OnlineCompanions, learn_online, replayed
from cocal.companion.supervision import check_features, question_texts, read_prompts, read_rollouts
from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
from cocal.features.store import open_features
from cocal.runtime.machine import fix_threads
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, write_frame
from cocal.store.contracts import PREQUENTIAL
from cocal.store.lineage import Source, descent, inherited, placed
from cocal_study.config import ConfigError, parse_settings
from cocal_study.planning.costs import Cost, device_name, write_cost


def run_companions(options: argparse.Namespace) -> None:
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
    of_order = next(kind for kind, order in ORDERS.items() if order == options.order)
    sources = [Source(options.rollouts, experience="rollouts" if options.prompts else of_order)]
    sources += [Source(options.features), Source(options.questions)]
    facts = inherited(options.rollouts, "backbone", "algorithm")
    facts["experience"] = "prompts" if options.prompts else of_order
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
        cost = Cost(seconds=spent, items=len(companions.members), device=device_name())
        write_cost(options.cost, cost, attributes | placed(options.cost))


def _states(words: str) -> tuple[int, list[str]]:
    """Split LAYER/POOLINGS into the layer and its poolings."""
    layer, slash, poolings = words.partition("/")
    if not slash or not layer.isdecimal() or not poolings:
        raise ConfigError(f"--states: {words!r} is not LAYER/POOLINGS, such as 2/last+mean")
    return int(layer), poolings.split("+")


def run_online(options: argparse.Namespace) -> None:
    """Learn step by step, score the replayed companions, and write both."""
    settings = parse_settings(CompanionSettings, options.settings)
    if len({*options.windows}) != len(options.windows):
        raise ConfigError(f"--windows {options.windows}: give different numbers of steps")
    fix_threads()
    rollouts = read_rollouts(options.rollouts, options.questions, options.steps)
    features = open_features(options.features)
    check_features(rollouts, features)
    sources = [Source(path, experience="rollouts") for path in (options.rollouts, options.features)]
    sources.append(Source(options.questions))
    facts = inherited(options.rollouts, "backbone", "algorithm")
    wanted = {"companion": settings, "windows": options.windows, "bins": options.bins}
    inputs = len(RESPONSE_POOLINGS) * features.hidden
    learners = [
        OnlineCompanions(settings, inputs, number_format=features.dtype, window=window, bins=options.bins)
        for window in options.windows
    ]
    texts = question_texts(options.questions)
    attributes = descent(options.output_companions, "online", wanted, sources, **facts, experience="online")
    with atomic_path(options.output_companions) as folder:
        folder.mkdir()
        for step in learn_online(learners, features, rollouts, texts, Progress("step", options.steps)):
            for learner in learners if step in options.stages else ():
                place = Path(f"window-{learner.window}", f"steps-{step}")
                found = learner.companions(features.layers[-1])
                of_step = {"source_step": str(step), "validation_step": str(step)}
                of_step |= placed(options.output_companions / place)
                write_companions(folder / place, found, learner.scores, attributes | of_step)
    tables = [one.scores.assign(window=one.window, kept_bytes=one.kept_bytes) for one in learners]
    fits = (load_companions(folder) for folder in options.replayed)
    tables += [found.assign(window=0) for found in replayed(fits, features, rollouts, options.bins)]
    sources += [Source(folder, experience="rollouts") for folder in options.replayed]
    table = pd.concat(tables, ignore_index=True)
    write_frame(options.output, table, PREQUENTIAL, descent(options.output, "online", wanted, sources, **facts))
