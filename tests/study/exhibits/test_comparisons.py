"""Paired tests of differences: their rates on simulated studies, pairing, seeds, Holm, and the tables and command."""

import json

import numpy as np
import pandas as pd
import pytest

from cocal.cli import main
from cocal.errors import ContractError
from cocal.metrics.bootstrap import resampled_metrics
from cocal.metrics.calibration import METRICS, evaluate
from cocal.metrics.scores import Sample
from cocal.metrics.settings import MetricSettings
from cocal.store import write_frame, write_text
from cocal_study.cubes.cube import evaluate_cells
from cocal_study.cubes.resamples import MAIN, Resamples, read_resamples, resamples_of
from cocal_study.evidence.comparisons import (
    compare,
    estimate,
    final_key,
    holm,
    pairs_in_table,
    separable_from_best,
    with_holm,
)
from cocal_study.evidence.estimates import Estimate
from cocal_study.exhibits import comparisons
from cocal_study.exhibits import main as main_table
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.store.contracts import PREDICTIONS
from sample_predictions import METHODS, SEEDS, sample_predictions
from sample_tables import BACKBONE

QUESTIONS, EACH, RESAMPLES = 100, 3, 199
SETTINGS = MetricSettings(resamples=999)


def simulated(
    generator: np.random.Generator, sharper: float = 0.0, shift: float = 0.0, own: bool = False
) -> list[Estimate]:
    """Accuracy, mean confidence, ECE and AUROC of two methods on clustered responses, as differences.

    Each question has its own difficulty, which both methods know with errors of the same kind; the first method's are
    smaller by `sharper`, and the second one is over-confident by `shift`. With `own`, each has responses of its own.
    """
    question = np.repeat(np.arange(QUESTIONS), EACH)
    difficulty = np.clip(generator.beta(1.5, 1.2, QUESTIONS), 0.02, 0.98)
    shared = generator.random(len(question)) < difficulty[question]
    samples = []
    for noise, excess in ((0.25 - sharper, 0.0), (0.25, shift)):
        correct = generator.random(len(question)) < difficulty[question] if own else shared
        known = difficulty[question] + 0.3 * (correct - difficulty[question])
        confidence = np.clip(known + excess + noise * generator.normal(size=len(question)), 0, 1)
        samples.append(Sample(question, confidence, correct))
    draws = np.random.default_rng(generator.integers(1 << 30))
    resampled = resampled_metrics(samples, QUESTIONS, bins=10, resamples=RESAMPLES, generator=draws)
    every = np.ones(len(question), dtype=bool)
    whole = [evaluate(one.confidence, every, one.correct, 10) for one in samples]
    both = [[Estimate(whole[i][m], resampled[i, :, k], questions="q") for k, m in enumerate(METRICS)] for i in (0, 1)]
    return [first - second for first, second in zip(*both, strict=True)]


@pytest.mark.parametrize(("own", "metrics"), [(False, ("ece", "auroc")), (True, ("accuracy", "ece", "auroc"))])
def test_of_equal_methods_one_in_twenty_is_found_different(own, metrics):
    """The rate of false alarms at 5 %: with 300 studies, 0.013 is its standard error.

    The ECE of own responses may be found different less often: resampled bins are noisier than those of the sample.
    """
    generator = np.random.default_rng(7 + own)
    p_values, inside = {m: [] for m in metrics}, {m: [] for m in metrics}
    for _ in range(300):
        for metric, difference in zip(METRICS, simulated(generator, own=own), strict=True):
            if metric in metrics:
                p_values[metric].append(difference.p_value())
                lower, upper = difference.interval(0.95)
                inside[metric].append(lower <= 0 <= upper)
    for metric in metrics:
        cautious = own and metric == "ece"
        assert (0.0 if cautious else 0.015) <= np.mean(np.array(p_values[metric]) < 0.05) <= 0.09, metric
        assert 0.91 <= np.mean(inside[metric]) <= (1.0 if cautious else 0.985), metric
        assert abs(np.median(p_values[metric]) - 0.5) < 0.12, metric


