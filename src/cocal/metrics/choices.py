"""Decisions that rest on confidences: which response is chosen, when to abstain.

All ties go to the earlier response. Every rule that chooses a response takes the question of each response, int64 (n,),
numbered from 0 to q - 1, and returns the row of the response that each question gets, int64 (q,). A response without a
valid confidence has the confidence NaN: it is taken only where there is no other, and has no weight in a vote.

Abstention keeps the error rate bounded by a threshold of the confidence that labelled questions certify. The method is
Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2021, arXiv:2110.01052) with the exact binomial p-value
and with fixed sequence testing from several starts, in its fallback form (Wiens, 2003, Pharmaceutical Statistics 2,
211-215): a candidate threshold's null hypothesis is that, of new questions whose confidence reaches it, a share of more
than `max_risk` would be answered wrongly. Candidates are tested from the highest to the lowest. Each of a few starts
brings an equal part of `delta`, and a rejected candidate hands its level on to the next one; a single start would often
fail, because the few most confident questions say too little.

With a probability of at least 1 - `delta` over the calibration questions, a new question that is answered is answered
wrongly with a probability of at most `max_risk`, however badly the confidences are calibrated. This assumes that
calibration and new questions are independent draws from one distribution, with one decided response each, which the
same rule has chosen, and that candidates come from the confidences of the questions to decide, whose labels nobody
needs.
"""

from math import fsum

import numpy as np


def first(question: np.ndarray) -> np.ndarray:
    """The first response to each question; each of 0, ..., q - 1 occurs in `question`, int64 (n,)."""
    return np.unique(question, return_index=True)[1]


def best_of_n(question: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """The most confident response to each question, among equals the earliest, by confidence, float64 (n,) or NaN."""
    descending = np.lexsort((np.arange(len(question)), -np.nan_to_num(confidence, nan=-1.0), question))
    return descending[first(question[descending])]


def vote(question: np.ndarray, classes: np.ndarray, confidence: np.ndarray | None = None) -> np.ndarray:
    """The answer with the largest sum of confidences, by its most confident response.

    Without confidences every response has the same weight, which is majority voting. Between answers with equal sums
    the one that occurs first wins, and among equally confident responses with the winning answer the earliest is taken.
    A response without an answer has no vote; where no response to a question has one, the first response is taken. Sums
    are exact before they are rounded, so the order of the responses decides nothing but ties.

    Args:
        question: int64 (n,), question of each response.
        classes: int64 (n,), class of each answer within its question; equivalent answers share one; -1 without answer.
        confidence: float64 (n,) in [0, 1]; by default all are equal.
    """
    weights = np.ones(len(question)) if confidence is None else np.nan_to_num(confidence, nan=0.0)
    chosen = first(question)
    ballots: dict[int, dict[int, list[int]]] = {}
    for row in np.flatnonzero(classes >= 0).tolist():
        ballots.setdefault(int(question[row]), {}).setdefault(int(classes[row]), []).append(row)
    for asked, answers in ballots.items():
        winner = max(answers.values(), key=lambda rows: fsum(weights[rows]))  # the first of equals
        chosen[asked] = max(winner, key=lambda row: weights[row])
    return chosen


CANDIDATES = 20
"""Largest number of thresholds that are tested; they answer 1/20, 2/20, ..., all of the questions to decide."""
_START = 4
"""Every fourth candidate starts a sequence, and so does the last."""


def candidates(confidence: np.ndarray) -> np.ndarray:
    """Candidate thresholds that are reached by equal shares of questions, given each one's confidence, float64 (n,).

    A question without a confidence is never answered. The thresholds, float64 (m,), descend, and each is one of the
    confidences; m is below `CANDIDATES` where confidences are few or tie, and 0 without any.
    """
    valid = np.sort(confidence[~np.isnan(confidence)])[::-1]
    places = -(-len(valid) * np.arange(1, CANDIDATES + 1) // CANDIDATES) - 1  # rounded up
    return np.unique(valid[places])[::-1] if len(valid) else valid


def certified(
    confidence: np.ndarray, correct: np.ndarray, thresholds: np.ndarray, *, max_risk: float, delta: float
) -> float | None:
    """The lowest threshold from which on the risk is certified to be at most `max_risk`.

    Args:
        confidence: float64 (n,), confidence of each calibration question's response; NaN where there is none.
        correct: bool (n,), whether that response is correct.
        thresholds: float64 (m,), descending, from `candidates` of other questions.
        max_risk: Largest share of wrong answers among the answered questions, between 0 and 1.
        delta: Largest probability that the threshold breaks this bound, between 0 and 1.

    Returns:
        The threshold; None if none is certified, and every question is to be abstained from.
    """
    from scipy.stats import binom

    reached = confidence >= thresholds[:, None]  # NaN reaches none
    answered, wrong = reached.sum(axis=1), (reached & ~correct).sum(axis=1)
    p_values = binom.cdf(wrong, answered, max_risk)  # 1 where nothing is answered
    starts = _starts(len(thresholds))
    lowest, level = None, 0.0
    for threshold, p_value, start in zip(thresholds.tolist(), p_values.tolist(), starts.tolist(), strict=True):
        level += start * delta / starts.sum()
        if p_value <= level:
            lowest = threshold
        else:
            level = 0.0
    return lowest


def fewest_questions(max_risk: float, delta: float) -> int:
    """The fewest calibration questions that certify a start by themselves if all of them are answered correctly."""
    return int(np.ceil(np.log(delta / _starts(CANDIDATES).sum()) / np.log1p(-max_risk)))


def _starts(count: int) -> np.ndarray:
    """Mark the candidates that start a sequence, bool (count,)."""
    places = np.arange(1, count + 1)
    return (places % _START == 0) | (places == count)
