"""Rules that choose one of several responses to a question, or the questions that are kept: best-of-n, voting, routing.

All ties go to the earlier response. Every rule that chooses a response takes the question of each response, numbered
from 0 to q - 1, and returns the row of the response that each question gets, int64 (q,). A response without a valid
confidence has the confidence NaN: it is taken only where there is no other, and has no weight in a vote.
"""

from math import fsum

import numpy as np

from cocal.metrics.ordered import Ordered


def first(question: np.ndarray) -> np.ndarray:
    """The first response to each question.

    Args:
        question: int64 (n,), question of each response; each of 0, ..., q - 1 occurs.

    Returns:
        int64 (q,), rows.
    """
    return np.unique(question, return_index=True)[1]


def best_of_n(question: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """The most confident response to each question; among equals the earliest.

    Args:
        question: int64 (n,), question of each response.
        confidence: float64 (n,) in [0, 1], NaN where there is none.

    Returns:
        int64 (q,), rows.
    """
    descending = np.lexsort((np.arange(len(question)), -_weights(confidence, missing=-1.0), question))
    return descending[first(question[descending])]


def vote(question: np.ndarray, classes: np.ndarray, confidence: np.ndarray | None = None) -> np.ndarray:
    """The answer with the largest sum of confidences, by its most confident response.

    Without confidences every response has the same weight, which is majority voting; equal confidences give the same
    rows. Between answers with equal sums the one that occurs first wins, and among equally confident responses with
    the winning answer the earliest is taken. A response without an answer has no vote; where no response to a question
    has one, the first response is taken. Sums are exact before they are rounded, so the order of the responses decides
    nothing but ties.

    Args:
        question: int64 (n,), question of each response.
        classes: int64 (n,), class of each answer within its question; equivalent answers share one; -1 without answer.
        confidence: float64 (n,) in [0, 1], NaN where there is none; by default all are equal.

    Returns:
        int64 (q,), rows.
    """
    weights = np.ones(len(question)) if confidence is None else _weights(confidence, missing=0.0)
    chosen = first(question)
    ballots: dict[int, dict[int, list[int]]] = {}
    for row in np.flatnonzero(classes >= 0).tolist():
        ballots.setdefault(int(question[row]), {}).setdefault(int(classes[row]), []).append(row)
    for asked, answers in ballots.items():
        winner = max(answers.values(), key=lambda rows: fsum(weights[rows]))  # the first of equals
        chosen[asked] = max(winner, key=lambda row: weights[row])
    return chosen


def solvable(question: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Mark the questions with a correct response (pass@n), which no choice among them exceeds; bool (q,)."""
    return np.bincount(question, weights=correct) > 0


def kept_accuracy(confidence: np.ndarray, correct: np.ndarray, sent: float, counts: np.ndarray) -> np.ndarray:
    """Accuracy of the responses to the kept questions, in every resample of the questions.

    If the share is no whole number of questions, the last one is kept in part; so are questions with equal confidences.

    Args:
        confidence: float64 (q,), confidence of each question, such as one before anything is generated; NaN where
            there is none, which ranks below all others.
        correct: bool (q,), whether the response to each question is correct.
        sent: Share of the questions that is sent elsewhere, from 0 to below 1.
        counts: int32 [q, resamples], how often each resample holds each question.

    Returns:
        float64 [resamples].
    """
    ordered = Ordered.of(np.arange(len(correct)), np.nan_to_num(confidence, nan=-1.0), correct)
    return 1 - ordered.counted(counts).risk_at(1 - sent)


def _weights(confidence: np.ndarray, missing: float) -> np.ndarray:
    return np.nan_to_num(np.asarray(confidence, dtype=np.float64), nan=missing)
