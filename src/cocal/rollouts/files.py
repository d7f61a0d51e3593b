"""Files of rollouts: which are read, in which order, and of which step they are, by one rule for all formats."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocal.errors import ContractError
from cocal.rollouts.exclusions import EVALUATION
from cocal.rollouts.format import Format, Reading
from cocal.rollouts.formats import ENDINGS, format_of
from cocal.rollouts.labels import NO_LABEL
from cocal.rollouts.sample import Sample, doubtful
from cocal.store.damage import fetched, is_file
from cocal.store.rows import listed

_DATA = re.compile(
    r"\.(?:json(?:l|lines)?|ndjson|[ct]sv|parquet|pt|arrow|feather|pickle|pkl|np[yz]|tar|tgz|zip)(?:[.~-][\w.-]*)?$",
    re.IGNORECASE,
)
"""Endings of files that may hold rollouts."""
_WITHIN = re.compile(r"(train_)?rollouts?(_data)?|train(ing)?|(global_)?step[_-]?\d+", re.IGNORECASE)
_DEPTH = 5
"""Names of folders within a folder of rollouts that are searched, too, and how deep they may lie."""
_STEP = re.compile(r"(?:^|[._-])(?:global_)?step[_-]?(\d+)(?:$|[._-])", re.IGNORECASE)
"""The step in the name of a file or folder."""
_ABOUT = re.compile(r"\..*|.*_metadata")
"""Names of hidden files and of files about a run, which lie beside its rollouts and are not read."""


@dataclass(frozen=True)
class RolloutFiles:
    """The rollouts that were found.

    Attributes:
        kind: The format of the files.
        files: Files in the order in which they are read, each with its rollout step where its name tells it.
        said: Sentences about files that are not read.
    """

    kind: Format
    files: tuple[tuple[Path, int | None], ...]
    said: tuple[str, ...] = ()

    def samples(self, reading: Reading, notes: Counter) -> Iterator[Sample]:
        """Every response to learn from, file by file, each with its step if the dump names it. Sentences about how
        fields were read, and about the rows that were left out, are added to the notes.

        Raises:
            ConfigError: if names of fields do not suit the format.
            ContractError: if a row is not readable (it is named), all are left out, or they are of several policies.
        """
        notes.update(self.said)
        return learnable(self._samples(reading, notes), reading, notes, str(self.files[0][0]))

    def _samples(self, reading: Reading, notes: Counter) -> Iterator[Sample]:
        for path, step in self.files:
            for sample in self.kind.read(path, reading, notes):
                group = None if sample.group is None else f"{path} {sample.group}"  # numbered anew in every file
                of_file = {"step": step, "file": str(path) if step is None else None, "group": group}
                yield sample if sample.step is not None else sample.model_copy(update=of_file)


def learnable(samples: Iterable[Sample], reading: Reading, notes: Counter, source: str) -> Iterator[Sample]:
    """The samples to learn from; sentences about the others, and about doubtful labels, are added to the notes. Raises
    a ContractError that names the source if there is none, or they are of several policies."""
    read, left_out, doubts, models = 0, Counter(), Counter(), Counter()
    for sample in samples:
        if why := sample.left_out or (NO_LABEL if sample.label is None else None):
            left_out[why] += 1
            continue
        read += 1
        doubts.update(filter(None, [sample.doubt]))
        if sample.model is not None:
            models[sample.model] += 1
        yield sample
    if len(models) > 1:
        names = listed(f"{count:,} of {name}" for name, count in models.items())
        if "model" not in reading.ignored:
            raise ContractError(
                f"{source}: the responses are of several policies ({names}); a companion learns from one: give its "
                "rows alone, or --ignore model if these are one"
            )
        notes[f"responses of several policies: {names}"] += 1
    said = [f"{count:,} row{'s' if count > 1 else ''} left out: {why}" for why, count in left_out.items()]
    notes.update([*said, *doubtful(doubts, read)])
    if said and not read:
        raise ContractError(
            f"{source}: there is no response to learn from ({'; '.join(said)}); if others are its responses or labels, "
            "name their fields (--field response=FIELD, correct=FIELD), or give --ignore finish_reason if the policy "
            "ended them itself"
        )


def find(places: Sequence[Path]) -> RolloutFiles:
    """Find rollouts in folders or files, and guess their format. Raises a ContractError if there are none, a file is
    named twice, or the files have several formats. Files that are named one by one get the order and steps that they
    have in their folder. Files whose names tell of an evaluation are left out, unless all do."""
    if alone := all(is_file(place) for place in places):
        folders = _in_order(dict.fromkeys(place.parent for place in places))
        places = sorted(places, key=lambda place: (folders.index(place.parent), _by_number(place.name)))
    else:
        places = _in_order(places)
    each = {place: [place] if is_file(place) else _within(place) for place in places}
    evaluated = [path for place, files in each.items() for path in files if _is_evaluation(path, place)]
    names = listed(dict.fromkeys(f"{path.parent.name}/{path.name}" for path in evaluated))
    said = [f"files left out, whose names tell of an evaluation: {names}"] if evaluated else []
    if len(evaluated) == sum(map(len, each.values())):
        raise ContractError(
            f"{places[0]}: the names of the files tell of an evaluation ({names}); give those of the training, or name "
            "these one by one if they are"
        )
    rows = [row for place, files in each.items() for row in _dated([p for p in files if p not in evaluated], place)]
    kinds = {kind.name: path for kind, path, _ in rows}
    if len(kinds) > 1:
        raise ContractError(
            f"{places[0]}: holds {' and '.join(f'{name} ({path})' for name, path in kinds.items())}; give files of one "
            "format, or the folder that holds them"
        )
    files = Counter(path.resolve() for _, path, _ in rows)
    if twice := [path for path, count in files.items() if count > 1]:
        raise ContractError(f"{twice[0]}: the file is named twice; name it, or the folder that holds it, once")
    if not alone:
        read = {*files, *(path.resolve() for path in evaluated)}
        beside = {path.resolve() for folder in {path.parent for path in read} for path in folder.iterdir()}
        below = (path for place in each if not is_file(place) for path in place.glob("*/*"))
        below = (path for path in below if path.suffix in (".jsonl", ".parquet"))
        beside |= {path.resolve() for path in below if not _is_searched(path.parent.name)}
        left = sorted(path for path in beside - read if _DATA.search(path.name) and path.suffix != ".json")
        if left:  # .json holds settings
            logging.warning("files beside the rollouts are not read: %d, such as %s", len(left), left[0])
    return RolloutFiles(rows[0][0], tuple((path, step) for _, path, step in rows), tuple(said))


def _within(folder: Path, depth: int = 0) -> list[Path]:
    """The rollout files of a folder and of its searched sub-folders. Raises a ContractError if there are none."""
    if len(folder.name) > 255 or not folder.is_dir():
        raise ContractError(f"{folder}: there is no such file or folder of rollouts; check the path")
    entries = sorted(folder.iterdir(), key=_by_number)
    own = ([path for path in entries if path.suffix == ending and is_file(path)] for ending in ENDINGS)
    paths = [path for path in next(filter(None, own), []) if not _ABOUT.fullmatch(path.stem)]
    below = [path for path in entries if _is_searched(path.name) and path.is_dir() and depth < _DEPTH]
    paths += [file for path in below for file in _within(path, depth + 1)]
    if not paths and not depth:
        there = next((path for path in sorted(folder.rglob("*")) if _DATA.search(path.name) and is_file(path)), None)
        hint = "" if there is None else f"; unpack, convert or name {fetched(there).relative_to(folder)}"
        if there and there.suffix in ENDINGS and there.parent != folder:
            hint = f"; name a folder in it, such as {there.parent.relative_to(folder)}"
        raise ContractError(f"{folder}: the folder holds no rollouts (*.jsonl, *.parquet, *.pt){hint}")
    return paths


def _is_searched(name: str) -> bool:
    """Whether the name of a folder tells of rollouts, of a training or of an evaluation."""
    return bool(_WITHIN.fullmatch(name) or EVALUATION.search(name))


def _is_evaluation(path: Path, place: Path) -> bool:
    """Whether the name of a file, or of a folder between it and the folder that was given, tells of an evaluation."""
    parts = () if path == place else [*path.relative_to(place).parent.parts, path.stem]
    return any(EVALUATION.search(part) for part in parts)


def _dated(files: Sequence[Path], place: Path) -> list[tuple[Format, Path, int | None]]:
    """Files, each with its format and its step."""
    kinds = {path: format_of(path) for path in files}
    rows = []
    for folder in dict.fromkeys(path.parent for path in files):
        here = [path for path in files if path.parent == folder]
        numbered = kinds[here[0]].steps
        several = len(here) > 1 or any(character.isdecimal() for character in here[0].stem)
        steps = {path.name: step for step, path in numbered(folder).items()} if numbered and several else {}
        if numbered and steps and place not in here:  # others lie there, too
            here = sorted((path for path in here if path.name in steps), key=lambda path: steps[path.name])
        rows += [(kinds[path], path, steps.get(path.name) if numbered else step_named(path)) for path in here]
    return rows


def step_named(path: Path) -> int | None:
    """The step in the name of a file, or of the nearest folder above that has one; None without any."""
    parts = path.absolute().with_suffix("").parts
    return next((int(match[1]) for part in reversed(parts) if (match := _STEP.search(part))), None)


def _in_order(folders: Iterable[Path]) -> list[Path]:
    """Folders by the numbers in their names, which a shell sorts as text; in the given order if other parts differ."""
    folders = list(folders)
    alike = len({re.sub(r"\d+", "", str(folder)) for folder in folders}) == 1
    return sorted(folders, key=_by_number) if alike else folders


def _by_number(path: Path | str) -> list[str | int]:
    """A sort key that compares numbers in names as numbers: 2.jsonl comes before 10.jsonl."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]