def test_a_known_effect_is_found_with_its_sign():
    generator = np.random.default_rng(11)
    sharper = [simulated(generator, sharper=0.12)[METRICS.index("auroc")] for _ in range(40)]
    assert np.mean([one.p_value() < 0.05 and one.value > 0 for one in sharper]) > 0.9
    calibrated = [simulated(generator, shift=0.3)[METRICS.index("ece")] for _ in range(40)]
    assert np.mean([one.p_value() < 0.05 and one.value < 0 for one in calibrated]) > 0.9


def test_p_values_have_a_floor_and_count_resamples_beyond_zero():
    draws = np.linspace(0.01, 1.0, 99)
    assert Estimate(float(draws.mean()), draws).p_value() == 2 / 100
    draws = np.array([-1.0, -1.0, *np.ones(97)]) + 0.5 - np.mean([-1.0, -1.0, *np.ones(97)])
    assert Estimate(0.5, draws).p_value() == pytest.approx(2 * 3 / 100)
    assert np.isnan(Estimate(0.5).p_value())
    assert np.isnan(Estimate(float("nan"), np.full(5, np.nan)).p_value())


def width(shuffle: bool) -> float:
    """Of the interval of CoCal less TokenProb, which both score the same responses and know about the same; the
    questions of one of them may be in another order."""
    generator = np.random.default_rng(5)
    frame = sample_predictions("math500", methods=("token-probability", "cocal-binary"))
    ours = frame["method"] == "cocal-binary"
    shared = frame[~ours].set_index("response_id")["confidence"].reindex(frame.loc[ours, "response_id"]).to_numpy()
    frame.loc[ours, "confidence"] = np.clip(0.9 * shared + 0.02 + 0.01 * generator.normal(size=ours.sum()), 0, 1)
    if shuffle:
        order = generator.permutation(40)
        frame.loc[ours, "question_id"] = [f"math500-{order[i]:03d}" for i in frame.loc[ours, "response_id"]]
    resamples = Resamples.of(resamples_of(evaluate_cells(frame, SETTINGS)), "here")
    pair = [final_key(name, 60, "math500") for name in ("cocal-binary", "token-probability")]
    (found,) = compare(resamples, [pair]).query("metric == 'auroc'").itertuples()
    assert found.paired == "responses"
    return found.upper - found.lower


def test_pairing_matters():
    assert width(shuffle=True) > 3 * width(shuffle=False)


def test_holm_by_hand_and_in_the_columns_of_a_table():
    np.testing.assert_allclose(holm([0.01, 0.04, np.nan, 0.03, 0.005]), [0.03, 0.06, np.nan, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1, 1])
    frame = pd.DataFrame({"dataset": [*"aab"], "metric": "ece", "p": [0.01, 0.02, 0.02], "baseline": [*"xyx"]})
    assert with_holm(frame)["p_holm"].tolist() == [0.02, 0.02, 0.02]
    assert with_holm(frame, ["metric"])["p_holm"].tolist() == [0.03, 0.04, 0.04]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return sample_predictions("math500", "aime24", methods=(*METHODS, "rlcr"))


@pytest.fixture(scope="module")
def evaluated(frame):
    return evaluate_cells(frame, SETTINGS, {"macro-mathematics": ["math500", "aime24"]}, SEEDS)


@pytest.fixture(scope="module")
def resamples(evaluated) -> Resamples:
    return Resamples.of(resamples_of(evaluated), "here")


def test_differences_are_those_of_the_cube_and_its_resamples(evaluated, resamples):
    cube = evaluated.cube()
    for dataset in ("aime24", "macro-mathematics"):
        keys = [final_key(name, 60, dataset) for name in ("cocal-binary", "rlcr")]
        found = compare(resamples, [keys]).set_index("metric")
        cell = {"backbone": "tiny-a", "step": 60, "dataset": dataset, "metric": "ece"}
        ours = cube["value"].sel(cell | {"algorithm": "grpo", "method": "cocal-binary"}).to_series()
        theirs = cube["value"].sel(cell | {"algorithm": "rlcr", "method": "rlcr", "seed": "mean"}).item()
        assert found.loc["ece", "value"] == pytest.approx(ours["mean"] - theirs)
        assert found.loc["ece", "seed_sd"] == pytest.approx(np.std([ours[str(s)] for s in SEEDS], ddof=1))
        assert found["paired"].tolist() == ["questions"] * 3
        assert np.isnan(found.loc["accuracy", "seed_sd"])
        by_seed = resamples.data["by_seed"].isel(cell=resamples.places[keys[0]]).sel(metric="ece")
        assert by_seed.to_series().to_dict() == {str(seed): ours[str(seed)] for seed in SEEDS}


