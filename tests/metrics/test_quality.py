"""What numbers rest on: from responses to predictions, cube, tables and checks."""

import json
import logging
import re

import numpy as np
import pandas as pd
import pytest
from test_tables import layout

from cocal.answers.judge import ExactMatch, Verdicts
from cocal.checks.predictions import check_quality
from cocal.checks.tables import count_verdicts
from cocal.cli import main
from cocal.config.evaluation import MetricSettings, QualitySettings
from cocal.errors import ContractError
from cocal.exhibits.typesetting import accuracy
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from cocal.generation.judging.verdicts import judge_set
from cocal.generation.p_true import p_true
from cocal.metrics.cube import on_common_responses
from cocal.metrics.cube import metric_cube
from cocal.metrics.quality import RATES, RESTS_ON, rates_of, shortfalls
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS, RESPONSES, VERDICTS
from evaluated_study import SETS, EvaluatedStudy, responses
from sample_predictions import sample_predictions

DATASETS = ("amc23", "amc24")
GROUPS = {"macro-mathematics": list(DATASETS)}


def predictions() -> pd.DataFrame:
    """Two sets; on the first, a quarter of Verbal's responses states no confidence and a fifth has no answer."""
    frame = sample_predictions(*DATASETS, methods=("verbal", "p-true", "cocal-binary"))
    place = frame["response_id"]
    first = frame["dataset"] == DATASETS[0]
    frame["p_true_mass"] = np.where(frame["method"] == "p-true", np.where(first, 0.2, 0.9), np.nan)
    silent = first & (frame["method"] == "verbal") & (place % 4 == 0)
    frame["confidence"] = frame["confidence"].mask(silent)
    frame["valid"] = frame["confidence"].notna()
    frame["answered"] = ~(first & (place % 5 == 0))
    frame["decided"] = ~(first & (place == 1))
    return PREDICTIONS.check(frame, "test")


def cube_of(frame):
    return metric_cube(frame, MetricSettings(resamples=5), GROUPS)


def grid_of(chosen):
    cube = cube_of(predictions())
    return accuracy.grid(accuracy.prepare(chosen, cube), chosen, source="", metrics=cube)


def chosen(**changes):
    return layout(*DATASETS, methods=["verbal", "p-true", "cocal-binary"], **changes)


# Responses


class Hesitant(ExactMatch):
    """Comes to no verdict about the answers 2, and about the class of 01."""

    def correct(self, golds, answers, questions):
        exact = super().correct(golds, answers, questions).values
        open_rows = np.array([answer == "2" for answer in answers])
        return Verdicts(~exact & ~open_rows, ~open_rows)

    def classes(self, answers, pools, questions):
        labels = super().classes(answers, pools, questions).values
        return Verdicts(labels, np.array([answer != "01" for answer in answers]))


def asked(domain):
    ids = [f"q{i}" for i in range(4)]
    frame = pd.DataFrame({"dataset": "sums", "question_id": ids, "question": "Sum?", "answer": "1", "domain": domain})
    return frame.assign(aliases=[["one"]] * 4, split="evaluation", subject="", level=0)


@pytest.mark.parametrize("pool", [True, False])
def test_verdicts_keep_what_stayed_undecided_and_the_exact_match(pool):
    sampled = responses().drop(columns=list(VERDICTS))
    table = RESPONSES.check(judge_set(sampled, asked("factual"), Hesitant(), pool=pool, source="t"), "t")
    answer = table["answer"]
    assert table["decided"].tolist() == (~answer.isin(["2", "01"] if pool else ["2"])).tolist()
    assert table["exact_match"].tolist() == (answer == "1").tolist()
    assert (table["exact_match"] != table["correct"]).any()  # the judge's verdict is another one
    table = RESPONSES.check(judge_set(sampled, asked("mathematics"), Hesitant(), pool=pool, source="t"), "t")
    assert table["exact_match"].isna().all()


def test_p_true_keeps_the_probability_that_it_divides_up():
    found = p_true(np.log([0.2, 1e-9, 0.6]), np.log([0.6, 3e-9, 0.4]))
    np.testing.assert_allclose(found.ratio, [0.25, 0.25, 0.6])
    np.testing.assert_allclose(found.mass, [0.8, 4e-9, 1.0])
    assert (p_true(np.log([0.5, 0.7]), np.log([0.5, 0.3 + 1e-9])).mass <= 1.0).all()


def test_a_mass_without_its_ratio_is_refused():
    frame = responses()
    RESPONSES.check(frame.assign(p_true_mass=np.nan), "mine")  # kept by nobody
    with pytest.raises(ContractError, match=r"p_true_mass must be null where p_true is, broken in 8 row\(s\)"):
        RESPONSES.check(frame.assign(p_true=np.nan), "mine")


# Predictions


