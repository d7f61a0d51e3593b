"""Contracts (`cocal.store.contract`) of the tables that one stage writes and another reads."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
from pandera.pandas import Check, Column

from cocal.store.contract import Contract, Rule

TOKENS = pa.list_(pa.int32())
LOGPROBS = pa.list_(pa.float32())


def _text(**options) -> Column:
    return Column(str, **options)


def _integer(at_least: int | None = None, **options) -> Column:
    return Column("int64", None if at_least is None else Check.ge(at_least), **options)


def _nullable_integer(at_least: int) -> Column:
    whole = Check(lambda values: values % 1 == 0, name="whole_number")
    return Column("float64", [Check.ge(at_least), whole], nullable=True, coerce=True)


def _share(**options) -> Column:
    return Column("float64", Check.in_range(0.0, 1.0), **options)


def _nullable_flag() -> Column:
    return Column("boolean", nullable=True, coerce=True)


def _lengths(column: str) -> Callable[[pd.DataFrame], np.ndarray]:
    return lambda frame: frame[column].map(len).to_numpy() == frame["length"].to_numpy()


def _mean_of_logprobs(frame: pd.DataFrame) -> np.ndarray:
    lengths = frame["length"].to_numpy()
    values = np.concatenate(frame["logprobs"].to_list()).astype(np.float64)
    means = np.add.reduceat(values, np.cumsum(lengths) - lengths) / lengths
    return np.isclose(frame["mean_logprob"].to_numpy(), means, rtol=1e-5, atol=1e-7)


def _mass_of_asked(frame: pd.DataFrame) -> np.ndarray:
    return frame["p_true_mass"].isna() | frame["p_true"].notna()


def _class_of_answer(frame: pd.DataFrame) -> np.ndarray:
    classes = frame["answer_class"]
    return classes.isna() | ((classes >= 0) == frame["answer"].notna())


QUESTIONS = Contract(
    name="questions",
    types={
        "dataset": pa.string(),
        "question_id": pa.string(),
        "question": pa.string(),
        "answer": pa.string(),
        "aliases": pa.list_(pa.string()),
        "domain": pa.string(),
        "split": pa.string(),
        "subject": pa.string(),
        "level": pa.int64(),
    },
    checks={
        "dataset": _text(),
        "question_id": _text(),
        "question": _text(checks=Check.str_length(min_value=1)),
        "answer": _text(checks=Check.str_length(min_value=1)),
        "domain": _text(checks=Check.isin(["mathematics", "factual"])),
        "split": _text(checks=Check.isin(["training", "evaluation"])),
        "subject": _text(),
        "level": _integer(0),
    },
    unique=("dataset", "question_id"),
)
"""Each row is one question. `aliases` are further accepted answers; `level` is the difficulty, or 0 if unknown."""

RESPONSES = Contract(
    name="responses",
    types={
        "dataset": pa.string(),
        "question_id": pa.string(),
        "response_id": pa.int64(),
        "step": pa.int64(),
        "sample": pa.int64(),
        "prompt_ids": TOKENS,
        "response_ids": TOKENS,
        "logprobs": LOGPROBS,
        "text": pa.string(),
        "length": pa.int64(),
        "finish_reason": pa.string(),
        "truncated": pa.bool_(),
        "mean_logprob": pa.float64(),
        "answer": pa.string(),
        "answer_class": pa.int64(),
        "correct": pa.bool_(),
        "exact_match": pa.bool_(),
        "decided": pa.bool_(),
        "group_accuracy": pa.float64(),
        "reward_task": pa.float64(),
        "reward_calibration": pa.float64(),
        "confidence": pa.float64(),
        "p_true": pa.float64(),
        "p_true_mass": pa.float64(),
    },
    checks={
        "dataset": _text(),
        "question_id": _text(),
        "response_id": _integer(0),
        "step": _integer(0),
        "sample": _integer(0),
        "text": _text(),
        "length": _integer(1),
        "finish_reason": _text(checks=Check.isin(["stop", "length"])),
        "truncated": Column(bool),
        "mean_logprob": Column("float64", Check.le(0.0)),
        "answer": _text(nullable=True),
        "answer_class": _nullable_integer(-1),
        "correct": Column(bool),
        "exact_match": _nullable_flag(),
        "decided": Column(bool),
        "group_accuracy": _share(),
        "reward_task": Column("float64", nullable=True),
        "reward_calibration": Column("float64", nullable=True),
        "confidence": _share(nullable=True),
        "p_true": _share(nullable=True),
        "p_true_mass": _share(nullable=True),
    },
    unique=("dataset", "response_id"),
    rules=(
        Rule("response_ids must hold `length` tokens", ("response_ids", "length"), _lengths("response_ids")),
        Rule("logprobs must hold `length` values", ("logprobs", "length"), _lengths("logprobs")),
        Rule(
            "mean_logprob must be the mean of logprobs, the end-of-sequence token's included",
            ("mean_logprob", "logprobs", "length"),
            _mean_of_logprobs,
        ),
        Rule(
            "truncated must mean finish_reason = length",
            ("truncated", "finish_reason"),
            lambda frame: frame["truncated"].to_numpy() == (frame["finish_reason"] == "length").to_numpy(),
        ),
        Rule(
            "answer_class must be -1 without an answer, 0 or more with one, or null where no pool was judged",
            ("answer", "answer_class"),
            _class_of_answer,
        ),
        Rule("p_true_mass must be null where p_true is", ("p_true", "p_true_mass"), _mass_of_asked),
        Rule(
            "a correct response needs a group accuracy above zero",
            ("correct", "group_accuracy"),
            lambda frame: ~frame["correct"].to_numpy() | (frame["group_accuracy"].to_numpy() > 0),
        ),
    ),
)
"""Each row is one response, either a rollout or an evaluation response.

