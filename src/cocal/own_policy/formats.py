"""The files that somebody's rollouts lie in: their format is guessed, and said."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ConfigError, ContractError
from cocal.integrations import prime_rl
from cocal.integrations.lines import samples
from cocal.integrations.sample import Sample
from cocal.integrations.slime import dumps as slime
from cocal.integrations.trl import dumps as trl
from cocal.store.parquet import columns_of
from cocal.store.rows import entries, is_file

_PRIME_RL, _SLIME = "prime-rl's traces", "slime's dumps"
_METADATA = "_metadata"
"""End of the name of the file in which open-instruct describes a run, beside its rollouts."""


class _File(NamedTuple):
    kind: str
    path: Path
    step: int | None


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
            for sample in samples(((where, entry) for where, _, entry in entries(path)), mapping, notes):
                yield _in_file(sample, path) if sample.step is None else sample
            return
        if wrong := [meaning for meaning in mapping if meaning != "reward"]:
            raise ConfigError(f"--field {wrong[0]}=...: {self.format} have fields of their own; only reward fits")
        reward = mapping.get("reward")
        if self.format == _PRIME_RL:
            found = prime_rl.read(path, reward)
        elif self.format == _SLIME:
            found = slime.read(path, reward or "reward")
        else:
            if reward is None and (reward := trl.reward_of(path)):
                notes[f"fields: {reward} as reward"] += 1
            found = trl.read(path, reward or "reward")
            if not found:
                raise ContractError(f"{path}: the file is empty; delete it, or dump the step again")
        for sample in found:
            dated = sample.model_copy(update={"step": step})
            yield dated if self.format == _PRIME_RL else _in_file(dated, path)


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
    kinds = list(dict.fromkeys(one.kind for one in found))
    if len(kinds) > 1:
        raise ContractError(f"{found[0].path.parent}: holds {' and '.join(kinds)}; give files of one format")
    files = Counter(one.path.resolve() for one in found)
    if twice := [path for path, count in files.items() if count > 1]:
        raise ContractError(f"{twice[0]}: the file is named twice; name it, or the folder that holds it, once")
    return Found(kinds[0], tuple((one.path, one.step) for one in found))


def _in(place: Path) -> list[_File]:
    """The files of a folder, or a file by itself."""
    if is_file(place):
        kind = _kind(place)
        return [_File(kind, place, _step_of(place, kind))]
    if len(place.name) > 255 or not place.is_dir():
        raise ContractError(f"{place}: there is no such file or folder of rollouts")
    if prime_rl.holds_steps(place / "rollouts"):
        place /= "rollouts"
    if prime_rl.holds_steps(place):
        return [_File(_PRIME_RL, path, step) for step, path in prime_rl.files(place).items()]
    if any(place.glob("*.pt")):
        return [_File(_SLIME, path, step) for step, path in slime.files(place).items()]
    if any(place.glob("*.parquet")):
        return [_File(_kind(path), path, step) for step, path in trl.files(place).items()]
    if lines := [path for path in place.glob("*.jsonl") if not path.stem.endswith(_METADATA)]:
        return [_File(_kind(path), path, None) for path in sorted(lines, key=_by_number)]
    within = sorted({file.parent.name for ending in ("jsonl", "parquet", "pt") for file in place.glob(f"*/*.{ending}")})
    hint = f"; there are some in {', '.join(within[:3])}" if within else ""
    raise ContractError(f"{place}: the folder holds no rollouts (*.jsonl, *.parquet, *.pt){hint}")


def _step_of(file: Path, kind: str) -> int | None:
    """The step that a file has among the files of its folder; None where its name has no number of a step."""
    if kind == _PRIME_RL:
        return prime_rl.step_of(file)
    if file.suffix == ".jsonl" or not any(character.isdecimal() for character in file.stem):
        return None
    numbered = (slime if kind == _SLIME else trl).files(file.parent)
    return next((step for step, path in numbered.items() if path.name == file.name), None)


def _by_number(path: Path) -> list[str | int]:
    """Files that are named by steps lie in the order of the steps: 2.jsonl before 10.jsonl."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name)]


def _in_file(sample: Sample, path: Path) -> Sample:
    """The sample with a group of this file alone, since groups are numbered anew in every file."""
    return sample if sample.group is None else sample.model_copy(update={"group": f"{path} {sample.group}"})


def _kind(path: Path) -> str:
    if path.suffix == ".pt":
        if not path.stem.isdecimal():
            raise ContractError(f"{path}: slime names its dumps by the number of the rollout (0.pt); rename the file")
        return _SLIME
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
