"""Rollouts of anybody's training: the files that they lie in, and one chronological table of them (section 4.1)."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.errors import ConfigError, ContractError
from cocal.integrations import lines, prime_rl, slime
from cocal.integrations.sample import Sample
from cocal.integrations.trl import dumps as trl
from cocal.own_policy.questions import contradictions, same_question
from cocal.own_policy.scored import NO_LABEL, check_bound, correctness
from cocal.own_policy.states import ORIGINS, Encoder
from cocal.store.parquet import columns_of
from cocal.store.provenance import file_digest
from cocal.store.rows import entries, is_file

_DATA = re.compile(r"\.(?:jsonl|ndjson|csv|parquet|pt)(?:\.(?:gz|zst|bz2|xz))?$", re.IGNORECASE)
"""Endings of files that may hold rollouts."""
_PRIME_RL, _SLIME = "prime-rl's traces", "slime's dumps"
_STEP = re.compile(r"train_data_step(\d+)\.jsonl$|/global_step_(\d+)_evals/[^/]*$")
"""The step in the names of NeMo-RL's train_data_step1.jsonl, and of SkyRL's files in global_step_1_evals."""


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
        found = (sample for path, step in self.files for sample in self._of_file(path, step, mapping, notes))
        return learnable(found, notes, str(self.files[0][0]))

    def _of_file(self, path: Path, step: int | None, mapping: Mapping[str, str], notes: Counter) -> Iterator[Sample]:
        if path.suffix == ".jsonl" and self.format != _PRIME_RL:
            named = _STEP.search(path.absolute().as_posix())
            step = int(named[1] or named[2]) if named else None
            for one in lines.samples(lines.rows(path), mapping, notes):
                of_file = {"step": step, "file": str(path) if step is None else None}
                yield one if one.step is not None else _in_file(one.model_copy(update=of_file), path)
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


def learnable(samples: Iterable[Sample], notes: Counter, source: str) -> Iterator[Sample]:
    """The samples to learn from; sentences about the others, and about doubtful labels, are added to the notes. If
    there is none, a ContractError names the source."""
    read, left_out, doubts = 0, Counter(), Counter()
    for sample in samples:
        if sample.left_out is not None:
            left_out[sample.left_out] += 1
        else:
            read += 1
            doubts.update(filter(None, [sample.doubt]))
            yield sample
    said = [f"{count:,} row{'s' if count > 1 else ''} left out: {why}" for why, count in left_out.items()]
    notes.update([*said, *(f"in {count:,} of {read:,} rows {doubt}" for doubt, count in doubts.items())])
    if said and not read:
        raise ContractError(f"{source}: there is no response to learn from ({'; '.join(said)})")


def find(places: Sequence[Path]) -> Found:
    """Find rollouts in folders or files, and guess their format. A ContractError says that there are none, that a file
    is named twice, or that there are files of several formats.

    Files that are named one by one are read as those of a folder are: by the numbers in their names, and each with the
    step that it has there.
    """
    if all(is_file(place) for place in places):
        folders = _in_order(dict.fromkeys(place.parent for place in places))
        places = sorted(places, key=lambda place: (folders.index(place.parent), _by_number(place.name)))
    else:
        places = _in_order(places)
    found = [one for place in places for one in _in(place)]
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    if len(kinds) > 1:
        raise ContractError(f"{found[0][1].parent}: holds {' and '.join(kinds)}; give files of one format")
    files = Counter(path.resolve() for _, path, _ in found)
    if twice := [path for path, count in files.items() if count > 1]:
        raise ContractError(f"{twice[0]}: the file is named twice; name it, or the folder that holds it, once")
    if copies := _copies(files):
        raise ContractError(f"{copies[1]}: holds the same rollouts as {copies[0].name}; delete one of both files")
    if not all(is_file(place) for place in places):
        _say_what_is_passed_over(files)
    return Found(kinds[0], tuple((path, step) for _, path, step in found))


def _copies(files: Collection[Path]) -> tuple[Path, Path] | None:
    """Two files of one folder that have the same bytes; None if there are none."""
    sizes = Counter((path.parent, path.stat().st_size) for path in files)
    known: dict[tuple[Path, str], Path] = {}
    for path in (path for path in files if sizes[path.parent, path.stat().st_size] > 1):
        if (same := known.setdefault((path.parent, file_digest(path)), path)) != path:
            return same, path
    return None


def _say_what_is_passed_over(files: Collection[Path]) -> None:
    """Warn of files beside those that are read, whose names look like rollouts."""
    beside = (path.resolve() for folder in {path.parent for path in files} for path in folder.iterdir())
    left = sorted(path for path in beside if path not in files and _DATA.search(path.name) and is_file(path))
    if left:
        logging.warning("files beside the rollouts are not read: %d, such as %s", len(left), left[0])


def _in(place: Path) -> list[tuple[str, Path, int | None]]:
    """The files of a folder, or a file by itself, each with its format and its step."""
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
        return [(_SLIME, path, step) for step, path in slime.files(place).items()]
    if any(place.glob("*.parquet")):
        return [(_kind(path), path, step) for step, path in trl.files(place, gaps=True).items()]
    if found := lines.files(place):
        return [(_kind(path), path, None) for path in sorted(found, key=_by_number)]
    within = {file.parent for ending in ("jsonl", "parquet", "pt") for file in place.glob(f"*/*.{ending}")}
    hint = f"; there are some in {', '.join(path.name for path in _in_order(sorted(within))[:3])}" if within else ""
    raise ContractError(f"{place}: the folder holds no rollouts (*.jsonl, *.parquet, *.pt){hint}")


def _step_of(file: Path, kind: str) -> int | None:
    """The step that a file has among the files of its folder; None where its name has no number of a step."""
    if kind == _PRIME_RL:
        return prime_rl.step_of(file)
    if file.suffix == ".jsonl" or not any(character.isdecimal() for character in file.stem):
        return None
    numbered = slime.files(file.parent) if kind == _SLIME else trl.files(file.parent, gaps=True)
    return next((step for step, path in numbered.items() if path.name == file.name), None)


def _in_order(folders: Iterable[Path]) -> list[Path]:
    """Folders by the numbers in their names if they differ in nothing else, and otherwise as they are given: a shell
    lists step_0, step_1, step_10, step_2."""
    folders = list(folders)
    alike = len({re.sub(r"\d+", "", str(folder)) for folder in folders}) == 1
    return sorted(folders, key=_by_number) if alike else folders


def _by_number(path: Path | str) -> list[str | int]:
    """Names of steps lie in the order of the steps: 2.jsonl before 10.jsonl."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def _in_file(sample: Sample, path: Path) -> Sample:
    """The sample with a group of this file alone, since groups are numbered anew in every file."""
    return sample if sample.group is None else sample.model_copy(update={"group": f"{path} {sample.group}"})