def test_seeds_with_seeds_are_paired_seed_by_seed(resamples, evaluated):
    pair = [final_key(name, 60, "math500") for name in ("cocal-binary", "cocal-group")]
    values = evaluated.cube()["value"].sel({"dataset": "math500", "metric": "ece", "algorithm": "grpo", "step": 60})
    ours, theirs = (values.sel({"method": key.method, "seed": [str(s) for s in SEEDS]}).to_numpy() for key in pair)
    found = compare(resamples, [pair]).set_index("metric")
    assert found.loc["ece", "seed_sd"] == pytest.approx(np.std((ours - theirs).ravel(), ddof=1))
    assert "accuracy" not in found.index, "both score the same responses"


def test_other_questions_are_no_pair(frame, resamples):
    fewer = frame[(frame["method"] == "rlcr") & (frame["response_id"] < 30)]
    other = Resamples.of(resamples_of(evaluate_cells(fewer, SETTINGS)), "fewer")
    key = final_key("rlcr", 60, "math500")
    with pytest.raises(ContractError, match="the same questions"):
        estimate(resamples, key, "ece") - estimate(other, key, "ece")
    with pytest.raises(ContractError, match=r"here: there is nothing for method p-true.*run its predictions"):
        compare(resamples, [(final_key("p-true", 60, "math500"), key)])


def test_what_is_separable_from_the_best(resamples, evaluated):
    layout = main_layout()
    numbers = main_table.prepare(layout, evaluated.cube(), resamples)
    said = numbers.set_index(["dataset", "method", "metric"])["separable_from_best"]
    values = numbers.set_index(["dataset", "method", "metric"])["value"]
    of_grpo = ("self-consistency", "token-probability", "cocal-group", "cocal-binary")
    assert {said["math500", name, "accuracy"] for name in of_grpo} == {"best"}, "equal accuracies share it"
    assert values["macro-mathematics", "base-verbal", "ece"] > values["macro-mathematics", "cocal-binary", "ece"] + 0.2
    assert said["macro-mathematics", "base-verbal", "ece"] == "yes"
    assert {"yes", "no"} <= set(said)
    again = separable_from_best(resamples, numbers, 60, level=0.0)
    assert set(again.values()) == {"best", "no"}
    html = page(main_table.grid(numbers, layout, metrics=evaluated.cube(), resamples=resamples))
    assert "Separable from the best" in html
    assert "Separable" not in latex(main_table.grid(numbers, layout, metrics=evaluated.cube(), resamples=resamples))


def test_the_page_says_where_this_run_lies_among_replicates(evaluated):
    layout = main_layout()
    numbers = main_table.prepare(layout, evaluated.cube())
    ones = {f"replicate_{k}": numbers["value"] + shift for k, shift in ((2, -0.03), (4, -0.01), (9, 0.02))}
    gathered = numbers[["dataset", "method", "metric"]].assign(mean=0.5, **ones)
    gathered.loc[gathered["method"] == "rlcr", "replicate_4"] = float("nan")
    place = ("macro-mathematics", "cocal-binary", "accuracy")
    value = numbers.set_index(["dataset", "method", "metric"]).loc[place, "value"]
    shown = {"metrics": evaluated.cube(), "replicates_main": gathered[gathered["method"] != "base-verbal"]}
    html = page(main_table.grid(numbers, layout, **shown))
    assert f"{100 * (value - 0.03):.1f} to {100 * (value + 0.02):.1f}; this run above 2 of 3" in html
    undefined = numbers.query("method == 'rlcr' and dataset == @place[0]")["value"].isna().sum()
    assert html.count("; this run above 1 of 2") == 4 - undefined
    assert "this run above" not in latex(main_table.grid(numbers, layout, **shown))


