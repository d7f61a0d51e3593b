"""Baselines that learn from the same rollouts: their scores, calibrators and probes, and what these may learn from."""

import json
import os
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.cli import main
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.store import read_document, read_frame, read_provenance
from cocal.store.origin import PARENTS
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Baseline
from cocal_study.methods.base.responses import Estimator, LabelledStates
from cocal_study.methods.linear_probe import PENALTIES, learn, penalised
from cocal_study.methods.recalibration.calibrators import Isotonic, Platt, fit_baselines
from cocal_study.methods.recalibration.confidences import learn_scores, read_experience, with_classes
from cocal_study.planning.baselines import BASELINES
from cocal_study.store.contracts import PREDICTIONS
from companion_run import GROUP, HIDDEN, LAYERS, SETTINGS, STEPS, final_features
from evaluated_study import SAMPLES
from recalibrated_study import PREVIOUS, questions_of, small_study

NAN = float("nan")
CONFIDENCES = Path(__file__).with_name("recalibrated.csv")
OURS, POSTCAL = ("cocal-group", "cocal-binary"), ("postcal-group", "postcal-binary")


def score(baseline, table, **settings):
    return resolve_name(BASELINES[baseline].score)(table, EstimatorSettings(**settings))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The small study after `cocal recalibrate`."""
    study = small_study(tmp_path_factory.mktemp("recalibrated")).write()
    assert main(study.command()) == 0
    return study


@pytest.fixture(scope="module")
def rollouts(done):
    return experience_of(done)


def experience_of(study, evaluated=None):
    evaluated = questions_of(study.responses) if evaluated is None else evaluated
    place = study.run.folder
    columns = ("answer", "mean_logprob")
    return read_experience(place / "rollouts", place / "questions.parquet", STEPS, SETTINGS, evaluated, columns)


# Scores


@pytest.mark.parametrize(("missing", "unanswered"), [("zero", 0.0), ("invalid", NAN)])
def test_leave_one_out_counts_the_others_alone(missing, unanswered):
    table = pd.DataFrame({"answer_class": [0, 0, 0, 1, -1, 0, 2, 0], "pool": [*"aaaaabb", "c"]})
    expected = [2 / 4, 2 / 4, 2 / 4, 0, unanswered, 0, 0, NAN]
    np.testing.assert_array_equal(score("self-consistency-loo", table, missing_answer=missing), expected)


def test_semantic_entropy_is_that_of_the_classes():
    classes = [0, 0, 1, 2, 0, 0, 0, 0, 0, 1, -1, -1, 0]
    pools = [*np.repeat(["mixed", "agreed", "apart"], 4), "alone"]
    entropy = -(0.5 * np.log(0.5) + 2 * 0.25 * np.log(0.25))
    expected = [*np.repeat([1 - entropy / np.log(4), 1, 0], 4), NAN]
    found = score("semantic-entropy", pd.DataFrame({"answer_class": classes, "pool": pools}))
    np.testing.assert_allclose(found, expected, atol=1e-12)


# Calibrators


def test_platt_scaling_minimises_the_log_loss_of_platts_targets():
    draw = np.random.default_rng(0)
    scores = draw.random(400) * 50 - 200  # far from standard
    correct = draw.random(400) < 1 / (1 + np.exp(-0.1 * (scores + 175)))
    right = correct.sum()
    targets = np.where(correct, (right + 1) / (right + 2), 1 / (400 - right + 2))

    def loss(ab):
        logits = ab[0] * (scores + 175) + ab[1]
        return (np.logaddexp(0, logits) - targets * logits).mean()

    best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    found = Platt.fit(scores, correct)
    np.testing.assert_allclose([found.slope, found.intercept + found.slope * -175], best, rtol=1e-5)
    np.testing.assert_allclose(found.apply(scores).mean(), targets.mean(), rtol=1e-8)


@pytest.mark.parametrize(
    ("scores", "correct"),
    [([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]), ([0.1, 0.2], [1, 1]), ([0.3, 0.3, 0.3], [0, 1, 1]), ([0.5], [0])],
    ids=["separable", "one class", "one score", "one response"],
)
def test_both_calibrators_are_finite_where_there_is_little_to_learn(scores, correct):
    for kind in (Platt, Isotonic):
        found = kind.fit(np.array(scores), np.array(correct, dtype=bool))
        confidences = found.apply(np.array([*scores, -5.0, 5.0, np.nan]))
        assert ((confidences[:-1] >= 0) & (confidences[:-1] <= 1)).all()
        assert np.isnan(confidences[-1])
        assert json.loads(found.model_dump_json()) == found.model_dump(mode="json"), "no infinite parameters"


def test_isotonic_regression_is_that_of_scikit_learn_and_never_falls():
    draw = np.random.default_rng(1)
    scores = draw.integers(0, 20, 300) / 20
    correct = draw.random(300) < scores**2
    probes = np.linspace(-0.5, 1.5, 101)  # also beyond its scores
    oracle = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, correct)
    np.testing.assert_allclose(Isotonic.fit(scores, correct).apply(probes), oracle.predict(probes), atol=1e-12)
    scores, correct = np.array([0.1, 0.2, 0.4, 0.5, 0.7, 0.9]), np.array([1, 1, 1, 0, 1, 0], dtype=bool)
    np.testing.assert_allclose(Isotonic.fit(scores, correct).apply(scores), np.full(6, 4 / 6))
    assert Platt.fit(scores, correct).slope < 0, "Platt scaling may fall"


# The linear probe


def test_the_linear_probe_finds_what_the_states_say():
    draw = np.random.default_rng(2)
    states = (draw.normal(size=(600, 5)) * [1, 10, 0.1, 1, 0] + [0, 50, 0, 0, 3]).astype(np.float32)
    correct = draw.random(600) < 1 / (1 + np.exp(-(states[:, 1] - 50) / 4))
    given = [LabelledStates(states[rows], correct[rows], correct[rows] / 2) for rows in (slice(400), slice(400, 500))]
    probe = learn("binary", *given)
    told = probe.apply(states[500:])
    assert told[correct[500:]].mean() - told[~correct[500:]].mean() > 0.3
    assert probe.weights[1] == pytest.approx(0.25, rel=0.4)


def test_the_penalty_is_chosen_on_held_out_rows(done, rollouts):
    """Held-out labels that agree with the freest probe choose it, their opposites the strictest one; training labels
    would choose neither."""
    features = open_features(done.run.folder / "features.zarr")
    training, held_out = (np.flatnonzero(rollouts["part"] == part) for part in ("training", "held out"))
    states, correct = final_features(done.run), rollouts["correct"].to_numpy()
    probes = [penalised(one, states[training], correct[training].astype(float)) for one in PENALTIES]
    errors = [np.mean((one.apply(states[training]) - correct[training]) ** 2) for one in probes]
    assert min(PENALTIES) < PENALTIES[int(np.argmin(errors))] < max(PENALTIES)
    freest = probes[-1].apply(states[held_out]) > 0.5
    for labels, penalty in ((freest, min(PENALTIES)), (~freest, max(PENALTIES))):
        changed = correct.copy()
        changed[held_out] = labels
        probe = learn_scores(["linear-binary"], rollouts.assign(correct=changed), features)["linear-binary"]
        assert probe == probes[PENALTIES.index(penalty)]


def test_the_group_target_weighs_both_outcomes():
    states = np.array([[0.0], [0.0], [1.0], [1.0]], dtype=np.float32)
    correct, accuracy = np.array([True, False, True, True]), np.array([0.5, 0.5, 0.75, 0.75])
    probe = penalised(1e-6, states, np.array([0.5, 0, 0.75, 0.75]))
    np.testing.assert_allclose(probe.apply(states), [0.25, 0.25, 0.75, 0.75], atol=0.01)
    nothing = np.zeros(4, dtype=bool)
    constant = learn("binary", *[LabelledStates(states, nothing, accuracy)] * 2)
    np.testing.assert_allclose(constant.apply(states), 1 / 6)
    fitted = learn("group", *[LabelledStates(states, correct, accuracy)] * 2)
    assert fitted == penalised(min(PENALTIES), states, np.array([0.5, 0, 0.75, 0.75]))


# What fits may learn from


def test_the_parts_are_those_of_the_companions(done, rollouts):
    complete = ~rollouts["truncated"].to_numpy()
    np.testing.assert_array_equal(rollouts["part"] == "truncated", ~complete)
    np.testing.assert_array_equal(rollouts["part"] == "held out", done.run.held_out(rollouts) & complete)
    learnt_from = {}
    for basis, folder in (("all", "rollouts"), ("resampled", "resampled")):
        spec = json.loads((done.folder / folder / f"steps-{STEPS}/spec.json").read_text())["spec"]
        learnt_from[basis] = {"training": spec["training_responses"], "held out": spec["validation_responses"]}
    learnt_from["last"] = rollouts.loc[rollouts["step"] > PREVIOUS, "part"].value_counts()
    for fit in read_document(done.folder / "calibrators.json")["fits"]:
        part = "held out" if BASELINES[fit["baseline"]].reads_states else "training"
        assert (fit["part"], fit["responses"]) == (part, learnt_from[fit["basis"]][part]), fit["baseline"]


def test_a_truncated_response_counts_in_its_group_and_in_no_fit(rollouts):
    """Appendix A.1 takes group accuracies over all eight responses; so does the agreement."""
    with Verifier(VerifierSettings()) as judge:
        rollouts = with_classes(rollouts, judge)
    group = rollouts[rollouts["pool"] == rollouts.loc[rollouts["truncated"], "pool"].iloc[0]]
    assert len(group) == GROUP
    right = group[group["answer"] == "1"]
    scores = score("self-consistency-loo", rollouts)
    np.testing.assert_allclose(scores[right.index], (len(right) - 1) / (GROUP - 1))
    flipped = rollouts["correct"].where(~rollouts["truncated"], ~rollouts["correct"])
    given = {Estimator("self-consistency-loo"): scores}
    first, second = ((rollouts.assign(correct=labels), given) for labels in (rollouts["correct"], flipped))
    assert fit_baselines({"all": first}) == fit_baselines({"all": second})


def test_labels_of_held_out_questions_reach_no_fit_of_a_plain_score(rollouts):
    scores = {Estimator("token-probability"): score("token-probability", rollouts)}
    fits = [
        fit_baselines({"all": (rollouts.assign(correct=rollouts["correct"] ^ (rollouts["part"] == part)), scores)})
        for part in ("nothing", "held out", "training")
    ]
    assert fits[0] == fits[1] != fits[2]


@pytest.mark.parametrize("text", ["What is 7 + 7?", "what  is $7 + 7$ ?"], ids=["same text", "other typesetting"])
def test_an_evaluation_question_among_the_training_questions_is_refused(done, text):
    evaluated = questions_of(done.responses)
    evaluated.loc[2, "question"] = text
    said = r"would learn from responses to 1 question\(s\).*'q2' of sums.*`sources: {overlap: exclude}`"
    with pytest.raises(ContractError, match=said):
        experience_of(done, evaluated)


def test_rollouts_without_any_score_leave_the_calibrated_confidence_out(rollouts):
    fits = fit_baselines({"all": (rollouts, {Estimator("rlcr"): np.full(len(rollouts), NAN)})})
    assert fits.fits == ()
    assert np.isnan(fits.apply("rlcr", -1, "platt-all", np.array([0.5]))).all()


# The command


def test_every_confidence_is_that_of_its_name_and_of_a_fit_on_its_part(done):
    """The file was compared with each score and each calibrator, fitted by hand on the part that its baseline leaves
    it: plain scores on the training part, learnt ones on the held-out part, PostCal's on its own responses; all
    rollouts or those of the last stage. `COCAL_RENEW=1 pytest` writes it anew."""
    found = done.predictions().pivot(index=["method", "seed"], columns="response_id", values="confidence")
    if os.environ.get("COCAL_RENEW"):
        found.to_csv(CONFIDENCES, float_format="%.4f")
        pytest.fail(
            f"{CONFIDENCES} is written anew (COCAL_RENEW); read its diff, and run the test without the variable"
        )
    expected = pd.read_csv(CONFIDENCES, index_col=["method", "seed"])
    assert found.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(found, expected, atol=1e-3)
    evaluated = done.responses[done.responses["sample"] < SAMPLES]
    assert evaluated["truncated"].any(), "truncated responses stay in evaluation"
    assert found.columns.tolist() == evaluated["response_id"].tolist()


def with_baseline(done, folder, monkeypatch, module, **declared):
    """What the command predicts with a baseline of a module's text beside CoCal: its confidences by method, and its
    calibrators."""
    name = next(declared[way] for way in ("score", "learn") if way in declared).partition(":")[0]
    (folder / f"{name}.py").write_text(module)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(BASELINES, "late", Baseline(name="late", position=95, **declared))
    files = [f"--output={folder / 'out.parquet'}", f"--output-calibrators={folder / 'fits.json'}"]
    assert main([*done.command(baselines=["cocal-binary", "late"]), *files]) == 0
    found = read_frame(folder / "out.parquet", PREDICTIONS).set_index("response_id")
    fits = [one for one in read_document(folder / "fits.json")["fits"] if one["baseline"] == "late"]
    return {method: of_method["confidence"] for method, of_method in found.groupby("method")}, fits


def test_a_score_of_states_is_given_the_columns_that_it_declares(done, tmp_path, monkeypatch):
    """Of its training in the order of the steps, and of what it scores, response by response; also those that hold a
    value for each token."""
    learner = """
