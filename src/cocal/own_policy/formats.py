"""The files that somebody's rollouts lie in: their format is guessed, and said."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cocal.errors import ConfigError, ContractError
from cocal.integrations import prime_rl
from cocal.integrations.lines import Fields
from cocal.integrations.sample import Sample
from cocal.integrations.slime import dumps as slime
from cocal.integrations.trl import dumps as trl
from cocal.store.parquet import columns_of
from cocal.store.rows import entries, is_file, listed

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
        """Every response to learn from, file by file, each with its step where the dump says it.

        Args:
            mapping: Names of fields by their meaning (`cocal.integrations.lines.FIELDS`).
            notes: Sentences about what was read for what, and about the rows that were left out, which are added to.

        Raises:
            ConfigError: if the mapping does not suit the format.
            ContractError: if a file is not readable, a row is invalid, or all were left out; the message names file
                and row.
        """
        read, left_out = 0, Counter()
        for path, step in self.files:
            for sample in self._of_file(path, step, mapping, notes):
                if sample.left_out is not None:
                    left_out[sample.left_out] += 1
                else:
                    read += 1
                    yield sample
        said = [f"{count:,} row{'s' if count > 1 else ''} left out: {why}" for why, count in left_out.items()]
        notes.update(said)
        if not read:
            raise ContractError(f"{self.files[0][0]}: there is no response to learn from ({'; '.join(said)})")

    def _of_file(self, path: Path, step: int | None, mapping: Mapping[str, str], notes: Counter) -> Iterator[Sample]:
        if path.suffix == ".jsonl" and self.format != _PRIME_RL:
            yield from _lines(path, mapping, notes)
            return
        if wrong := [meaning for meaning in mapping if meaning != "reward"]:
            raise ConfigError(f"--field {wrong[0]}=...: {self.format} have fields of their own; only reward fits")
        if self.format == _PRIME_RL:
            for sample in prime_rl.read(path, mapping.get("reward")):
                yield replace(sample, step=step)
            return
        read = slime.read if path.suffix == ".pt" else trl.read
        found = read(path, _reward_key(path, mapping, notes))
        if not found:
            raise ContractError(f"{path}: the file is empty; delete it, or dump the step again")
        yield from (replace(sample, step=step, group=f"{path} {sample.group}") for sample in found)


def find(places: Sequence[Path]) -> Found:
    """Find rollouts in folders or files, and guess their format.

    Files that are named one by one are read as those of a folder are: by the numbers in their names, and each with the
    step that it has there.

    Raises:
        ContractError: if there are none, a file is named twice, or there are files of several formats.
    """
    if all(is_file(place) for place in places):
        folders = list(dict.fromkeys(place.parent for place in places))
        places = sorted(places, key=lambda place: (folders.index(place.parent), _by_number(place)))
    found = [one for place in places for one in _in(place)]
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    if len(kinds) > 1:
        raise ContractError(f"{found[0][1].parent}: holds {' and '.join(kinds)}; give files of one format")
    files = Counter(path.resolve() for _, path, _ in found)
    if twice := [path for path, count in files.items() if count > 1]:
        raise ContractError(f"{twice[0]}: the file is named twice; name it, or the folder that holds it, once")
    return Found(kinds[0], tuple((path, step) for _, path, step in found))


def _in(place: Path) -> list[tuple[str, Path, int | None]]:
    """Format, file and step of each file of a folder, or of a file by itself."""
    if is_file(place):
        kind = _kind(place)
        return [(kind, place, _step_of(place, kind))]
    if len(place.name) > 255 or not place.is_dir():
        raise ContractError(f"{place}: there is no such file or folder of rollouts")
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


def _step_of(file: Path, kind: str) -> int | None:
    """The step that a file has among the files of its folder; None where its name has no number of a step."""
    if kind == _PRIME_RL:
        return prime_rl.step_of(file)
    if file.suffix == ".jsonl" or not any(character.isdecimal() for character in file.stem):
        return None
    numbered = (slime if file.suffix == ".pt" else trl).files(file.parent)
    return next((step for step, path in numbered.items() if path.name == file.name), None)


def _by_number(path: Path) -> list[str | int]:
    """Files that are named by steps lie in the order of the steps: 2.jsonl before 10.jsonl."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name)]


def _kind(path: Path) -> str:
    if path.suffix == ".pt":
        if not path.stem.isdecimal():
            raise ContractError(f"{path}: slime names its dumps by the number of the rollout (0.pt); rename the file")
        return "slime's dumps"
    if path.suffix == ".jsonl":
        _, _, entry = next(entries(path))
        if prime_rl.is_episode(entry):
            return _PRIME_RL
        if {"prompt_tokens", "response_tokens"} <= {*entry}:
            return "open-instruct's JSON lines"
        return "verl's JSON lines" if {"input", "output", "score"} <= {*entry} else "JSON lines"
    if path.suffix == ".parquet":
        return "rollout tables of CoCal" if "response_ids" in columns_of(path).names else "TRL's completions"
    raise ContractError(f"{path}: no format is known by this ending; there are .jsonl, .parquet (TRL) and .pt (slime)")


def _lines(path: Path, mapping: Mapping[str, str], notes: Counter) -> Iterator[Sample]:
    fields = None
    for where, _, entry in entries(path):
        if fields is None:
            fields = Fields.of(entry, mapping, where)
            notes[f"fields: {fields}"] += 1
        sample = fields.sample(entry, where)
        if sample.step is None and sample.group is not None:  # groups are numbered anew in every file
            sample = replace(sample, group=f"{path} {sample.group}")
        yield sample


def _reward_key(path: Path, mapping: Mapping[str, str], notes: Counter) -> str:
    """Name of the reward: the one that is given, or the only one of TRL's table; slime's dict needs a name."""
    if "reward" in mapping:
        return mapping["reward"]
    if path.suffix == ".pt":
        return "reward"
    schema = columns_of(path)
    if "response_ids" in schema.names:
        return "reward"
    numeric = [name for name in schema.names if _is_number(schema.field(name).type) and name not in _KNOWN_COLUMNS]
    if len(numeric) != 1:
        raise ContractError(
            f"{path}: which column is the verifier's reward ({listed(numeric) or 'none'})? Name it by "
            "--field reward=NAME"
        )
    notes[f"fields: {numeric[0]} as reward"] += 1
    return numeric[0]


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
