"""Rivals that learn from the same rollouts: their scores, calibrators and probes, and what these may learn from."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from cocal.answers.equivalence import Verifier
from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.companion.supervision import question_texts, read_rollouts
from cocal.config.evaluation import EstimatorSettings, VerifierSettings
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.methods.companion_scores import score_rows
from cocal.methods.length import inverse_length
from cocal.methods.recalibration.calibrators import Isotonic, Platt
from cocal.methods.recalibration.confidences import fit_linear, states_of
from cocal.methods.recalibration.experience import parts_of, read_experience, refuse_evaluated, with_classes
from cocal.methods.recalibration.fits import Responses, Scored, fit_rivals, read_fits
from cocal.methods.recalibration.linear import PENALTIES, LinearProbe
from cocal.methods.recalibration.scores import SCORES, score
from cocal.methods.self_consistency import leave_one_out, self_consistency
from cocal.methods.semantic_entropy import semantic_certainty
from cocal.methods.token_probability import least_token_probability
from cocal.store import read_frame
from cocal.store.attributes import read_provenance
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import PARENTS
from cocal.study.rivals import CALIBRATIONS, RIVALS, named
from companion_run import GROUP, SETTINGS, STEPS, final_features
from evaluated_study import SAMPLES
from recalibrated_study import OF_GRPO, questions_of, small_study


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The small study after `cocal recalibrate`."""
    study = small_study(tmp_path_factory.mktemp("recalibrated")).write()
    assert main(study.command()) == 0
    return study


# Scores


def test_leave_one_out_counts_the_others_alone():
    classes, pools = [0, 0, 0, 1, -1, 0, 2], ["a"] * 5 + ["b"] * 2
    np.testing.assert_array_equal(leave_one_out(classes, pools), [2 / 4, 2 / 4, 2 / 4, 0, np.nan, 0, 0])
    np.testing.assert_array_equal(self_consistency(classes, pools)[:4], [3 / 5, 3 / 5, 3 / 5, 1 / 5])
    assert np.isnan(leave_one_out([0], ["a"])).all()


def test_semantic_entropy_is_that_of_the_classes():
    classes = [0, 0, 1, 2, 0, 0, 0, 0, 0, 1, -1, -1]
    pools = np.repeat(["mixed", "agreed", "apart"], 4)
    entropy = -(0.5 * np.log(0.5) + 2 * 0.25 * np.log(0.25))
    expected = np.repeat([1 - entropy / np.log(4), 1, 0], 4)
    np.testing.assert_allclose(semantic_certainty(classes, pools), expected, atol=1e-12)
    assert np.isnan(semantic_certainty([0], ["a"])).all()


def test_the_least_probable_token_and_the_shortest_response():
    logprobs = [np.log(np.array(p, dtype=np.float32)) for p in ([0.5, 0.125, 0.9], [1.0])]
    np.testing.assert_allclose(least_token_probability(logprobs), [0.125, 1.0], rtol=1e-6)
    assert (np.diff(inverse_length(np.arange(1, 20_000))) < 0).all(), "lengths of the paper's responses never tie"


@pytest.mark.parametrize(("missing", "expected"), [("zero", [1.0, 1.0, 0.0]), ("invalid", [1.0, 1.0, np.nan])])
def test_a_response_without_an_answer_is_scored_as_the_study_says(missing, expected):
    table = pd.DataFrame({"answer_class": [0, 0, -1], "pool": [1, 1, 1]})
    settings = EstimatorSettings(missing_answer=missing)
    found = score("self-consistency-loo", table, settings)
    np.testing.assert_array_equal(found, np.array(expected) * [0.5, 0.5, 1])


def test_every_rival_has_a_score():
    assert set(SCORES) == {name for name, rival in RIVALS.items() if rival.reader is None}


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
        assert np.isfinite(confidences[:-1]).all()
        assert ((confidences[:-1] >= 0) & (confidences[:-1] <= 1)).all()
        assert np.isnan(confidences[-1])
        assert json.loads(found.model_dump_json()) == found.model_dump(mode="json"), "no infinite parameters"


def test_isotonic_regression_is_that_of_scikit_learn_also_beyond_its_scores():
    draw = np.random.default_rng(1)
    scores = draw.integers(0, 20, 300) / 20
    correct = draw.random(300) < scores**2
    probes = np.linspace(-0.5, 1.5, 101)
    oracle = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, correct)
    np.testing.assert_allclose(Isotonic.fit(scores, correct).apply(probes), oracle.predict(probes), atol=1e-12)
    assert (np.diff(Isotonic.fit(scores, correct).apply(probes)) >= 0).all()


