"""The files that somebody's rollouts lie in: their format is guessed, and said."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cocal.errors import ConfigError, ContractError
from cocal.integrations import lines, prime_rl
from cocal.integrations.sample import Sample
from cocal.integrations.slime import dumps as slime
from cocal.integrations.trl import dumps as trl
from cocal.store.damage import unreadable

_KNOWN_COLUMNS = {"step", "prompt", "completion", "advantage", "mode"}
"""Columns of TRL's completions that are no rewards."""


_PRIME_RL = "prime-rl's traces"
_METADATA = "_metadata"
"""End of the name of the file in which open-instruct describes a run, beside its rollouts."""


@dataclass(frozen=True)
class Found:
    """The rollouts that were found.

    Attributes:
        format: What they were taken for, in words.
        files: Files in the order in which they are read, each with its rollout step where the format tells it by file.
    """

    format: str
    files: tuple[tuple[Path, int | None], ...]

    def samples(self, mapping: Mapping[str, str], notes: Counter) -> Iterator[Sample]:
        """Every response, file by file, each with its step where the dump says it.

        Args:
            mapping: Names of fields by their meaning (`cocal.integrations.lines.FIELDS`).
            notes: Sentences about what was read for what, which are added to.

        Raises:
            ConfigError: if the mapping does not suit the format.
            ContractError: if a file is not readable, or a row is invalid; the message names file and row.
        """
        left_out: Counter = Counter()
        for path, step in self.files:
            if path.suffix == ".jsonl" and self.format != _PRIME_RL:
                yield from _lines(path, step, mapping, notes)
                continue
            if wrong := [meaning for meaning in mapping if meaning != "reward"]:
                raise ConfigError(f"--field {wrong[0]}=...: {self.format} have fields of their own; only reward fits")
            if self.format == _PRIME_RL:
                for sample in prime_rl.read(path, mapping.get("reward"), left_out):
                    yield replace(sample, step=step)
            else:
                read = slime.read if path.suffix == ".pt" else trl.read
                found = read(path, _reward_key(path, mapping, notes))
                if not found:
                    raise ContractError(f"{path}: the file is empty; delete it, or dump the step again")
                yield from (replace(sample, step=step, group=f"{path.name} {sample.group}") for sample in found)
        for why, count in left_out.items():
            notes[f"{count:,} traces {why}, and were left out"] += 1


def find(places: Sequence[Path]) -> Found:
    """Find rollouts in folders or files, and guess their format.

    Raises:
        ContractError: if there are none, or files of several formats.
    """
    found = [one for place in places for one in _in(place)]
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    if len(kinds) > 1:
        raise ContractError(f"{found[0][1].parent}: holds {' and '.join(kinds)}; give files of one format")
    return Found(kinds[0], tuple((path, step) for _, path, step in found))


def _in(place: Path) -> list[tuple[str, Path, int | None]]:
    """Format, file and step of each file of a folder, or of a file by itself."""
    if not place.exists():
        raise ContractError(f"{place}: there is no such file or folder of rollouts")
    if place.is_file():
        kind = _kind(place)
        return [(kind, place, prime_rl.step_of(place) if kind == _PRIME_RL else None)]
    if prime_rl.holds_steps(place / "rollouts"):
        place /= "rollouts"
    if prime_rl.holds_steps(place):
        return [(_PRIME_RL, path, step) for step, path in prime_rl.files(place).items()]
    if any(place.glob("*.pt")):
        return [("slime's dumps", path, step) for step, path in slime.files(place).items()]
    if any(place.glob("*.parquet")):
        files = trl.files(place)
        return [(_kind(path), path, step) for step, path in files.items()]
    lines_of = [path for path in place.glob("*.jsonl") if not path.stem.endswith(_METADATA)]
    if files := sorted(lines_of, key=_by_number):
        return [(_kind(path), path, None) for path in files]
    within = sorted({file.parent.name for ending in ("jsonl", "parquet", "pt") for file in place.glob(f"*/*.{ending}")})
    hint = f"; there are some in {', '.join(within[:3])}" if within else ""
    raise ContractError(f"{place}: the folder holds no rollouts (*.jsonl, *.parquet, *.pt){hint}")


def _by_number(path: Path) -> tuple[int, str]:
    """Files that are named by steps lie in the order of the steps: 2.jsonl before 10.jsonl."""
    digits = "".join(character for character in path.stem if character.isdigit())
    return int(digits or 0), path.name


def _kind(path: Path) -> str:
    if path.suffix == ".pt":
        if not path.stem.isdecimal():
            raise ContractError(f"{path}: slime names its dumps by the number of the rollout (0.pt); rename the file")
        return "slime's dumps"
    if path.suffix == ".jsonl":
        _, _, entry = next(lines.entries(path))
        if prime_rl.is_episode(entry):
            return _PRIME_RL
        if {"prompt_tokens", "response_tokens"} <= {*entry}:
            return "open-instruct's JSON lines"
        return "verl's JSON lines" if {"input", "output", "score"} <= {*entry} else "JSON lines"
    if path.suffix == ".parquet":
        return "rollout tables of CoCal" if "response_ids" in _columns(path) else "TRL's completions"
    raise ContractError(f"{path}: no format is known by this ending; there are .jsonl, .parquet (TRL) and .pt (slime)")


def _columns(path: Path) -> list[str]:
    try:
        return pq.read_schema(path).names
    except (pa.ArrowInvalid, OSError) as error:
        raise ContractError(unreadable(path, "Parquet file", error)) from None


def _lines(path: Path, step: int | None, mapping: Mapping[str, str], notes: Counter) -> Iterator[Sample]:
    fields = None
    for where, _, entry in lines.entries(path):
        if fields is None:
            fields = lines.Fields.of(entry, mapping, where)
            notes[f"fields: {fields}"] += 1
        yield fields.sample(entry, where)


def _reward_key(path: Path, mapping: Mapping[str, str], notes: Counter) -> str:
    """Name of the reward: the one that is given, or the only one of TRL's table; slime's dict needs a name."""
    if "reward" in mapping:
        return mapping["reward"]
    if path.suffix == ".pt" or "response_ids" in _columns(path):
        return "reward"
    schema = pq.read_schema(path)
    numeric = [name for name in schema.names if _is_number(schema.field(name).type) and name not in _KNOWN_COLUMNS]
    if len(numeric) != 1:
        listed = ", ".join(numeric) or "none"
        raise ContractError(f"{path}: which column is the verifier's reward ({listed})? Name it by --field reward=NAME")
    notes[f"fields: {numeric[0]} as reward"] += 1
    return numeric[0]


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
