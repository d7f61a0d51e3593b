"""The table of decisions: choices among several responses, abstention and routing, against plain counting."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.metrics.bootstrap import generator_for
from cocal.metrics.choices import candidates, certified
from cocal_study.config import load_study
from cocal_study.config.evaluation import DecisionSettings
from cocal_study.exhibits import decisions
from decided import LAYOUT, METHODS, SETS, pool, predictions
from exhibits_by_name import exhibits_by_name
from smoke_study import CONFIG, ROOT


@pytest.fixture(scope="module")
def frame():
    return predictions()


@pytest.fixture(scope="module")
def responses():
    return [pool("amc"), pool("aime")]


@pytest.fixture(scope="module")
def numbers(frame, responses):
    return decisions.prepare(LAYOUT, frame, responses)


def _counted(frame, dataset, samples, method, seed):
    """The accuracy of every rule on a set, by loops over questions and responses."""
    right = defaultdict(list)
    shown = frame[(frame["dataset"] == dataset) & (frame["method"] == method) & (frame["seed"] == seed)]
    confidence = dict(zip(shown["response_id"], shown["confidence"].fillna(0.0), strict=True))
    given = pool(dataset)
    for _, one in given[given["sample"] < samples].groupby("question_id"):
        rows = one.to_dict("records")
        right["first"].append(rows[0]["correct"])
        right["oracle"].append(any(row["correct"] for row in rows))
        right["best-of-n"].append(max(rows, key=lambda row: confidence[row["response_id"]])["correct"])
        voters = [row for row in rows if row["answer_class"] >= 0]
        for rule in ("majority", "vote"):
            votes = Counter()
            for row in voters:
                votes[row["answer_class"]] += confidence[row["response_id"]] if rule == "vote" else 1
            winner = votes.most_common(1)[0][0] if votes else None
            right[rule].append(winner == 0)  # the class of the right answer
    return {rule: np.mean(values) for rule, values in right.items()}


def test_choices_are_those_of_plain_counting(numbers, frame):
    value = numbers[numbers["part"] == "choice"].set_index(["rule", "method", "dataset"])["value"]
    for dataset in ("amc", "aime"):
        for method in ("token-probability", "cocal-binary"):
            by_seed = [_counted(frame, dataset, SETS[dataset][1], method, seed) for seed in METHODS[method]]
            for rule in ("best-of-n", "vote"):
                assert value[rule, method, dataset] == pytest.approx(np.mean([one[rule] for one in by_seed])), rule
            for rule in ("first", "majority", "oracle"):
                assert value[rule, "", dataset] == pytest.approx(by_seed[0][rule])
    for key in {key[:2] for key in value.index}:
        assert value[*key, "macro"] == pytest.approx((value[*key, "amc"] + value[*key, "aime"]) / 2)
    assert value["first", "", "amc"] < value["best-of-n", "token-probability", "amc"] <= value["oracle", "", "amc"]
    assert "cocal-pre-generation" not in numbers[numbers["part"] != "routing"]["method"].tolist()


def test_intervals_hold_the_estimate_and_are_narrower_on_average(numbers):
    shown = numbers[numbers["part"] != "abstention"]
    assert (shown["lower"] <= shown["value"]).all()
    assert (shown["value"] <= shown["upper"]).all()
    width = (shown["upper"] - shown["lower"]).groupby([shown["rule"], shown["dataset"]]).mean()
    assert width["first", "macro"] < min(width["first", "amc"], width["first", "aime"])
    assert width["first", "amc"] > 0


def _first(frame, method, seed, names):
    shown = frame[frame["dataset"].isin(names) & (frame["method"] == method) & (frame["seed"] == seed)]
    return shown.drop_duplicates(["dataset", "question_id"]).sort_values(["dataset", "question_id"])


def test_thresholds_are_certified_on_one_half_and_tried_on_the_other(numbers, frame, responses):
    shown = numbers[numbers["part"] == "abstention"].set_index(["method", "dataset", "metric"])
    value, ends = shown["value"], shown[["lower", "upper"]]
    method, names = "cocal-binary", LAYOUT.domains["mathematics"]
    generator, found = generator_for(7, "mathematics"), []
    orders = [generator.permutation(350) for _ in range(5)]
    for seed in METHODS[method]:
        asked = _first(frame, method, seed, names)
        confidence, correct = asked["confidence"].to_numpy(), asked["correct"].to_numpy()
        for order in orders:
            old, new = order[:175], order[175:]
            offered = candidates(confidence[new])
            threshold = certified(confidence[old], correct[old], offered, max_risk=0.15, delta=0.08)
            answered = confidence[new] >= (2 if threshold is None else threshold)
            found.append(
                [answered.mean(), (~correct[new])[answered].mean() if answered.any() else np.nan, answered.any()]
            )
    by_split = np.array(found).reshape(2, 5, 3)  # the risk of a split is the mean over the seeds that answer
    for place, metric in enumerate(("coverage", "risk", "certified")):
        of_splits = pd.DataFrame(by_split[:, :, place]).mean()
        expected = of_splits.mean()
        assert ends.loc[(method, "mathematics", metric)].tolist() == pytest.approx(np.quantile(of_splits, [0.05, 0.95]))
        assert value[method, "mathematics", metric] == pytest.approx(expected)
    assert 0.1 < value[method, "mathematics", "coverage"] < 0.8
    assert value[method, "mathematics", "risk"] < 0.15
    rare = decisions.prepare(
        LAYOUT.model_copy(update={"decisions": DecisionSettings(splits=5, max_risk=0.001)}), frame, responses
    )
    nothing = rare[rare["part"] == "abstention"].set_index(["method", "dataset", "metric"])["value"]
    assert nothing[method, "mathematics", "coverage"] == nothing[method, "mathematics", "certified"] == 0
    assert np.isnan(nothing[method, "mathematics", "risk"])


def test_kept_questions_are_the_most_confident_ones(numbers, frame):
    value = numbers[numbers["part"] == "routing"].set_index(["rule", "method", "dataset"])["value"]
    for method in ("cocal-pre-generation", "cocal-binary"):
        for domain, names in LAYOUT.domains.items():
            kept = []
            for seed in METHODS[method]:
                asked = _first(frame, method, seed, names).assign(c=lambda rows: rows["confidence"].fillna(-1))
                ranks, half = asked["c"].rank(method="min", ascending=False), len(asked) // 2
                sure = asked["correct"][ranks <= half]
                last = asked["c"][ranks <= half].min()
                tied, above = asked["correct"][asked["c"] == last], asked["correct"][asked["c"] > last]
                kept.append((above.sum() + tied.mean() * (half - len(above))) / half)
                assert len(sure) >= half
            assert value["0.5", method, domain] == pytest.approx(np.mean(kept))
            assert value["0", method, domain] == pytest.approx(asked["correct"].mean())
    assert value["0.5", "cocal-pre-generation", "mathematics"] > value["0.2", "cocal-pre-generation", "mathematics"]
    assert value["0.2", "cocal-pre-generation", "mathematics"] > value["0", "cocal-pre-generation", "mathematics"]


def test_the_table_says_n_and_marks_the_best_choice(numbers, frame, responses):
    grid = decisions.grid(numbers, LAYOUT, predictions=frame, responses=responses)
    choice, _, routing = grid.blocks
    *rows, oracle = [row for group in choice.groups for row in group.rows]
    assert all(cell.mark is None for cell in oracle.cells)  # nobody can choose as the oracle does
    ranked = [(float(row.cells[0].text), row.cells[0].mark) for row in rows]
    assert {mark for text, mark in ranked if text == max(one for one, _ in ranked)} == {"best"}
    assert [row.label for row in routing.groups[0].rows] == ["CoCal (pre-generation)", "CoCal (binary)"]
    assert "average two seeds" in grid.caption
    assert "with a probability of at least 92 %, at most 15 % of the given answers are wrong" in grid.caption
    assert "share of 5 splits" in grid.caption


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame, given: (frame[frame["method"] != "token-probability"], given), "none of method 'token-prob"),
        (lambda frame, given: (frame.drop(frame.index[3]), given), "method 'token-probability' lacks responses of amc"),
        (lambda frame, given: (frame, [given[0], given[1].assign(answer_class=np.nan)]), "answers of aime were not"),
    ],
)
def test_inputs_that_do_not_belong_together_are_named(frame, responses, change, message):
    with pytest.raises(ContractError, match=message):
        decisions.prepare(LAYOUT, *change(frame, responses))


def test_studies_have_the_table_where_there_is_a_choice():
    paper = exhibits_by_name(load_study(ROOT / "config/paper.yaml"))["decisions"]
    assert {one.name: one.samples for one in paper.layout.sets} == dict.fromkeys(
        ["aime24", "aime25", "amc23", "amc24"], 10
    )
    assert "self-consistency" not in paper.layout.methods
    assert {"p-true", "token-probability", "cocal-group", "cocal-pre-generation"} <= {*paper.layout.methods}
    smoke = load_study(CONFIG)
    assert [one.name for one in exhibits_by_name(smoke)["decisions"].layout.sets] == ["smoke-small"]
    single = {name: one.model_copy(update={"samples": 1}) for name, one in smoke.datasets.items()}
    assert "decisions" not in exhibits_by_name(smoke.model_copy(update={"datasets": single}))
    few = smoke.estimators.model_copy(update={"methods": ("p-true", "cocal-binary")})  # answers are not compared
    assert "decisions" not in exhibits_by_name(smoke.model_copy(update={"estimators": few}))