def test_predictions_carry_the_facts_of_their_responses(tmp_path):
    study = EvaluatedStudy(tmp_path)
    study.frame["decided"] = study.frame["response_id"] != 1
    study.frame["exact_match"] = study.frame["response_id"] % 3 == 0
    table = study.run("token-probability", "p-true", "self-consistency", sets=SETS)
    evaluated = study.evaluated()
    for method, rows in table.groupby("method"):
        assert rows["answered"].tolist() == evaluated["answer"].notna().tolist()
        assert rows["decided"].tolist() == evaluated["decided"].tolist()
        assert rows["exact_match"].tolist() == evaluated["exact_match"].tolist()
        mass = evaluated["p_true_mass"] if method == "p-true" else evaluated["p_true_mass"] * np.nan
        np.testing.assert_array_equal(rows["p_true_mass"], mass)
    assert not table["answered"].all()


# Shares


def test_shares_of_a_cell_and_of_the_macro_average():
    cube = metric_cube(predictions(), MetricSettings(resamples=0), GROUPS)
    at = {"backbone": "tiny-a", "algorithm": "grpo", "step": 60, "seed": "mean"}
    verbal, asked_true, companion = (cube.sel({**at, "method": m}) for m in ("verbal", "p-true", "cocal-binary"))
    assert float(verbal["valid_rate"].sel(dataset="amc23")) == 0.75
    assert float(companion["valid_rate"].sel(dataset="amc23")) == 1.0
    for one in (verbal, asked_true, companion):
        assert one["answered_rate"].sel(dataset=["amc23", "amc24", "macro-mathematics"]).values.tolist() == [
            0.8,
            1,
            0.9,
        ]
        assert float(one["decided_rate"].sel(dataset="amc23")) == 0.975
        assert np.isnan(one["exact_match_accuracy"]).all()
    np.testing.assert_allclose(asked_true["p_true_mass"].sel(dataset=["amc23", "macro-mathematics"]), [0.2, 0.55])
    assert np.isnan(verbal["p_true_mass"]).all()


def test_truncated_responses_are_told_from_unanswered_ones():
    frame = predictions().assign(truncated=lambda f: f["response_id"] % 5 < 2)
    rates = rates_of(frame[frame["dataset"] == DATASETS[0]])
    assert (rates["answered_rate"], rates["truncation_rate"]) == (0.8, 0.4)


def test_accuracy_by_exact_match_stands_beside_the_judges():
    frame = predictions()
    frame["exact_match"] = (frame["correct"] & (frame["response_id"] < 20)).astype("boolean")
    numbers = accuracy.prepare(chosen(), cube_of(frame))
    found = numbers.query("metric == 'accuracy' and dataset == 'amc23' and method == 'verbal'").iloc[0]
    rows = frame[(frame["dataset"] == "amc23") & (frame["method"] == "verbal")]
    assert found["exact_match_accuracy"] == rows["exact_match"].mean() < found["value"] == rows["correct"].mean()


def test_shortfalls_name_what_is_known_and_too_little():
    rates = {"valid_rate": 0.89, "answered_rate": 0.9, "decided_rate": float("nan"), "truncation_rate": 0.0}
    assert shortfalls(rates, QualitySettings()) == {"valid_rate": 0.89}
    assert shortfalls({"p_true_mass": 0.3}, QualitySettings(p_true_mass=0.3)) == {}
    assert (
        shortfalls({"valid_rate": np.nextafter(0.9, 0)}, QualitySettings()) == {}
    )  # a mean over seeds that was rounded
    assert set(QualitySettings.model_fields) == set().union(*RESTS_ON.values()) < set(RATES)


# Tables


def test_values_that_rest_on_too_little_are_marked_and_explained():
    grid = grid_of(chosen(quality=QualitySettings(answered_rate=0.5, decided_rate=0.9)))
    marked = {
        (row.label, place)
        for block in grid.blocks
        for group in block.groups
        for row in group.rows
        for place, cell in enumerate(row.cells)
        if cell.doubtful
    }
    # mean confidence, ECE and AUROC on the first set and in the macro average; not accuracy, not the second set
    assert marked == {(label, place) for label in ("Verbal", "P(True)") for place in (1, 2, 3, 9, 10, 11)}
    text = latex(grid)
    assert text.count(r"$^{\dagger}$") == 12 + 1
    assert re.search(r"\nVerbal & \S+ & 0\.\d+\$\^\{\\dagger\}\$ & ", text)
    sentence = (
        "marks values for which less than 90 % of the responses have a valid confidence, or the two words of "
        "P(True) have less than 50 % of the probability on average."
    )
    assert f"† {sentence}" in grid.caption
    assert rf"$^{{\dagger}}$ {sentence}".replace("%", r"\%") in text
    assert page(grid).count("<sup>†</sup>") == 12


def test_an_answer_that_is_missing_casts_doubt_on_accuracy_too():
    grid = grid_of(chosen(quality=QualitySettings(valid_rate=0, p_true_mass=0)))
    row = grid.blocks[0].groups[0].rows[0]
    assert [cell.doubtful for cell in row.cells[:8]] == [True, False, True, True] + [False] * 4
    assert (
        "less than 90 % of the responses have an answer, or less than 99 % of the responses have a verd" in grid.caption
    )


