"""`cocal online`: let companions learn from stored rollouts as if they learnt while the policy trained."""

import argparse
from pathlib import Path

from cocal.commands.flags import COUNT, add_output
from cocal.commands.outputs import FOLDER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", help="JSON: settings of companions (default: the paper's)")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables")
    parser.add_argument("--questions", required=True, type=Path, help="whole training set, with validation questions")
    parser.add_argument("--features", required=True, type=Path, help="feature store of the rollouts")
    parser.add_argument("--steps", required=True, type=COUNT, help="number of rollout steps")
    parser.add_argument(
        "--windows",
        nargs="+",
        type=COUNT,
        default=[1],
        metavar="STEPS",
        help="numbers of the last rollout steps that are learnt from with every new one; each makes companions of its "
        "own (default: 1)",
    )
    parser.add_argument(
        "--stages", nargs="*", type=COUNT, default=[], metavar="STEP", help="steps after which companions are kept"
    )
    parser.add_argument(
        "--replayed",
        nargs="*",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="companions that `cocal companions` has fitted on the first steps, to be scored on the step that follows",
    )
    parser.add_argument("--bins", type=COUNT, default=10, help="bins of the calibration error (default: 10)")
    add_output(parser, "--output-companions", kind=FOLDER, required=True, help="folder for window-W/steps-N")
    add_output(parser, "--output", required=True, help="table of the scores of every step (Parquet)")


def run(options: argparse.Namespace) -> None:
    """Learn step by step, score the replayed companions, and write both."""
    import pandas as pd

    from cocal.config import ConfigError, parse_settings
    from cocal.config.evaluation import CompanionSettings

    settings = parse_settings(CompanionSettings, options.settings)
    if len({*options.windows}) != len(options.windows):
        raise ConfigError(f"--windows {options.windows}: give different numbers of steps")

    from cocal.companion.companions import load_companions, write_companions
    from cocal.companion.prequential import replayed
    from cocal.companion.stepwise import OnlineCompanions, learn_online
    from cocal.companion.supervision import check_features, question_texts, read_rollouts
    from cocal.features.capture import RESPONSE_POOLINGS
    from cocal.features.store import open_features
    from cocal.runtime.machine import fix_threads
    from cocal.runtime.progress import Progress
    from cocal.store import atomic_path, write_frame
    from cocal.store.contracts import PREQUENTIAL
    from cocal.store.lineage import placed
    from cocal.study.lineage import Source, descent, inherited

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
