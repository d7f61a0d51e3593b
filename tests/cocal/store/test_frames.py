"""Tables come back as they were written, and what breaks a contract is neither written nor read."""

import json

import numpy as np
import pandas as pd
import pytest

from checked_study import predicted
from cocal.errors import ContractError
from cocal.store import columns, digest, provenance, read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.store.contracts import PREDICTIONS, QUESTIONS
from evaluated_study import responses


@pytest.fixture
def predictions() -> pd.DataFrame:
    """Three rows, of which one has no valid confidence."""
    of_two = {"confidence": [0.25, np.nan, 1.0], "valid": [True, False, True]}
    return predicted("verbal").head(3).assign(**of_two, exact_match=pd.array([True, None, False], dtype="boolean"))


def test_the_names_of_columns_are_those_of_the_contract():
    assert tuple(RESPONSES.types) == columns.RESPONSES
    assert {*columns.LABELS} < {*RESPONSES.types}


def test_equal_settings_have_equal_digests():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": (1, 2), "a": 1})
    assert len({digest(one) for one in ({"a": 1}, {"a": 2}, {"b": 1}, [1, 2], [2, 1])}) == 5


def test_a_table_comes_back_with_its_provenance(tmp_path, predictions):
    attributes = provenance("predictions", {"a": 1}, study="s", step=None)
    for name in ("p.parquet", "again.parquet"):
        write_frame(tmp_path / name, predictions, PREDICTIONS, attributes)
    assert (tmp_path / "p.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()
    pd.testing.assert_frame_equal(read_frame(tmp_path / "p.parquet", PREDICTIONS), predictions, check_dtype=False)
    found = read_provenance(tmp_path / "p.parquet")
    assert (found["digest"], found["study"]) == (digest({"a": 1}), "s")
    assert "step" not in found
    assert "torch" in json.loads(found["versions"])


def test_an_optional_column_is_written_where_it_is_there_and_read_where_it_was_written(tmp_path):
    frame = responses()
    kept = frame.assign(best_logprobs=[np.arange(2 * n, dtype=np.float32) for n in frame["length"]])
    write_frame(tmp_path / "without.parquet", frame, RESPONSES, {})
    write_frame(tmp_path / "kept.parquet", kept, RESPONSES, {})
    assert "best_logprobs" not in read_frame(tmp_path / "without.parquet", RESPONSES)
    found = read_frame(tmp_path / "kept.parquet", RESPONSES)
    assert found["best_logprobs"].map(list).tolist() == kept["best_logprobs"].map(list).tolist()
    assert "best_entropy" not in found
    with pytest.raises(ContractError, match=r"without.parquet: column 'best_logprobs' is missing"):
        read_frame(tmp_path / "without.parquet", RESPONSES, ["best_logprobs"])


def test_a_folder_of_tables_is_read_in_order(tmp_path, predictions):
    for step in (2, 10, 1):
        write_frame(tmp_path / f"step-{step:05d}.parquet", predictions.assign(step=step), PREDICTIONS, {})
    assert read_frame(tmp_path, PREDICTIONS, ["step"])["step"].tolist() == [1] * 3 + [2] * 3 + [10] * 3


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda f: f.drop(columns="seed"), ["column 'seed' is missing"]),
        (lambda f: f.assign(confidence=[0.5, np.nan, np.nan]), ["a valid row needs a confidence", "first 2"]),
        (lambda f: f.assign(confidence=[0.5, 0.5, 1.0]), ["an invalid one must have none", "first 1"]),
        (lambda f: f.assign(confidence=[0.5, np.nan, 1.5]), ["'confidence'", "row(s) 2", "1.5"]),
        (lambda f: f.assign(question_id=["a", None, "c"]), ["'question_id'", "row(s) 1"]),
        (lambda f: f.assign(response_id=0), ["must be unique", "first 1, 2"]),
        (lambda f: f.assign(correct=["yes", "no", "no"]), ["'correct'"]),
        (lambda f: f.iloc[:0], ["no rows"]),
    ],
)
def test_broken_tables_are_refused_and_nothing_is_written(tmp_path, predictions, spoil, named):
    path = tmp_path / "p.parquet"
    with pytest.raises(ContractError) as caught:
        write_frame(path, spoil(predictions), PREDICTIONS, {})
    for part in [str(path), *named]:
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("column", "row", "change", "rule"),
    [
        ("group_accuracy", "correct", lambda _: 0.0, "a correct response needs a group accuracy above zero"),
        ("response_ids", None, lambda ids: np.append(ids, ids[-1]), "response_ids must hold `length` tokens"),
        ("logprobs", None, lambda values: np.append(values, values[-1]), "logprobs must hold `length` values"),
        ("mean_logprob", None, lambda mean: mean - 0.1, "mean_logprob must be the mean of logprobs, the end-of-"),
        ("truncated", None, lambda flag: not flag, "truncated must mean another finish_reason than stop"),
        ("p_true_mass", None, lambda _: 0.5, "p_true_mass must be null where p_true is"),
        ("best_entropy", None, lambda values: values[1:], "best_entropy must hold `length` values"),
        ("best_logprobs", None, lambda values: values[1:], "best_logprobs must hold as many values for each of `len"),
    ],
)
def test_every_rule_of_a_response_names_the_row_that_breaks_it(column, row, change, rule):
    frame = responses()
    frame["best_entropy"] = [np.ones(n) for n in frame["length"]]
    frame["best_logprobs"] = [np.ones(2 * n) for n in frame["length"]]
    RESPONSES.check(frame, "x")
    place = frame.index[frame[row]][0] if row else 1
    if column == "p_true_mass":
        frame.loc[place, "p_true"] = np.nan
    frame.at[place, column] = change(frame.at[place, column])
    with pytest.raises(ContractError, match=rf"^x: {rule}.*, broken in 1 row\(s\), first {place};"):
        RESPONSES.check(frame, "x")


def test_broken_files_are_refused_on_reading(tmp_path, predictions):
    path = tmp_path / "p.parquet"
    predictions.assign(confidence=2.0, valid=True).to_parquet(path)  # somebody else's file
    with pytest.raises(ContractError, match=r"p\.parquet: column 'confidence'"):
        read_frame(path, PREDICTIONS)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ContractError, match="not a readable Parquet file"):
        read_frame(path, PREDICTIONS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContractError, match=r"holds no \.parquet file"):
        read_frame((tmp_path / "empty"), QUESTIONS)