class Scored:
    def __init__(self, steps):
        self.steps = steps
    def apply(self, states, table):
        assert len(states) == len(table)
        return 1 / (self.steps + table["length"] - table["logprobs"].map(min)).to_numpy()
def learn(target, training, validation):
    assert [*training.table] == ["step", "length", "logprobs"] and len(training.table) == len(training.correct)
    assert training.table["step"].is_monotonic_increasing
    assert training.table["logprobs"].map(len).equals(training.table["length"])
    return Scored(training.table["step"].nunique())
"""
    declared = {"method": "cocal-binary", "learn": "late_rollouts:learn", "columns": ("step", "length", "logprobs")}
    found, _ = with_baseline(done, tmp_path, monkeypatch, learner, **declared)
    responses = done.responses.set_index("response_id").loc[found["late"].index]
    assert responses["length"].nunique() > 2
    least = responses["logprobs"].map(min)
    np.testing.assert_allclose(found["late"], 1 / (STEPS + responses["length"] - least))


def test_a_score_of_states_is_given_the_blocks_that_it_declares(done, tmp_path, monkeypatch):
    """The means of the last block and of the first, in this order."""
    learner = """
import numpy as np
class Scored:
    def __init__(self, shift):
        self.shift = shift
    def apply(self, states):
        return 1 / (1 + np.exp(self.shift - states @ np.arange(states.shape[1])))