def test_a_table_without_shortfalls_says_nothing_of_them():
    floors = dict.fromkeys(QualitySettings.model_fields, 0.0)
    grid = grid_of(chosen(quality=QualitySettings(**floors)))
    assert "†" not in grid.caption + page(grid)
    assert "dagger" not in latex(grid)


def test_the_page_alone_lists_the_shares():
    grid = grid_of(chosen())
    (block,) = grid.details
    assert [head.text for head in block.heads[1]] == ["Valid", "Answered", "Decided", "Truncated", "True or False"] * 3
    assert [cell.text for cell in block.groups[0].rows[1].cells[5:10]] == ["100.0", "80.0", "97.5", "0.0", "20.0"]
    assert "Answered" in page(grid)
    assert "Answered" not in latex(grid)


# Checks


def test_checks_name_method_set_and_share(caplog):
    with caplog.at_level(logging.WARNING):
        looked_at = check_quality(predictions(), QualitySettings(), "main.parquet")
    by_cell = {(one["method"], one["dataset"]): one for one in looked_at}
    assert len(by_cell) == 6
    one = by_cell["verbal", "amc23"]
    assert (one["valid_rate"], one["answered_rate"], one["decided_rate"]) == (0.75, 0.8, 0.975)
    assert one["below"] == {"valid_rate": 0.9, "answered_rate": 0.9, "decided_rate": 0.99}
    assert by_cell["p-true", "amc23"]["below"]["p_true_mass"] == 0.5
    assert by_cell["cocal-binary", "amc24"]["below"] == {}
    assert "p_true_mass" not in by_cell["cocal-binary", "amc24"]
    json.dumps(looked_at, allow_nan=False)
    told = [record.getMessage() for record in caplog.records]
    assert (
        "main.parquet: verbal of grpo step 60 on amc23: the valid rate is 0.7500, below quality.valid_rate = 0.9"
        in told
    )
    assert len(told) == sum(len(one["below"]) for one in looked_at)


def test_training_responses_without_verdict_are_counted():
    table = responses()
    table["decided"] = table["response_id"] > 2
    assert count_verdicts(table) == {"responses": 40, "without_answer": 1, "undecided": 3}


# The same responses for several methods


def test_methods_are_compared_where_all_have_a_confidence(tmp_path):
    frame = sample_predictions(*DATASETS, methods=("rlcr", "cocal-on-rlcr", "dcpo"))
    lost = {"rlcr": (3, 5), "cocal-on-rlcr": (5, 8)}
    for method, ids in lost.items():
        rows = (frame["method"] == method) & frame["response_id"].isin(ids) & (frame["dataset"] == DATASETS[0])
        frame["confidence"] = frame["confidence"].mask(rows)
    frame["valid"] = frame["confidence"].notna()
    earlier = sample_predictions(*DATASETS, methods=("rlcr", "cocal-on-rlcr"), step=20)
    both = on_common_responses(pd.concat([frame, earlier], ignore_index=True))
    assert both.loc[both["step"] == 20, "valid"].all(), "another step has other responses"
    common = PREDICTIONS.check(on_common_responses(frame), "common")
    for (method, dataset), rows in common.groupby(["method", "dataset"]):
        invalid = set(rows.loc[~rows["valid"], "response_id"])
        assert invalid == (set() if method == "dcpo" or dataset == DATASETS[1] else {3, 5, 8}), method
    kept = common["valid"]
    pd.testing.assert_series_equal(common["confidence"][kept], frame["confidence"][kept])
    write_frame(tmp_path / "all.parquet", frame, PREDICTIONS, {})
    files = {}
    for name, flags in (("own", []), ("common", ["--common-responses"])):
        files[name] = tmp_path / f"{name}.nc"
        command = ["metrics", "--settings", '{"resamples": 0}', "--predictions", str(tmp_path / "all.parquet"), *flags]
        assert main([*command, f"--output={files[name]}"]) == 0
    from cocal.store import read_dataset

    own, shared = (read_dataset(path) for path in files.values())
    accuracy = {"metric": "accuracy"}
    np.testing.assert_array_equal(own["value"].sel(accuracy), shared["value"].sel(accuracy))
    np.testing.assert_array_equal(own["n"], shared["n"])
    at = {"algorithm": "rlcr", "dataset": "amc23", "seed": "mean"}
    assert shared["n_valid"].sel({**at, "method": ["rlcr", "cocal-on-rlcr"]}).values.ravel().tolist() == [37, 37]
    assert own["n_valid"].sel({**at, "method": ["rlcr", "cocal-on-rlcr"]}).values.ravel().tolist() == [38, 38]


def test_responses_of_another_format_are_other_responses():
    frame = sample_predictions("amc23", methods=("verbal", "token-probability"))
    common = on_common_responses(frame)
    assert common[common["method"] == "token-probability"]["valid"].all()  # Verbal's first states none


def test_rates_of_no_known_exact_match_are_unknown():
    rates = rates_of(predictions())
    assert list(rates) == list(RATES)
    assert np.isnan(rates["exact_match_accuracy"])