def test_an_isotonic_fit_never_falls():
    """Where higher scores are wrong more often, the best map that does not fall is flat."""
    scores, correct = np.array([0.1, 0.2, 0.4, 0.5, 0.7, 0.9]), np.array([1, 1, 1, 0, 1, 0], dtype=bool)
    np.testing.assert_allclose(Isotonic.fit(scores, correct).apply(scores), np.full(6, 4 / 6))
    rising = np.array([0, 1, 1, 0, 1, 0], dtype=bool)
    np.testing.assert_allclose(Isotonic.fit(scores, rising).apply(scores), [0, *[3 / 5] * 5])
    assert Platt.fit(scores, correct).slope < 0, "Platt scaling may fall"


# The linear probe


def test_the_linear_probe_finds_what_the_states_say_and_keeps_the_best_penalty():
    draw = np.random.default_rng(2)
    states = draw.normal(size=(600, 5)).astype(np.float32) * [1, 10, 0.1, 1, 0] + [0, 50, 0, 0, 3]
    states = states.astype(np.float32)
    correct = draw.random(600) < 1 / (1 + np.exp(-(states[:, 1] - 50) / 4))
    training, validation = slice(0, 400), slice(400, 500)
    given = (states[training], correct[training], correct[training].astype(float))
    probe = LinearProbe.fit("binary", given, (states[validation], correct[validation]))
    errors = [
        np.mean(
            (LinearProbe._of("binary", one, *_labelled(given)).apply(states[validation]) - correct[validation]) ** 2
        )
        for one in PENALTIES
    ]
    assert probe.penalty == PENALTIES[int(np.argmin(errors))]
    told = probe.apply(states[500:])
    assert told[correct[500:]].mean() - told[~correct[500:]].mean() > 0.3
    assert probe.weights[1] == pytest.approx(0.25, rel=0.4)


def test_the_penalty_is_chosen_on_held_out_rows(done):
    """Held-out labels that agree with the freest probe choose it, their opposites the strictest one; training labels
    would choose neither."""
    rollouts, features = _experience(done), open_features(done.run.folder / "features.zarr")
    training, held_out = (np.flatnonzero(rollouts["part"] == part) for part in ("training", "held out"))
    states, correct = final_features(done.run), rollouts["correct"].to_numpy()
    probes = [LinearProbe._of("binary", one, states[training], correct[training].astype(float)) for one in PENALTIES]
    errors = [np.mean((one.apply(states[training]) - correct[training]) ** 2) for one in probes]
    assert min(PENALTIES) < PENALTIES[int(np.argmin(errors))] < max(PENALTIES)
    freest = probes[-1].apply(states[held_out]) > 0.5
    for labels, penalty in ((freest, min(PENALTIES)), (~freest, max(PENALTIES))):
        changed = correct.copy()
        changed[held_out] = labels
        (probe,) = fit_linear(["linear-binary"], rollouts.assign(correct=changed), features)
        assert probe.penalty == penalty
        assert probe == probes[PENALTIES.index(penalty)]


def _labelled(given):
    return given[0], given[1].astype(float)


def test_the_group_target_weighs_both_outcomes():
    states = np.array([[0.0], [0.0], [1.0], [1.0]], dtype=np.float32)
    correct, accuracy = np.array([True, False, True, True]), np.array([0.5, 0.5, 0.75, 0.75])
    probe = LinearProbe._of("group", 1e-6, states, np.array([0.5, 0, 0.75, 0.75]))
    np.testing.assert_allclose(probe.apply(states), [0.25, 0.25, 0.75, 0.75], atol=0.01)
    fitted = LinearProbe.fit("group", (states, correct, accuracy), (states, correct))
    assert fitted.penalty == min(PENALTIES)
    assert fitted == LinearProbe._of("group", fitted.penalty, states, np.array([0.5, 0, 0.75, 0.75]))


def test_a_probe_of_one_class_is_constant():
    states = np.ones((3, 2), dtype=np.float32)
    nothing = np.zeros(3, dtype=bool)
    probe = LinearProbe.fit("binary", (states, nothing, nothing.astype(float)), (states, nothing))
    np.testing.assert_allclose(probe.apply(states), 1 / 5)


# What fits may learn from


def _experience(study, evaluated=None):
    evaluated = questions_of(study.responses) if evaluated is None else evaluated
    place = study.run.folder
    return read_experience(place / "rollouts", place / "questions.parquet", STEPS, SETTINGS, evaluated)