`response_id` counts the rows of a set in order (rollouts in the order of their steps). `step` is the rollout step or
the checkpoint's step, and `sample` is the index in the group. `response_ids` include the generated end-of-sequence
token. `logprobs` are raw log-probabilities (temperature 1, no penalty, no truncation), and `mean_logprob` is their
mean. `answer` is the extracted final answer; null if there is none. `answer_class` numbers the equivalence classes of
the answers to a question; it is -1 if there is no answer, and null if the answers were not compared. `correct` is the
judge's verdict. `exact_match` says whether the answer matches an accepted one exactly; null outside factual questions.
`decided` says whether the judge reached all verdicts about the answer; otherwise the answer counts as wrong, or as
equivalent to no other. `group_accuracy` is the mean correctness of the group before any filtering. `confidence` is the
parsed verbalised confidence; null if there is no valid one. `p_true` follows the equation of appendix B.1; null if the
policy was not asked. `p_true_mass` is the probability p_T + p_F that `p_true` divides by; null if it was not recorded.
"""

VERDICTS = ("answer_class", "correct", "exact_match", "decided", "group_accuracy")
"""Columns of RESPONSES that a judge fills in."""

SAMPLED = replace(
    RESPONSES, name="sampled responses", types={n: t for n, t in RESPONSES.types.items() if n not in VERDICTS}
)
"""Responses that have not been judged yet."""

JUDGEMENTS = Contract(
    name="judgements",
    types={"key": pa.string(), "reply": pa.string(), "engine": pa.string()},
    checks={"key": _text(checks=Check.str_length(32, 32)), "reply": _text(), "engine": _text()},
    unique=("key",),
)
"""Each row is one reply of a judge. `key` is the digest of the message, `engine` the engine's name and version."""

PREQUENTIAL = Contract(
    name="prequential scores",
    types={
        "window": pa.int64(),
        "source_step": pa.int64(),
        "step": pa.int64(),
        "target": pa.string(),
        "seed": pa.int64(),
        "responses": pa.int64(),
        "accuracy": pa.float64(),
        "mean_confidence": pa.float64(),
        "ece": pa.float64(),
        "auroc": pa.float64(),
        "kept_bytes": pa.int64(),
    },
    checks={
        "window": _integer(0),
        "source_step": _integer(1),
        "step": _integer(2),
        "target": _text(),
        "seed": _integer(0),
        "responses": _integer(1),
        "accuracy": _share(),
        "mean_confidence": _share(),
        "ece": _share(),
        "auroc": _share(nullable=True),
        "kept_bytes": _integer(0),
    },
    unique=("window", "source_step", "target", "seed"),
    rules=(
        Rule(
            "step must be the one after source_step",
            ("step", "source_step"),
            lambda frame: (frame["step"] == frame["source_step"] + 1).to_numpy(),
        ),
    ),
)
"""Each row scores one companion on the rollouts of the step after those that it has learnt from (`source_step`).

`window` is the number of rollout steps that an online companion learns from together, or 0 for a companion that was
fitted by replaying stored states. `kept_bytes` is the size of the states that this way of learning keeps."""

PREDICTIONS = Contract(
    name="predictions",
    types={
        "backbone": pa.string(),
        "algorithm": pa.string(),
        "step": pa.int64(),
        "dataset": pa.string(),
        "question_id": pa.string(),
        "response_id": pa.int64(),
        "method": pa.string(),
        "seed": pa.int64(),
        "source_step": pa.int64(),
        "validation_step": pa.int64(),
        "layer": pa.int64(),
        "pooling": pa.string(),
        "confidence": pa.float64(),
        "valid": pa.bool_(),
        "correct": pa.bool_(),
        "truncated": pa.bool_(),
        "answered": pa.bool_(),
        "decided": pa.bool_(),
        "exact_match": pa.bool_(),
        "p_true_mass": pa.float64(),
    },
    checks={
        "backbone": _text(),
        "algorithm": _text(),
        "step": _integer(0),
        "dataset": _text(),
        "question_id": _text(),
        "response_id": _integer(0),
        "method": _text(),
        "seed": _integer(-1),
        "source_step": _integer(-1),
        "validation_step": _integer(-1),
        "layer": _integer(-1),
        "pooling": _text(),
        "confidence": _share(nullable=True),
        "valid": Column(bool),
        "correct": Column(bool),
        "truncated": Column(bool),
        "answered": Column(bool),
        "decided": Column(bool),
        "exact_match": _nullable_flag(),
        "p_true_mass": _share(nullable=True),
    },
    unique=(
        "backbone",
        "algorithm",
        "step",
        "dataset",
        "method",
        "seed",
        "source_step",
        "validation_step",
        "layer",
        "pooling",
        "response_id",
    ),
    rules=(
        Rule(
            "a valid row needs a confidence and an invalid one must have none (NaN)",
            ("confidence", "valid"),
            lambda frame: frame["confidence"].notna().to_numpy() == frame["valid"].to_numpy(),
        ),
    ),
)
"""Each row is one confidence; a higher one means that the response is more likely correct.

`seed` is -1 for methods without training seeds. `source_step` is the number of rollout steps that the companion learnt
from, and `validation_step` the number of steps whose validation responses chose its best pass. `layer` is the
zero-based block index and `pooling` names the pooled states (such as "last+mean") that it reads. A method without a
companion has -1, -1, -1 and "". The columns from `correct` to `exact_match` describe the response
(RESPONSES) and are the same for all methods; `answered` says whether it has an answer. `p_true_mass` belongs to P(True)
and is null for other methods."""