SETS = [{"name": "math500", "label": "MATH500"}, {"name": "aime24", "label": "AIME24"}]


def main_layout() -> main_table.Layout:
    return main_table.Layout(**BACKBONE, methods=(*METHODS, "rlcr"), datasets=SETS)


def test_the_table_marks_what_is_separable(resamples):
    layout = comparisons.Layout(**BACKBONE, methods=(*METHODS, "rlcr"), domains={"macro-mathematics": SETS})
    assert ("cocal-binary", "cocal-group") in pairs_in_table(layout.methods)
    assert ("cocal-group", "cocal-binary") not in pairs_in_table(layout.methods)
    assert len(pairs_in_table(layout.methods)) == 6 + 5
    numbers = comparisons.prepare(layout, resamples)
    assert numbers["dataset"].drop_duplicates().tolist() == ["math500", "aime24", "macro-mathematics"]
    family = numbers[(numbers["dataset"] == "math500") & (numbers["metric"] == "ece")]
    np.testing.assert_allclose(family["p_holm"], holm(family["p"]))
    text = latex(comparisons.grid(numbers, layout, resamples=resamples))
    macro = numbers[(numbers["dataset"] == "macro-mathematics")]
    assert text.count(r"\textbf") == (macro["p_holm"] < 0.05).sum() > 0
    assert text.count(r"$^{\ddagger}$") == macro["degenerate"].sum() + 1 > 1, "and once in the caption"
    assert not macro.loc[macro["metric"] == "accuracy", "degenerate"].any()
    assert "Verbal & " in text


def test_the_command_compares_methods(frame, tmp_path, capsys):
    write_frame(tmp_path / "grpo.parquet", frame, PREDICTIONS, {})
    settings, groups = json.dumps({"resamples": 50}), json.dumps({"macro-mathematics": ["math500", "aime24"]})
    made = ["metrics", "--settings", settings, "--groups", groups, "--predictions", str(tmp_path / "grpo.parquet")]
    made += ["--output", str(tmp_path / "tiny-a.nc"), "--resamples", str(tmp_path / "results/resamples/tiny-a.nc")]
    assert main(made) == 0
    assert read_resamples(tmp_path / "results/resamples/tiny-a.nc").comparison == MAIN
    capsys.readouterr()
    results = ["--results", str(tmp_path / "results"), "--output", str(tmp_path / "found.csv")]
    assert main(["compare", "cocal-binary", "rlcr", *results]) == 0
    shown = capsys.readouterr().out
    assert "A: cocal-binary   B: rlcr, tiny-a, step 60" in shown
    found = pd.read_csv(tmp_path / "found.csv")
    assert found.groupby("metric").size().to_dict() == {"accuracy": 3, "auroc": 3, "ece": 3}


