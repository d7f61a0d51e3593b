"""Rollouts of anybody's training in one chronological table (section 4.1)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.labels import check_bound, correctness
from cocal.rollouts.questions import contradictions, copies, same_question
from cocal.rollouts.sample import ORIGINS, Sample


@dataclass(frozen=True)
class Experience:
    """Rollouts with labels and token ids, in chronological order."""

    rows: pd.DataFrame
    """One row for each response, with the columns response_id (0 to n - 1), step, question_id, question (its text),
    group (name of its group within its step), sample (place in it), prompt_ids and response_ids (int32 arrays), length,
    truncated, correct and group_accuracy (over the whole group, truncated responses included)."""
    notes: tuple[str, ...] = ()
    """Sentences about what was read and assumed."""
    as_given: bool = True
    """Whether the rollouts were given in this order."""
    has_steps: bool = True
    """Whether the rollouts name their steps; otherwise all are of step 1, in the order of training."""
    tells_truncated: bool = True
    """Whether it is known of every response if it was cut at the length limit."""
    raw: bool = False
    """Whether all prompts are texts that the policy saw as they are, without a chat template."""
    doubts: tuple[str, ...] = ()
    """Those of the notes that ask the user for something."""


def experience_of(samples: Iterator[Sample], encoder: Encoder, notes: Counter | None = None) -> Experience:
    """Gather responses with labels, in any order of the steps; sentences about them are added to the notes.

    Token ids are held in memory, four bytes each; texts are not. Responses to one prompt (`cocal.rollouts.questions`)
    in one step are a group, wherever they lie in it; groups that samples name divide them further. Raises a
    ContractError if there are none or all occur twice, a label is unclear, only some have a step, or all are correct or
    all wrong.
    """
    notes = Counter() if notes is None else notes
    correct_above, limit = encoder.reading.correct_above, encoder.reading.max_response_length
    gathered, origins = [], Counter()
    while part := list(islice(samples, 2048)):  # they are tokenised together
        for sample, encoded in zip(part, encoder.encode(part, strict=True), strict=True):
            check_bound(sample, correct_above)
            origins[encoded.origin, encoded.exact] += 1
            row = {name: getattr(sample, name) for name in ("where", "file", "step", "question_id", "group", "label")}
            row |= {"prompt_ids": encoded.prompt, "response_ids": encoded.response, "truncated": encoded.truncated}
            row |= {"question": sample.asked, "tells_truncated": encoded.told}
            gathered.append(row)
    if not gathered:
        raise ContractError("there are no rollouts to learn from; give files with responses in them")
    rows = pd.DataFrame(gathered)
    ids = (rows[name].map(np.ndarray.tobytes) for name in ("prompt_ids", "response_ids"))
    keys = [*zip(rows["label"], *ids, strict=True)]
    repeated = copies(keys, rows["where"].iloc.__getitem__, "prompt, response and label")
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
    cuts, asks = _limits(rows, limit)
    said += [cuts, _sizes(groups.size()), *repeated]
    learnt = rows.drop(columns=["where", "file", "tells_truncated", "label"])
    raw = {origin for origin, _ in origins} == {"text"}
    told = limit is not None or bool(rows["tells_truncated"].all())
    return Experience(learnt, (*notes, *said), as_given, has_steps, told, raw, (cuts,) * asks)


def _limits(rows: pd.DataFrame, limit: int | None) -> tuple[str, bool]:
    """A sentence about which responses count as truncated, and whether it asks the user for something. Raises a
    ContractError if most of these responses exceed the limit."""
    unknown, truncated = ~rows["tells_truncated"], rows["truncated"]
    if not unknown.any():
        said = "all responses count as cut, though they have different lengths: where their ids lack the end token, "
        said += "give `truncated` or a finish_reason, or --max-response-length"
        if truncated.all() and rows["length"].nunique() > 1:
            return said, True
        return f"{truncated.sum():,} of {len(rows):,} responses were cut at the limit", False
    lengths = (rows["length"] - ~truncated)[unknown]  # without the end token that a whole text was given
    count, longest, most = (unknown & truncated).sum(), lengths.max(), np.inf if limit is None else limit
    if 2 * (over := (truncated[unknown] & (lengths > most)).sum()) > count:
        raise ContractError(
            f"{rows['where'].iloc[0]}: {over:,} of {count:,} responses that would count as cut are longer than "
            f"--max-response-length {limit:,} (up to {longest:,}); give the limit with which they were sampled (verl's "
            "data.max_response_length, TRL's max_completion_length)"
        )
    usual = lengths[lengths >= 0.9 * longest].mode().iloc[-1]  # texts made anew have some tokens more or less
    alike = (lengths == usual).sum()
    asks = limit is None or bool(usual < limit and alike > max(count, 2, len(lengths) / 100))
    return (
        f"{unknown.sum():,} rows do not say whether they were cut at the limit, and {count:,} of them count so; "
        f"the longest has {longest:,} tokens, and {alike:,} have {usual:,}"
        f"{': give the limit of the training (--max-response-length)' * asks}"
    ), asks


def _ask(rows: pd.DataFrame) -> list[str]:
    """Set each row's question and its group within the step; return sentences about ids that contradict the prompts."""
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
            f"all {len(correct):,} responses, from {rows['where'].iloc[0]} on, are "
            f"{'correct' if correct[0] else 'wrong'}; a companion learns from both: give more steps, harder or easier "
            "questions, or another field of correctness (--field correct=FIELD, or --field reward=FIELD with "
            "--correct-above; in Python Reading(fields={'correct': 'FIELD'}))"
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
