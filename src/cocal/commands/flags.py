"""Flags of several commands."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ConfigError

if TYPE_CHECKING:
    from cocal.judging.opening import Judging


def named_folders(flag: str, words: Sequence[str], kinds: Sequence[str]) -> dict[str, list[Path]]:
    """Folders by kind from words of the form KIND=FOLDER, in the order given.

    Args:
        flag: for errors.
        words: of the command line.
        kinds: allowed ones.

    Raises:
        ConfigError: if a word has another form.
    """
    folders: dict[str, list[Path]] = {}
    for word in words:
        kind, equals, folder = word.partition("=")
        if not equals or not folder or kind not in kinds:
            raise ConfigError(f"{flag}: {word!r} is not KIND=FOLDER with one of {', '.join(kinds)}")
        folders.setdefault(kind, []).append(Path(folder))
    return folders


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """The flag that says in which words a policy is asked. It has no default: other words are another study."""
    parser.add_argument("--prompts", required=True, metavar="SET", help="prompt set: a folder of cocal/prompts")


def add_run_folder(parser: argparse.ArgumentParser) -> None:
    """The flag that says where unfinished work lies."""
    parser.add_argument("--run-folder", required=True, type=Path, help="working folder; a killed run resumes from it")


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Flags that name the checkpoint that is evaluated."""
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--algorithm", required=True, help="how the policy was trained; base if it was not")
    parser.add_argument("--step", required=True, type=int, help="rollout step of the checkpoint")


def add_training(parser: argparse.ArgumentParser) -> None:
    """Flags of the commands that train a policy."""
    parser.add_argument("--settings", required=True, help="JSON: policy")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--algorithm", required=True, choices=["grpo", "rlcr", "dcpo"])
    parser.add_argument("--base", required=True, type=Path, help="checkpoint to start from")
    parser.add_argument("--questions", required=True, type=Path, help="training set")
    add_prompts(parser)
    add_run_folder(parser)
    parser.add_argument("--stages", required=True, type=Path, help="folder for step-N checkpoints")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder for the rollouts, a table a step")
    parser.add_argument("--cost", type=Path, help="JSON file for the time of the training")


def add_cache(parser: argparse.ArgumentParser) -> None:
    """The flag that says where the files of registered question sets lie."""
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("COCAL_SOURCES", "results/sources")),
        metavar="FOLDER",
        help="source files, in the layout of their hosts; the variable COCAL_SOURCES by default, else results/sources",
    )


def add_readers(parser: argparse.ArgumentParser) -> None:
    """Flags that say which checkpoints read rollouts of the past (cocal.replay.checkpoints)."""
    parser.add_argument(
        "--checkpoints",
        default=[],
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="step-N of every stage: steps after the stage before and up to N are read by it",
    )
    parser.add_argument(
        "--exact",
        type=Path,
        help="folder of the weights of every step: weight_v000001 (of slime) or step-0 sampled and reads step 1",
    )


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the commands that judge answers."""
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier, the judge of mathematics")
    parser.add_argument("--judge", default='{"kind": "exact-match"}', help="JSON: judge of factual answers")
    parser.add_argument(
        "--judgements",
        type=Path,
        default=Path("results/judgements"),
        help="folder of a language model's replies; shared by jobs, may be deleted",
    )


def judging_of(options: argparse.Namespace, domains: Sequence[str]) -> "Judging":
    """What those flags say, for question sets of these domains.

    Raises:
        ConfigError: if they are not valid.
    """
    from cocal.config import parse_settings
    from cocal.config.evaluation import VerifierSettings
    from cocal.config.judge import JudgeChoice
    from cocal.judging.opening import Judging

    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judge = parse_settings(JudgeChoice, options.judge, "--judge").root
    return Judging.of(verifier, judge, domains)
