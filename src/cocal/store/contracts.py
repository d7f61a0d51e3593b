"""Contracts of the tables that one stage writes and another reads, and the check that refuses a broken table."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pandera.errors import SchemaErrors
from pandera.pandas import Check, Column, DataFrameSchema

from cocal.errors import ContractError
from cocal.store.columns import ON_REQUEST

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
        optional: Columns that a table may lack.
    """

    name: str
    types: dict[str, pa.DataType]
    checks: dict[str, Column]
    unique: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    optional: tuple[str, ...] = ()

    def expected(self, present: Container[str]) -> list[str]:
        """The contract's columns in a table with the columns `present`: all but the optional ones that it lacks."""
        return [name for name in self.types if name in present or name not in self.optional]

    def check(self, frame: pd.DataFrame, source: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Check `frame` and return it with the contract's columns in order.

        Integers that may be null become float64, with NaN for null. Raises a ContractError if a column is missing, a
        value breaks a check, or there are no rows.

        Args:
            frame: Table to check; further columns are dropped.
            source: File name for errors.
            columns: Columns to check and keep; by default all that are `expected`.
        """
        wanted = self.expected(frame.columns) if columns is None else list(columns)
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
            problems = "; ".join(_broken(error.failure_cases))
            raise ContractError(f"{source}: {problems}; contract: {self.name}") from None
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
    """What pandera found, as one text for each column and check."""
    for (column, check), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        rows = ", ".join(str(int(i)) for i in group["index"].dropna()[:_SHOWN_ROWS])
        values = ", ".join(repr(v) for v in group["failure_case"][:_SHOWN_ROWS])
        yield f"column {column!r} fails {check}" + (f" at row(s) {rows}" if rows else "") + f": {values}"


Field = tuple[pa.DataType, Column | None]
"""Arrow type of a column on disk, and the check of its values; rules alone check lists."""


def text(check: Check | None = None, nullable: bool = False) -> Field:
    return pa.string(), Column(str, check, nullable=nullable)


def words(*allowed: str) -> Field:
    return text(Check.isin(list(allowed)))


def integer(at_least: int) -> Field:
    return pa.int64(), Column("int64", Check.ge(at_least))


def nullable_integer(at_least: int) -> Field:
    whole = Check(lambda values: values % 1 == 0, name="whole_number")
    return pa.int64(), Column("float64", [Check.ge(at_least), whole], nullable=True, coerce=True)


def number(check: Check | None = None, nullable: bool = False) -> Field:
    return pa.float64(), Column("float64", check, nullable=nullable)


def share(nullable: bool = False) -> Field:
    return number(Check.in_range(0.0, 1.0), nullable)


def flag() -> Field:
    return pa.bool_(), Column(bool)


def nullable_flag() -> Field:
    return pa.bool_(), Column("boolean", nullable=True, coerce=True)


def contract_of(
    name: str,
    fields: dict[str, Field],
    unique: tuple[str, ...],
    rules: tuple[Rule, ...] = (),
    optional: tuple[str, ...] = (),
) -> Contract:
    types = {column: of_values for column, (of_values, _) in fields.items()}
    checks = {column: check for column, (_, check) in fields.items() if check is not None}
    return Contract(name, types, checks, unique, rules, optional)


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


RESPONSES = contract_of(
    "responses",
    {
        "dataset": text(),
        "question_id": text(),
        "response_id": integer(0),
        "step": integer(0),
        "sample": integer(0),
        "prompt_ids": (pa.list_(pa.int32()), None),
        "response_ids": (pa.list_(pa.int32()), None),
        "logprobs": (pa.list_(pa.float32()), None),
        "text": text(),
        "length": integer(1),
        "finish_reason": words("stop", "length", "tool_calls"),
        "truncated": flag(),
        "mean_logprob": number(Check.le(0.0)),
        "answer": text(nullable=True),
        "answer_class": nullable_integer(-1),
        "correct": flag(),
        "exact_match": nullable_flag(),
        "decided": flag(),
        "group_accuracy": share(),
        "reward_task": number(nullable=True),
        "reward_calibration": number(nullable=True),
        "confidence": share(nullable=True),
        "p_true": share(nullable=True),
        "p_true_mass": share(nullable=True),
        "best_logprobs": (pa.list_(pa.float32()), None),
        "best_entropy": (pa.list_(pa.float32()), None),
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
        Rule("best_entropy must hold `length` values", ("best_entropy", "length"), _lengths("best_entropy")),
        Rule(
            "best_logprobs must hold as many values for each of `length` tokens",
            ("best_logprobs", "length"),
            lambda frame: frame["best_logprobs"].map(len) % frame["length"] == 0,
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
    optional=ON_REQUEST,
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
Where a study asks for the k best (`generation.best_logprobs`), `best_logprobs` are the k largest raw log-probabilities
of each token, falling, one token after the other (length x k values), and `best_entropy` the entropy in nats of each
token with all but the k best as one outcome: a lower bound of that of all tokens, since vLLM gives no more than these.
"""
