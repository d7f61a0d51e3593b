"""Companions that learn from stored rollouts step by step."""

import argparse
from pathlib import Path

import pandas as pd

from cocal.companion.companions import load_companions, write_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.stepwise import OnlineCompanions, learn_online, replayed
from cocal.companion.supervision import check_features, question_texts, read_rollouts
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import open_features
from cocal.runtime.machine import fix_threads
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, write_frame
from cocal.store.contracts import PREQUENTIAL
from cocal.store.lineage import Source, descent, inherited, placed
from cocal_study.config import ConfigError, parse_settings


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
