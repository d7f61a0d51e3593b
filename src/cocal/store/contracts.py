"""Contracts of the tables that one stage writes and another reads, and the check that refuses a broken table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
from pandera.errors import SchemaErrors
from pandera.pandas import Check, Column, DataFrameSchema

from cocal.errors import ContractError

_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Rule:
    """A check across columns: `holds` takes a table with the columns `needs` and returns one boolean for each row."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Contract:
    """A table's name, columns and checks.

    Attributes:
        name: Name of the table in errors.
        types: Arrow type of every column, in order.
        checks: Pandera column of every scalar column; list columns are checked by rules alone.
        unique: Columns that together identify a row.
        rules: Checks across columns.
    """

    name: str
    types: dict[str, pa.DataType]
    checks: dict[str, Column]
    unique: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def check(self, frame: pd.DataFrame, source: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Check `frame` and return it with the contract's columns in order.

        Integers that may be null become float64, with NaN for null.

        Args:
            frame: Table to check; further columns are dropped.
            source: File name for errors.
            columns: Columns to check and keep; by default all of them.

        Raises:
            ContractError: if a column is missing, a value breaks a check, or there are no rows.
        """
        wanted = list(self.types if columns is None else columns)
        for name in wanted:
            if name not in frame.columns:
                raise ContractError(f"{source}: column {name!r} is missing; contract: {self.name}")
        if frame.empty:
            raise ContractError(f"{source}: the table has no rows; contract: {self.name}")
        frame = frame[wanted].reset_index(drop=True)
        scalar = {name: self.checks[name] for name in wanted if name in self.checks}
        try:
            frame = DataFrameSchema(scalar).validate(frame, lazy=True)
        except SchemaErrors as error:
            found = "; ".join(_broken(error.failure_cases))
            raise ContractError(f"{source}: {found}; contract: {self.name}") from None
        for rule in self.rules:
            if set(rule.needs) <= set(wanted):
                self._refuse(source, rule.text, ~np.asarray(rule.holds(frame), dtype=bool))
        if self.unique and set(self.unique) <= set(wanted):
            repeated = frame.duplicated(list(self.unique)).to_numpy()
            self._refuse(source, f"({', '.join(self.unique)}) must be unique", repeated)
        return frame

    def _refuse(self, source: str, text: str, bad: np.ndarray) -> None:
        if bad.any():
            rows = ", ".join(map(str, np.flatnonzero(bad)[:_SHOWN_ROWS]))
            raise ContractError(f"{source}: {text}, broken in {bad.sum()} row(s), first {rows}; contract: {self.name}")


def _broken(cases: pd.DataFrame) -> Iterator[str]:
    """What pandera found, with a part for each column and check."""
    for (column, check), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        rows = ", ".join(str(int(i)) for i in group["index"].dropna()[:_SHOWN_ROWS])
        values = ", ".join(repr(v) for v in group["failure_case"][:_SHOWN_ROWS])
        yield f"column {column!r} fails {check}" + (f" at row(s) {rows}" if rows else "") + f": {values}"


Field = tuple[pa.DataType, Column | None]
"""Arrow type of a column on disk, and the check of its values; rules alone check lists."""


def _text(check: Check | None = None, nullable: bool = False) -> Field:
    return pa.string(), Column(str, check, nullable=nullable)


def _words(*allowed: str) -> Field:
    return _text(Check.isin(list(allowed)))


def _integer(at_least: int) -> Field:
    return pa.int64(), Column("int64", Check.ge(at_least))


def _nullable_integer(at_least: int) -> Field:
    whole = Check(lambda values: values % 1 == 0, name="whole_number")
    return pa.int64(), Column("float64", [Check.ge(at_least), whole], nullable=True, coerce=True)


def _number(check: Check | None = None, nullable: bool = False) -> Field:
    return pa.float64(), Column("float64", check, nullable=nullable)


def _share(nullable: bool = False) -> Field:
    return _number(Check.in_range(0.0, 1.0), nullable)


def _flag() -> Field:
    return pa.bool_(), Column(bool)


def _nullable_flag() -> Field:
    return pa.bool_(), Column("boolean", nullable=True, coerce=True)


def _contract(name: str, fields: dict[str, Field], unique: tuple[str, ...], rules: tuple[Rule, ...] = ()) -> Contract:
    types = {column: of_values for column, (of_values, _) in fields.items()}
    checks = {column: check for column, (_, check) in fields.items() if check is not None}
    return Contract(name, types, checks, unique, rules)


def _lengths(column: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: frame[column].map(len) == frame["length"]


def _mean_of_logprobs(frame: pd.DataFrame) -> np.ndarray:
    lengths = frame["length"].to_numpy()
    values = np.concatenate(frame["logprobs"].to_list()).astype(np.float64)
    means = np.add.reduceat(values, np.cumsum(lengths) - lengths) / lengths
    return np.isclose(frame["mean_logprob"].to_numpy(), means, rtol=1e-5, atol=1e-7)


def _class_of_answer(frame: pd.DataFrame) -> pd.Series:
    classes = frame["answer_class"]
    return classes.isna() | ((classes >= 0) == frame["answer"].notna())


QUESTIONS = _contract(
    "questions",
    {
        "dataset": _text(),
        "question_id": _text(),
        "question": _text(Check.str_length(min_value=1)),
        "answer": _text(Check.str_length(min_value=1)),
        "aliases": (pa.list_(pa.string()), None),
        "domain": _words("mathematics", "factual"),
        "split": _words("training", "evaluation"),
        "subject": _text(),
        "level": _integer(0),
    },
    unique=("dataset", "question_id"),
)
"""Each row is one question. `aliases` are further accepted answers; `level` is the difficulty, or 0 if unknown."""

RESPONSES = _contract(
    "responses",
    {
        "dataset": _text(),
        "question_id": _text(),
        "response_id": _integer(0),
        "step": _integer(0),
        "sample": _integer(0),
        "prompt_ids": (pa.list_(pa.int32()), None),
        "response_ids": (pa.list_(pa.int32()), None),
        "logprobs": (pa.list_(pa.float32()), None),
        "text": _text(),
        "length": _integer(1),
        "finish_reason": _words("stop", "length", "tool_calls"),
        "truncated": _flag(),
        "mean_logprob": _number(Check.le(0.0)),
        "answer": _text(nullable=True),
        "answer_class": _nullable_integer(-1),
        "correct": _flag(),
        "exact_match": _nullable_flag(),
        "decided": _flag(),
        "group_accuracy": _share(),
        "reward_task": _number(nullable=True),
        "reward_calibration": _number(nullable=True),
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
            "truncated must mean another finish_reason than stop",
            ("truncated", "finish_reason"),
            lambda frame: frame["truncated"] == (frame["finish_reason"] != "stop"),
        ),
        Rule(
            "answer_class must be -1 without an answer, 0 or more with one, or null where no pool was judged",
            ("answer", "answer_class"),
            _class_of_answer,
        ),
        Rule(
            "p_true_mass must be null where p_true is",
            ("p_true", "p_true_mass"),
            lambda frame: frame["p_true_mass"].isna() | frame["p_true"].notna(),
        ),
        Rule(
            "a correct response needs a group accuracy above zero",
            ("correct", "group_accuracy"),
            lambda frame: ~frame["correct"] | (frame["group_accuracy"] > 0),
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

JUDGEMENTS = _contract(
    "judgements", {"key": _text(Check.str_length(32, 32)), "reply": _text(), "engine": _text()}, unique=("key",)
)
"""Each row is one reply of a judge. `key` is the digest of the message, `engine` the engine's name and version."""

PREQUENTIAL = _contract(
    "prequential scores",
    {
        "window": _integer(0),
        "source_step": _integer(1),
        "step": _integer(2),
        "target": _text(),
        "seed": _integer(0),
        "responses": _integer(0),
        "accuracy": _share(nullable=True),
        "mean_confidence": _share(nullable=True),
        "ece": _share(nullable=True),
        "auroc": _share(nullable=True),
        "kept_bytes": _integer(0),
    },
    unique=("window", "source_step", "target", "seed"),
    rules=(
        Rule(
            "step must be the one after source_step",
            ("step", "source_step"),
            lambda frame: frame["step"] == frame["source_step"] + 1,
        ),
    ),
)
"""Each row scores one companion on the rollouts of the step after those that it has learnt from (`source_step`).

Only `responses` to questions that no earlier step has asked are scored; where there are none, all scores are null.
`window` is the number of rollout steps that an online companion learns from together, or 0 for a companion that was
fitted by replaying stored states. `kept_bytes` is the size of the states that this way of learning keeps."""

PREDICTIONS = _contract(
    "predictions",
    {
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
        "valid": _flag(),
        "correct": _flag(),
        "truncated": _flag(),
        "answered": _flag(),
        "decided": _flag(),
        "exact_match": _nullable_flag(),
        "p_true_mass": _share(nullable=True),
    },
    unique=(
        *("backbone", "algorithm", "step", "dataset", "method", "seed"),
        *("source_step", "validation_step", "layer", "pooling", "response_id"),
    ),
    rules=(
        Rule(
            "a valid row needs a confidence and an invalid one must have none (NaN)",
            ("confidence", "valid"),
            lambda frame: frame["confidence"].notna() == frame["valid"],
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