def test_the_command_compares_what_learns_with_a_method(frame, tmp_path, capsys):
    scored = frame[frame["method"].isin(["cocal-binary", "token-probability"])]
    names = {"token-probability": "length", "cocal-binary": "cocal-binary"}
    calibrated = scored[scored["method"] == "token-probability"].assign(method="length+platt-all")
    baselines = pd.concat([scored.assign(method=scored["method"].map(names)), calibrated])
    for name, rows in (("methods", frame), ("baselines", baselines)):
        write_frame(tmp_path / f"{name}.parquet", rows, PREDICTIONS, {})
    settings, groups = json.dumps({"resamples": 50}), json.dumps({"macro-mathematics": ["math500", "aime24"]})
    made = ["metrics", "--settings", settings, "--groups", groups, "--output"]
    cubes = [str(tmp_path / f"results/metrics/tiny-a{kind}.nc") for kind in ("", "-recalibrated")]
    resamples = ["--resamples", str(tmp_path / "results/resamples/tiny-a.nc")]
    assert main([*made, cubes[0], "--predictions", str(tmp_path / "methods.parquet"), *resamples]) == 0
    assert main([*made, cubes[1], "--predictions", str(tmp_path / "baselines.parquet")]) == 0
    found = {}
    for baseline in ("token-probability", "length", "length+platt-all"):
        words = ["compare", "cocal-binary", baseline, "--results", str(tmp_path / "results"), "--overwrite"]
        assert main([*words, "--output", str(tmp_path / "found.csv")]) == 0
        found[baseline] = pd.read_csv(tmp_path / "found.csv").drop(columns="baseline")
    pd.testing.assert_frame_equal(found["length+platt-all"], found["token-probability"])
    ranked = found["token-probability"].query("metric == 'auroc'").reset_index(drop=True)
    pd.testing.assert_frame_equal(found["length"], ranked, check_dtype=False)  # which has no calibration error as it is
    baselines = ["length", "length+platt-all"]
    assert main([*words[:2], *baselines, *words[3:], "--output", str(tmp_path / "found.csv")]) == 0
    both = pd.read_csv(tmp_path / "found.csv")
    for name in baselines:
        of_baseline = both[both["baseline"] == name].drop(columns="baseline").reset_index(drop=True)
        pd.testing.assert_frame_equal(of_baseline, found[name], check_dtype=False)  # adjusted as by itself, too
    capsys.readouterr()
    assert main(["compare", "cocal-binary", "length", "linear-binary", "--results", str(tmp_path / "results")]) == 2
    assert "holds no confidence called 'linear-binary'" in capsys.readouterr().err


def test_the_command_compares_over_replicates(tmp_path, capsys):
    keys = "dataset,method,metric,mean,replicate_4,replicate_9,replicate_5"
    rows = ["math500,cocal-binary,ece,0,0.10,0.13,0.08", "math500,rlcr,ece,0,0.15,0.12,0.10"]
    rows += ["math500,cocal-binary,accuracy,0,0.5,0.6,0.7", "math500,cocal-group,accuracy,0,0.5,0.6,0.7"]
    learnt = ["math500,cocal-binary,auroc,0,0.90,0.80,0.86", "math500,length,auroc,0,0.80,0.82,0.83"]
    learnt += ["math500,cocal-binary,ece,0,0.10,0.13,0.08", "math500,length,ece,0,,,"]
    write_text(tmp_path / "spread/tables/main.csv", "\n".join([keys, *rows]) + "\n")
    write_text(tmp_path / "spread/tables/recalibrated.csv", "\n".join([keys, *learnt]) + "\n")
    words = ["compare", "cocal-binary", "--replicates", str(tmp_path / "spread")]
    words += ["--output", str(tmp_path / "x.csv"), "--overwrite"]
    assert main([*words[:2], "rlcr", *words[2:]]) == 0
    (row,) = pd.read_csv(tmp_path / "x.csv").to_dict("records")
    assert (row["metric"], row["replicates"], row["better"]) == ("ece", 3, 2)
    spread = 4.302653 * np.std([-0.05, 0.01, -0.02], ddof=1) / np.sqrt(3)  # Student's t, two degrees of freedom
    np.testing.assert_allclose(
        [row[name] for name in ("value", "lower", "upper")], [-0.02, -0.02 - spread, -0.02 + spread]
    )
    assert main([*words[:2], "length", *words[2:]]) == 0
    (row,) = pd.read_csv(tmp_path / "x.csv").to_dict("records")
    assert (row["metric"], row["better"], round(row["value"], 9)) == ("auroc", 2, round((0.1 - 0.02 + 0.03) / 3, 9))
    assert "2 of 3" in capsys.readouterr().out
    assert main([*words[:2], "length", "rlcr", *words[2:]]) == 0
    assert pd.read_csv(tmp_path / "x.csv")["baseline"].tolist() == ["length", "rlcr"]  # AUROC alone, ECE alone
    assert main([*words[:2], "cocal-group", *words[2:]]) == 2  # the same responses, so the same accuracy
    assert "in no table together" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cocal-binary", "x.parquet"], "'x.parquet' is no method"),
        (["cocal-binary", "length", "--results", "nowhere"], "run the study first"),
        (["cocal-binary", "length", "--replicates", "nowhere"], "gather some with `cocal spread`"),
    ],
)
def test_what_cannot_be_compared_is_refused(words, message, capsys):
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err