def learn(target, training, validation):
    return Scored(training.states[:, 0].mean() + 3 * validation.states[:, -1].mean())
"""
    declared = {"method": "cocal-binary", "learn": "two_blocks:learn", "blocks": (-1, 0), "poolings": ("mean",)}
    found, _ = with_baseline(done, tmp_path, monkeypatch, learner, **declared)

    def declared_of(stored):
        return np.concatenate([stored[:, 2, 1], stored[:, 0, 1]], axis=1)

    part = experience_of(done)["part"]
    learnt = declared_of(done.run.features)
    shift = learnt[part == "training", 0].mean() + 3 * learnt[part == "held out", -1].mean()
    evaluated = open_features(done.folder / "states/sums.zarr")
    states = declared_of(np.stack([evaluated.read(0, len(evaluated), k).reshape(-1, 2, HIDDEN) for k in LAYERS], 1))
    expected = pd.Series(1 / (1 + np.exp(shift - states @ np.arange(2 * HIDDEN))), evaluated.response_id)
    np.testing.assert_allclose(found["late"], expected[found["late"].index], rtol=1e-5)


def test_a_score_of_all_tokens_is_recalibrated_on_all_steps(done, tmp_path, monkeypatch):
    module = """
def score(table, settings):
    assert [*table] == ["logprobs", "pool"]
    return table["logprobs"].map(lambda values: float(values[0] > -0.3)).to_numpy()