def _kind(path: Path) -> str:
    if path.suffix == ".pt":
        if slime.step_of(path) is None:
            raise ContractError(f"{path}: slime names its dumps by the number of the rollout (0.pt); rename the file")
        return _SLIME
    if path.suffix == ".jsonl":
        _, _, entry = next(entries(path))
        if prime_rl.is_episode(entry):
            return _PRIME_RL
        return lines.kind_of(entry)
    if path.suffix == ".parquet":
        return "rollout tables of CoCal" if "response_ids" in columns_of(path).names else "TRL's completions"
    raise ContractError(f"{path}: no format is known by this ending; there are .jsonl, .parquet (TRL) and .pt (slime)")


@dataclass(frozen=True)
class Experience:
    """Rollouts with labels and token ids, in chronological order.

    Attributes:
        rows: One row for each response, with the columns response_id (0 to n - 1), step, question_id, question (its
            text), group (name of its group within its step), sample (place in it), prompt_ids and response_ids (int32
            arrays), length, truncated, correct and group_accuracy (over the whole group, truncated responses included).
        notes: Sentences about what was read and assumed.
        as_given: Whether the rollouts were given in this order.
        has_steps: Whether the rollouts name their steps; otherwise all are of step 1, in the order of training.
        tells_cut: Whether it is known of every response if it was cut at the length limit.
    """

    rows: pd.DataFrame
    notes: tuple[str, ...] = ()
    as_given: bool = True
    has_steps: bool = True
    tells_cut: bool = True


