"""Rollouts of anybody's training as one chronological table: what a companion learns from (section 4.1)."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.integrations.sample import Sample
from cocal.own_policy.encoding import ORIGINS, Encoder

_TOGETHER = 2048
"""Number of responses that are tokenised together."""
NO_LABEL = "the response has no label; give `correct` or a reward, or delete the row"
"""The sentence about a row of learning or evaluation that has no label."""


@dataclass(frozen=True)
class Experience:
    """Rollouts with labels and token ids, in chronological order.

    Attributes:
        rows: One row for each response, with the columns response_id (0 to n - 1), step, question_id, question (its
            text), sample (place in its group), prompt_ids and response_ids (int32 arrays), length, truncated, correct
            and group_accuracy (over the whole group, truncated responses included).
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

    @property
    def group_size(self) -> int:
        """Number of responses of the largest group."""
        return int(self.rows["sample"].max()) + 1

    @property
    def last_step(self) -> int:
        """The last rollout step."""
        return int(self.rows["step"].max())


def experience_of(
    samples: Iterator[Sample],
    encoder: Encoder,
    *,
    correct_above: float | None = None,
    notes: Counter | None = None,
) -> Experience:
    """Gather samples. Token ids are held in memory, four bytes each; texts are not.

    Responses to one prompt in one step are a group, wherever they lie in it, unless the samples name their groups.

    Args:
        samples: Responses with labels, in any order of the steps.
        encoder: Turns them into token ids.
        correct_above: A reward above this number means a correct response; needed for rewards other than 0 and 1, or -1
            and 1.
        notes: Sentences that were collected while reading.

    Raises:
        ContractError: if there are no samples, a label is missing or unclear, only some of them have a step, or all are
            correct or all are wrong; the message names file and row.
    """
    notes = Counter() if notes is None else notes
    gathered, origins = [], Counter()
    samples = iter(samples)
    while part := list(islice(samples, _TOGETHER)):
        for sample, encoded in zip(part, encoder.encode(part), strict=True):
            if sample.label is None:
                raise ContractError(f"{sample.where}: {NO_LABEL}")
            origins[encoded.origin, encoded.exact] += 1
            row = {name: getattr(sample, name) for name in ("where", "step", "question_id", "label")}
            row |= {"prompt_ids": encoded.prompt, "response_ids": encoded.response, "truncated": encoded.truncated}
            row |= {"group": _group(sample), "question": _question(sample), "tells_cut": tells_cut(sample)}
            gathered.append(row)
    if not gathered:
        raise ContractError("there are no rollouts to learn from; give files with responses in them")
    rows = pd.DataFrame(gathered)
    rows["correct"] = _correct(rows, correct_above, notes)
    has_steps = bool(rows["step"].notna().any())
    rows["step"] = _steps(rows, notes)
    as_given = rows["step"].is_monotonic_increasing
    rows = rows.sort_values("step", kind="stable", ignore_index=True)
    groups = rows.groupby(["step", "group"], sort=False)
    rows["group_accuracy"] = groups["correct"].transform("mean")
    rows["sample"] = groups.cumcount()
    rows["question_id"] = rows["question_id"].where(rows["question_id"].notna(), rows["question"])
    rows["length"] = rows["response_ids"].map(len)
    rows["response_id"] = np.arange(len(rows))
    said = [f"{count:,} prompts are {ORIGINS[origin]}" for (origin, _), count in origins.items()]
    if anew := sum(count for (_, exact), count in origins.items() if not exact):
        said.append(
            f"{anew:,} responses or their prompts are texts, whose ids were made anew and may differ from those that "
            "were sampled"
        )
    told, limit = bool(rows["tells_cut"].all()), encoder.max_response_length
    if not told and limit is None:
        said.append(
            "the files do not say which responses were cut at the limit, so none counts as cut (--max-response-length)"
        )
    elif not told:
        said.append(
            f"the files do not say which responses were cut: those without an end within {limit:,} tokens are, "
            f"{rows['truncated'].sum():,}"
        )
    said.append(_sizes(groups.size()))
    learnt = rows.drop(columns=["where", "group", "tells_cut", "label"])
    return Experience(learnt, (*notes, *said), as_given, has_steps, told or limit is not None)


def tells_cut(sample: Sample) -> bool:
    """True if a response says whether it was cut at the length limit: in a field, or by the end token of its ids."""
    return sample.truncated is not None or sample.response_ids is not None


def _group(sample: Sample) -> str:
    """A text that tells the groups of one step apart."""
    if sample.group is not None:
        return f"group {sample.group}"
    if sample.question_id is not None:
        return f"question {sample.question_id}"
    return repr(sample.prompt) if sample.prompt is not None else sample.prompt_ids.tobytes().hex()


def _question(sample: Sample) -> str:
    """The text by which training and validation are split."""
    if sample.asked is not None:
        return sample.asked
    return sample.question_id if sample.question_id is not None else " ".join(map(str, sample.prompt_ids))


def correctness(rewards: np.ndarray, where: Callable[[int], str], above: float | None = None) -> tuple[np.ndarray, str]:
    """Which rewards mean a correct response.

    Args:
        rewards: float64 (n,).
        where: File and row of a reward, by its place, for error messages.
        above: A reward above this number is correct; by default rewards are 0 and 1, or -1 and 1.

    Returns:
        bool (n,), and what was assumed, in words.

    Raises:
        ContractError: if a reward is neither of the two.
    """
    if above is not None:
        return rewards > above, f"a reward above {above:g} means correct"
    wrong = 0.0 if 0.0 in rewards else -1.0
    odd = np.flatnonzero((rewards != wrong) & (rewards != 1.0))
    if len(odd):
        raise ContractError(
            f"{where(int(odd[0]))}: the reward {rewards[odd[0]]:g} is neither 1 (correct) nor {wrong:g} (wrong), and "
            f"so are {len(odd):,} of {len(rewards):,}; say from where on a response is correct (--correct-above 0.5), "
            "or name the field of correctness (--field correct=FIELD)"
        )
    return rewards == 1.0, f"1 means correct, {wrong:g} wrong"


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
    odd = f"; {len(sizes) - number:,} have another size" if number < len(sizes) else ""
    return f"{number:,} groups have {size} response{'s' if size > 1 else ''}{odd}"