def test_the_parts_are_those_of_the_companions(done):
    rollouts = _experience(done)
    held_out = done.run.held_out(rollouts)
    assert (rollouts["part"] == "truncated").equals(rollouts["truncated"])
    complete = ~rollouts["truncated"].to_numpy()
    np.testing.assert_array_equal(rollouts["part"] == "held out", held_out & complete)
    fits = read_fits(done.folder / "calibrators.json")
    spec = json.loads((done.folder / f"rollouts/steps-{STEPS}/spec.json").read_text())["spec"]
    assert fits.parts["training"].responses == spec["training_responses"]
    assert fits.parts["held out"].responses == spec["validation_responses"]
    for fit in fits.fits:
        learnt = fit.rival.startswith(("cocal", "one-layer", "linear"))
        assert fit.part == ("held out" if learnt else "training"), fit.rival
        assert fit.responses == fits.parts[fit.part].responses


def test_a_truncated_response_counts_in_its_group_and_in_no_fit(done):
    """Appendix A.1 takes group accuracies over all eight responses; so does the agreement."""
    with Verifier(VerifierSettings()) as judge:
        rollouts = with_classes(_experience(done), judge)
    group = rollouts[rollouts["pool"] == rollouts.loc[rollouts["truncated"], "pool"].iloc[0]]
    assert len(group) == GROUP
    right = group[group["answer"] == "1"]
    scores = score("self-consistency-loo", rollouts, EstimatorSettings())
    np.testing.assert_allclose(scores[right.index], (len(right) - 1) / (GROUP - 1))
    flipped = rollouts["correct"].where(~rollouts["truncated"], ~rollouts["correct"])
    given = {Scored("self-consistency-loo"): scores}
    assert fit_rivals(rollouts, given) == fit_rivals(rollouts.assign(correct=flipped), given)


def test_labels_of_held_out_questions_reach_no_fit_of_a_plain_score(done):
    rollouts = _experience(done)
    scores = {Scored("token-probability"): score("token-probability", rollouts, EstimatorSettings())}
    held_out = rollouts["part"] == "held out"
    changed = rollouts.assign(correct=rollouts["correct"] ^ held_out)
    assert fit_rivals(rollouts, scores) == fit_rivals(changed, scores)
    seen = rollouts.assign(correct=rollouts["correct"] ^ (rollouts["part"] == "training"))
    assert fit_rivals(rollouts, scores) != fit_rivals(seen, scores)


@pytest.mark.parametrize("text", ["What is 7 + 7?", "what  is $7 + 7$ ?"], ids=["same text", "other typesetting"])
def test_a_planted_evaluation_question_is_refused(done, tmp_path, capsys, text):
    """Question 7 of the training set becomes an evaluation question as well."""
    evaluated = questions_of(done.responses)
    evaluated.loc[2, "question"] = text
    with pytest.raises(ContractError, match=r"would learn from responses to 1 question\(s\).*'q2' of sums"):
        _experience(done, evaluated)
    leaking = small_study(tmp_path)
    leaking.run.questions.loc[7, "question"] = "How much is q2?"
    leaking.write()
    assert main(leaking.command()) == 2
    assert "sources: {overlap: exclude}" in capsys.readouterr().err
    assert not (leaking.folder / "out.parquet").exists()
    assert not (leaking.folder / "calibrators.json").exists()


def test_rollouts_without_any_score_leave_the_calibrated_confidence_out(tmp_path):
    study = small_study(tmp_path)
    study.run.responses["confidence"] = np.nan
    rollouts = study.write() and _experience(study)
    fits = fit_rivals(rollouts, {Scored("rlcr"): rollouts["confidence"].to_numpy()})
    assert fits.fits == ()
    assert fits.calibrator(Scored("rlcr"), "platt") is None


# The command


def test_the_command_scores_every_rival_in_three_ways(done):
    table = done.predictions()
    assert set(table["method"]) == {named(rival, how) for rival in OF_GRPO for how in CALIBRATIONS}
    seeds = table.groupby("method")["seed"].unique()
    for method, found in seeds.items():
        seeded = RIVALS[method.partition("+")[0]].reader in ("rollouts", "one-layer")
        assert set(found) == ({*SETTINGS.seeds} if seeded else {-1}), method
    assert table["valid"].all()
    truncated = done.responses[(done.responses["sample"] < SAMPLES) & done.responses["truncated"]]
    assert set(truncated["response_id"]) <= set(table["response_id"]), "truncated responses stay in evaluation"