def experience_of(
    samples: Iterator[Sample], encoder: Encoder, *, correct_above: float | None = None, notes: Counter | None = None
) -> Experience:
    """Gather samples. Token ids are held in memory, four bytes each; texts are not.

    Responses to one prompt in one step are a group, wherever they lie in it; groups that samples name divide them
    further. Which responses have one prompt, its text or its ids tell (`cocal.own_policy.questions`).

    Args:
        samples: Responses with labels, in any order of the steps.
        encoder: Turns them into token ids.
        correct_above: See `correctness`.
        notes: Sentences that were collected while reading.

    Raises:
        ContractError: if there are no samples, a label is missing or unclear, only some of them have a step, or all are
            correct or all are wrong; the message names file and row.
    """
    notes = Counter() if notes is None else notes
    gathered, origins = [], Counter()
    while part := list(islice(samples, 2048)):  # they are tokenised together
        for sample, encoded in zip(part, encoder.encode(part), strict=True):
            if sample.label is None:
                raise ContractError(f"{sample.where}: {NO_LABEL}")
            check_bound(sample, correct_above)
            origins[encoded.origin, encoded.exact] += 1
            row = {name: getattr(sample, name) for name in ("where", "file", "step", "question_id", "group", "label")}
            row |= {"prompt_ids": encoded.prompt, "response_ids": encoded.response, "truncated": encoded.truncated}
            row |= {"question": sample.asked, "tells_cut": encoded.told}
            gathered.append(row)
    if not gathered:
        raise ContractError("there are no rollouts to learn from; give files with responses in them")
    rows = pd.DataFrame(gathered)
    rows["correct"] = _correct(rows, correct_above, notes)
    has_steps = bool(rows["step"].notna().any())
    rows["step"] = _steps(rows, notes)
    as_given = rows["step"].is_monotonic_increasing
    rows = rows.sort_values("step", kind="stable", ignore_index=True)
    said = _ask(rows)
    groups = rows.groupby(["step", "group"], sort=False)
    rows["group_accuracy"] = groups["correct"].transform("mean")
    rows["sample"] = groups.cumcount()
    rows["length"] = rows["response_ids"].map(len)
    rows["response_id"] = np.arange(len(rows))
    said += [f"{count:,} prompts are {ORIGINS[origin]}" for (origin, _), count in origins.items()]
    if anew := sum(count for (_, exact), count in origins.items() if not exact):
        said.append(
            f"{anew:,} responses or their prompts are texts, whose ids were made anew and may differ from those that "
            "were sampled"
        )
    told, limit = bool(rows["tells_cut"].all()), encoder.max_response_length
    longest = int(rows["length"].max())
    if not told and limit is None:
        said.append(
            "the files do not say which responses were cut at the limit, so none counts as cut; "
            f"{(rows['length'] == longest).sum():,} have {longest:,} tokens and none has more: if that was the limit, "
            f"give --max-response-length {longest}"
        )
    elif not told:
        said.append(
            f"the files do not say which responses were cut: those without an end within {limit:,} tokens are, "
            f"{rows['truncated'].sum():,}; the longest response has {longest:,}"
        )
    said.append(_sizes(groups.size()))
    learnt = rows.drop(columns=["where", "file", "tells_cut", "label"])
    return Experience(learnt, (*notes, *said), as_given, has_steps, told or limit is not None)


def _ask(rows: pd.DataFrame) -> list[str]:
    """Set each row's question, the text by which training and validation are split, and its group within its step;
    return sentences about ids that contradict the prompts."""
    prompts = [prompt.tobytes() for prompt in rows["prompt_ids"]]
    number = same_question(rows["question"], prompts, rows["question_id"])
    said = contradictions(number, rows["question_id"])
    each = rows[["question", "prompt_ids"]].groupby(number).first()
    ids = each["prompt_ids"][each["question"].isna()].map(lambda prompt: " ".join(map(str, prompt)))
    rows["question"] = each["question"].fillna(ids).to_numpy()[number]
    rows["question_id"] = rows["question_id"].fillna(rows["question"])
    given = rows["group"].map(str, na_action="ignore")
    sizes = pd.DataFrame({"step": rows["step"], "number": number, "group": given}).dropna()
    within = sizes.groupby([*sizes])
    if len(sizes) and within.ngroups == len(sizes) > sizes.groupby(["step", "number"]).ngroups:
        said.append("no two responses to a prompt have the same group, so all responses to a prompt in a step are one")
        given = None
    elif mixed := int((sizes.drop_duplicates().groupby(["step", "group"]).size() > 1).sum()):
        said.append(f"{mixed:,} groups hold responses to several prompts, and are divided by them")
    rows["group"] = pd.Series(number, index=rows.index).astype(str) + ("" if given is None else " " + given.fillna(""))
    rows["group"] += " " + rows["file"].fillna("")
    return said


def _correct(rows: pd.DataFrame, above: float | None, notes: Counter) -> np.ndarray:
    labels = rows["label"].to_numpy(dtype=np.float64)
    correct, note = correctness(labels, lambda place: rows["where"].iloc[place], above)
    if correct.all() or not correct.any():
        raise ContractError(
            f"{rows['where'].iloc[0]}: all {len(correct):,} responses are {'correct' if correct[0] else 'wrong'}; a "
            "companion learns from both: give more steps, harder or easier questions, or another field of correctness "
            "(--field correct=FIELD, or --field reward=FIELD with --correct-above)"
        )
    notes[f"labels: {note}; {100 * correct.mean():.1f} % are correct"] += 1
    return correct


def _steps(rows: pd.DataFrame, notes: Counter) -> np.ndarray:
    given = rows["step"].notna()
    if not given.any():
        notes["no response names its step: the order of the files and rows is taken for the order of training"] += 1
        return np.ones(len(rows), dtype=np.int64)
    if not given.all():
        where = rows["where"][~given].iloc[0]
        raise ContractError(f"{where}: the row has no step, but others have one; add it, or leave out all steps")
    steps = rows["step"].to_numpy(dtype=np.int64)
    if steps.min() < 1:  # some engines count from 0
        steps = steps + 1 - steps.min()
    return steps


def _sizes(sizes: pd.Series) -> str:
    counts = sizes.value_counts(sort=False)
    size, number = counts.idxmax(), counts.max()
    odd = f", {len(sizes) - number:,} another number" if number < len(sizes) else ""
    return f"{number:,} groups have {size} response{'s' if size > 1 else ''}{odd}"