"""
    declared = {"method": "cocal-binary", "score": "first_tokens:score", "columns": ("logprobs",)}
    found, fits = with_baseline(done, tmp_path, monkeypatch, module, **declared)
    responses = done.responses.set_index("response_id").loc[found["late"].index]
    sure = responses["logprobs"].map(lambda values: values[0] > -0.3)
    np.testing.assert_array_equal(found["late"], sure.astype(float))
    assert 0 < sure.sum() < len(sure)
    table = experience_of(done)
    table["sure"] = [values[0] > -0.3 for values in done.run.responses["logprobs"]]
    table = table[table["part"] == "training"]
    assert [(one["basis"], one["responses"]) for one in fits] == [
        ("all", len(table)),
        ("last", (table["step"] > PREVIOUS).sum()),
    ]
    shares = table.groupby("sure")["correct"].mean()
    assert shares[True] > shares[False], "isotonic regression gives the shares themselves"
    np.testing.assert_allclose(found["late+isotonic-all"], sure.map(shares))


def test_without_a_last_stage_and_postcal_there_are_no_fits_on_them(done, tmp_path):
    words = [
        word for word in done.command(baselines=["token-probability", "length"]) if not word.startswith("--previous")
    ]
    assert main([*words, f"--output={tmp_path / 'out.parquet'}", f"--output-calibrators={tmp_path / 'fits.json'}"]) == 0
    assert read_document(tmp_path / "fits.json")["bases"] == ["all"]


def test_both_files_name_their_sources_and_are_the_same_bytes_again(done):
    files = [done.folder / "out.parquet", done.folder / "calibrators.json"]
    first = [file.read_bytes() for file in files]
    assert main(done.command()) == 0
    assert [file.read_bytes() for file in files] == first
    parents = json.loads(read_provenance(files[1])[PARENTS])
    names = {"sums.parquet", "answer/sums.parquet", "states/sums.zarr", "run/questions.parquet"}
    names |= {f"{run}/{file}" for run in ("run", "postcal") for file in ("rollouts", "features.zarr")}
    assert set(parents) == names | {f"{kind}/steps-{STEPS}" for kind in ("rollouts", "one-layer", "resampled")}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--baselines", "luck"], "there is no 'luck'"),
        (["--baselines", "token-probability"], "--companions: these baselines need one folder of each of no kind"),
        (["--companions", "rollouts=x"], "need one folder of each of one-layer, rollouts"),
        (["--pool", "4"], "self-consistency needs a pool of 4"),
        (["--previous-stage", "3"], "--previous-stage 3: must lie before the step 3"),
    ],
)
def test_what_does_not_fit_together_is_refused(done, capsys, flags, message):
    assert main(done.command(*flags)) == 2
    assert message in capsys.readouterr().err


def test_a_baseline_that_learns_needs_the_states_of_rollouts(done, capsys):
    assert main([word for word in done.command() if not word.startswith("--rollout-features")]) == 2
    assert "--rollout-features: linear-group learns" in capsys.readouterr().err