def test_confidences_are_the_scores_and_what_the_calibrators_make_of_them(done):
    table, fits = done.predictions(), read_fits(done.folder / "calibrators.json")
    evaluated = done.responses[done.responses["sample"] < SAMPLES]
    by_method = {key: rows["confidence"].to_numpy() for key, rows in table.groupby(["method", "seed"])}
    raw = by_method["token-probability", -1]
    np.testing.assert_array_equal(raw, np.exp(evaluated["mean_logprob"]))
    for calibration in ("platt", "isotonic"):
        calibrator = fits.calibrator(Scored("token-probability"), calibration)
        np.testing.assert_array_equal(by_method[f"token-probability+{calibration}", -1], calibrator.apply(raw))
    rollouts = done.run.read()
    rows = np.flatnonzero(_experience(done)["part"] == "held out")
    probe = next(one for one in fits.linear if one.target == "binary")
    scores = probe.apply(final_features(done.run)[rows])
    expected = Platt.fit(scores, rollouts["correct"].to_numpy()[rows])
    fitted = fits.calibrator(Scored("linear-binary"), "platt")
    assert (fitted.slope, fitted.intercept) == pytest.approx((expected.slope, expected.intercept), rel=1e-6)


def test_every_score_is_that_of_its_name(done):
    table, fits = done.predictions(), read_fits(done.folder / "calibrators.json")
    evaluated = done.responses[done.responses["sample"] < SAMPLES]
    raw = {key: rows["confidence"].to_numpy() for key, rows in table.groupby(["method", "seed"])}
    np.testing.assert_allclose(raw["length", -1], 1 / evaluated["length"])
    np.testing.assert_allclose(raw["least-token-probability", -1], [np.exp(one.min()) for one in evaluated["logprobs"]])
    reader, rows = open_features(done.folder / "states/sums.zarr"), np.arange(len(evaluated))
    for name, folder in (("cocal", "rollouts"), ("one-layer", "one-layer")):
        companions = load_companions(done.folder / folder / f"steps-{STEPS}")
        (scores,) = score_rows([companions], reader, rows)
        for (target, seed), values in zip(companions.members, scores, strict=True):
            np.testing.assert_allclose(raw[f"{name}-{target}", seed], values, atol=1e-6)
    rollouts, states = _experience(done), final_features(done.run)
    training, held_out = (rollouts["part"] == part for part in ("training", "held out"))
    correct, accuracy = (rollouts[name].to_numpy() for name in ("correct", "group_accuracy"))
    for probe in fits.linear:
        np.testing.assert_allclose(raw[f"linear-{probe.target}", -1], probe.apply(states_of(reader, rows)))
        learnt = states[training], correct[training], accuracy[training]
        expected = LinearProbe.fit(probe.target, learnt, (states[held_out], correct[held_out]))
        assert probe.penalty == expected.penalty
        np.testing.assert_allclose(probe.apply(states), expected.apply(states), rtol=1e-5)


def test_both_files_name_their_sources_and_are_the_same_bytes_again(done):
    files = [done.folder / "out.parquet", done.folder / "calibrators.json"]
    first = [file.read_bytes() for file in files]
    assert main(done.command()) == 0
    assert [file.read_bytes() for file in files] == first
    parents = json.loads(read_provenance(files[1])[PARENTS])
    assert {"out.parquet", "calibrators.json"}.isdisjoint(parents)
    names = {"sums.parquet", "rollouts", "questions.parquet", "sums.zarr", "features.zarr", f"steps-{STEPS}"}
    assert {place.rpartition("/")[2] for place in parents} == names


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rivals", "luck"], "there is no 'luck'"),
        (["--companions", "rollouts=x"], "need one folder of each of one-layer, rollouts"),
        (["--split", SETTINGS.model_copy(update={"split_seed": 1}).model_dump_json()], "split_seed 42"),
        (["--pool", "4"], "self-consistency needs a pool of 4"),
    ],
)
def test_what_does_not_fit_together_is_refused(done, capsys, flags, message):
    assert main(done.command(*flags)) == 2
    assert message in capsys.readouterr().err


def test_states_without_a_rival_that_reads_them_are_refused(done, capsys):
    words = done.command("--features", str(done.folder / "states"), rivals=["token-probability"])
    assert main(words) == 2
    assert "belong to rivals that read states" in capsys.readouterr().err


# Functions that tests above and the checks share


def test_parts_and_digests_are_recomputed_alike(done):
    place = done.run.folder
    rollouts = read_rollouts(place / "rollouts", place / "questions.parquet", STEPS)
    parts = parts_of(rollouts, question_texts(place / "questions.parquet"), SETTINGS)
    fits = read_fits(done.folder / "calibrators.json")
    assert Responses.of(rollouts[parts == "training"]) == fits.parts["training"]
    refuse_evaluated(rollouts["question"], read_frame(done.folder / "sums.parquet", QUESTIONS), place)
    assert len(open_features(place / "features.zarr")) == len(rollouts)
