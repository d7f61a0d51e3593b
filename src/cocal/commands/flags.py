"""Flags that several commands share."""

import argparse
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cocal.commands.outputs import FILE, FOLDER, STEPS, Kind
from cocal.errors import ConfigError

if TYPE_CHECKING:
    from cocal.generation.judging.opening import Judging

T = TypeVar("T")


def checked(parse: Callable[[str], T], allowed: Callable[[T], bool], words: str) -> Callable[[str], T]:
    """A type of flags: the word is parsed and refused unless it is allowed, in the words that say what is."""

    def read(word: str) -> T:
        with suppress(ValueError):
            if allowed(value := parse(word)):
                return value
        raise argparse.ArgumentTypeError(f"{word!r} is not {words}")

    return read


COUNT = checked(int, lambda value: value >= 1, "a whole number from 1 on")
INDEX = checked(int, lambda value: value >= 0, "a whole number from 0 on")
SEED = checked(int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")
RESAMPLES = checked(int, lambda value: value >= 20, "a whole number from 20 on, which an interval of 95 % needs")
FINITE = checked(float, math.isfinite, "a finite number")
AMOUNT = checked(float, lambda value: 0 <= value < math.inf, "a finite number from 0 on")
SHARE = checked(float, lambda value: 0 <= value <= 1, "a number from 0 to 1")
NEW_FIELD = checked(str, lambda name: name.strip() not in ("", "confidence_ids"), "the name of a new field")
CHANCE = checked(float, lambda value: 0 < value < 1, "a number between 0 and 1")


def named_folders(flag: str, words: Sequence[str], kinds: Sequence[str]) -> dict[str, list[Path]]:
    """Folders by kind, from words of the form KIND=FOLDER, in the order given.

    Args:
        flag: Name of the flag, for error messages.
        words: Words of the command line.
        kinds: Allowed kinds.

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


def add_output(parser: argparse.ArgumentParser, *names: str, kind: Kind = FILE, **options: Any) -> None:
    """Add the flag, or the argument, of a file or folder that the command writes.

    Args:
        parser: Parser of the command.
        names: Names of the flag.
        kind: What the command writes there; the command line refuses what it would replace by mistake.
        options: Further arguments of `add_argument`.
    """
    action = parser.add_argument(*names, type=Path, **options)
    parser.set_defaults(outputs={**(parser.get_default("outputs") or {}), action.dest: kind})


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the flag that allows a command to replace what lies at its output."""
    parser.add_argument("--overwrite", action="store_true", help="replace an output that exists")


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the prompt set. It has no default, since other prompts make another study."""
    parser.add_argument(
        "--prompts", required=True, metavar="SET", help="prompt set: a folder of cocal/questions/prompts"
    )


def add_run_folder(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the folder for unfinished work."""
    parser.add_argument("--run-folder", required=True, type=Path, help="working folder; a killed run resumes from it")


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name the evaluated checkpoint."""
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--algorithm", required=True, help="algorithm that trained the policy, or base")
    parser.add_argument("--step", required=True, type=INDEX, help="rollout step of the checkpoint")


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the commands that train a policy."""
    parser.add_argument("--settings", required=True, help="JSON: settings of the policy training")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--algorithm", required=True, choices=["grpo", "rlcr", "dcpo"])
    parser.add_argument("--base", required=True, type=Path, help="checkpoint to start from")
    parser.add_argument("--questions", required=True, type=Path, help="training set")
    add_prompts(parser)
    add_run_folder(parser)
    add_output(parser, "--stages", kind=STEPS, required=True, help="folder for step-N checkpoints")
    add_output(parser, "--rollouts", kind=FOLDER, required=True, help="folder for the rollout tables, one per step")
    add_output(parser, "--cost", help="JSON file for the time of the training")


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the folder that holds the files of registered question sets."""
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("COCAL_SOURCES", "results/sources")),
        metavar="FOLDER",
        help="source files, in the layout of their hosts (default: the variable COCAL_SOURCES, else results/sources)",
    )


def add_readers(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the checkpoints that read stored rollouts (cocal.features.replay)."""
    parser.add_argument(
        "--checkpoints",
        default=[],
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="step-N of every stage; each reads the rollout steps after the stage before it, up to N",
    )
    parser.add_argument(
        "--exact",
        type=Path,
        help="folder of the weights of every step; weight_v000001 (of slime) or step-0 sampled step 1 and reads it",
    )


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the commands that judge answers."""
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier, the judge of mathematics")
    parser.add_argument("--judge", default='{"kind": "exact-match"}', help="JSON: judge of factual answers")
    parser.add_argument(
        "--judgements",
        type=Path,
        default=Path("results/judgements"),
        help="folder that caches a language model's replies; jobs share it, and it may be deleted",
    )


def judging_of(options: argparse.Namespace, domains: Sequence[str]) -> "Judging":
    """The judges that these flags choose for question sets of some domains.

    Raises:
        ConfigError: if the flags are not valid.
    """
    from cocal.config import parse_settings
    from cocal.config.evaluation import VerifierSettings
    from cocal.config.judge import JudgeChoice
    from cocal.generation.judging.opening import Judging

    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judge = parse_settings(JudgeChoice, options.judge, "--judge").root
    return Judging.of(verifier, judge, domains)


def add_model(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the flags of a language model that is a folder or lies on the Hub."""
    parser.add_argument("--model", required=True, metavar="MODEL", help=f"{what}; a folder, or a name on the Hub")
    parser.add_argument("--revision", help="commit or branch of a model on the Hub (default: main)")


def add_numerics(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the numerics, for confidences that equal those of a study to the last bit."""
    parser.add_argument(
        "--numerics",
        default="native",
        choices=["native", "portable"],
        help="portable: the same bytes on every x86-64 processor with AVX2, as `numerics` of a study (default: native)",
    )


def set_numerics(options: argparse.Namespace) -> None:
    """Put the variables of the numerics into the environment, before the libraries that read them are loaded.

    Raises:
        ConfigError: if the processor cannot compute so.
    """
    from cocal.runtime.numerics import check_processor, environment

    os.environ.update(environment(options.numerics))
    check_processor()


def add_fields(parser: argparse.ArgumentParser, example: str) -> None:
    """Add the flag that says which fields of a file mean what."""
    parser.add_argument(
        "--field",
        default=[],
        action="append",
        metavar="MEANING=NAME",
        help=f"name of a field where it is not found by itself, {example}; may be repeated",
    )


def one_field_each(words: Sequence[str]) -> list[str]:
    """A command line in which each `--field` has one value.

    The flag takes one, so that it leaves the files behind it alone; several behind one `--field`, as it was once
    written, are told from files by their form.
    """
    found: list[str] = []
    for word in words:
        if found[-2:-1] == ["--field"] and re.match("[a-z_]+=", word):
            found.append("--field")
        found.append(word)
    return found


def field_flags(mapping: Mapping[str, str]) -> list[str]:
    """The words of a command line that give these names of fields by their meaning."""
    return [word for meaning, name in mapping.items() for word in ("--field", f"{meaning}={name}")]


def given_flags(options: argparse.Namespace, defaults: Mapping[str, object]) -> list[str]:
    """The flags of a command that do not have their default, as words for another command."""
    given = {name: getattr(options, name) for name in defaults if getattr(options, name) != defaults[name]}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def field_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names of fields by their meaning, from words of the form MEANING=NAME.

    Raises:
        ConfigError: if a word has another form.
    """
    mapping = {}
    for word in words:
        meaning, equals, name = word.partition("=")
        if not equals or not meaning or not name:
            raise ConfigError(f"--field: {word!r} is not MEANING=NAME, such as response=output")
        mapping[meaning] = name
    return mapping
