"""The recipe best: what it tries, that no number rests on questions that chose, and what it saves."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError, ContractError
from cocal.features.extract import TOKEN_INPUTS
from cocal.features.forward import score as passes
from cocal.fitting import fit as fitting
from cocal.fitting.baselines import FLAG, GROUP, LENGTH, NUMBERS, TOKENS, agreement, baselines
from cocal.fitting.held_out import LEAST_COMPARED, Metric
from cocal.fitting.quality import quality_of
from cocal.fitting.recipes import TrainingSet, choose, folds_of
from cocal.metrics.bootstrap import generator_for, question_counts
from cocal.metrics.shown import metric_text
from cocal.models.loading import Policy
from cocal.models.text import batches_of_tokens
from full_disk import full_disk
from own_rollouts import run, tables, write_lines

SETTINGS = CompanionSettings(targets=("binary",), seeds=(42, 137), passes=4)
TEXTS = [f"what is {k} plus {k % 7}?" for k in range(90)]


def training_set(noise: float = 1.0, learnt=None, seed: int = 3) -> TrainingSet:
    """Seven responses to each question, some inputs that tell correctness and most that do not."""
    draw = np.random.default_rng(seed)
    questions = draw.permutation(np.repeat(TEXTS, 7))
    target = (draw.random(len(questions)) < 0.35).astype(np.float32)
    inputs = draw.normal(size=(len(questions), 24)).astype(np.float32) * np.linspace(0.5, 40, 24, dtype=np.float32)
    inputs[:, 5] += 20 + noise * target * 12
    weight = np.arange(1, len(target) + 1) / np.arange(1, len(target) + 1).sum()
    used = np.ones(len(target), dtype=bool) if learnt is None else learnt
    return TrainingSet(inputs, target, used, weight, folds_of(questions, 42), np.ones(24, dtype=np.float32), (24,))


def test_folds_hold_whole_questions_and_as_many_of_them():
    questions = [*TEXTS, *(f"  {text.upper()}" for text in TEXTS)]  # but for case and white space
    fold = folds_of(questions, 42)
    np.testing.assert_array_equal(fold[:90], fold[90:])
    assert [*np.bincount(fold[:90])] == [18] * 5
    assert (folds_of(questions, 43) != fold).any()
    with pytest.raises(ContractError, match=r"have 2 questions, .* give rollouts of 3 or more"):
        folds_of(["a", "b", " A"], 42)


def test_what_is_learnt_is_better_than_a_constant_and_what_cannot_be_learnt_is_not_claimed():
    told, untold = (choose(one, SETTINGS).out_of_fold for one in (training_set(2.0), training_set(0.0)))
    target = training_set().target
    assert brier_score_loss(target, told) < 0.8 * target.var()
    assert brier_score_loss(target, untold) > 0.99 * target.var()


def test_a_response_is_measured_without_its_question():
    """Labels of one fold change nothing of its own confidences, and something of those of all other folds."""
    before, changed = training_set(), training_set()
    of_fold = changed.fold == 2
    changed.target[of_fold] = 1 - changed.target[of_fold]
    settings = SETTINGS.model_copy(update={"passes": 14})
    one, other = (choose(given, settings).out_of_fold for given in (before, changed))
    np.testing.assert_array_equal(one[of_fold], other[of_fold])
    assert (one != other)[~of_fold].all()


def test_responses_that_are_left_out_teach_nothing():
    left_out = np.arange(630) % 3 == 1
    one, other = training_set(learnt=~left_out), training_set(learnt=~left_out)
    other.target[left_out] = 1 - other.target[left_out]
    models = [choose(given, SETTINGS).model.state_dict() for given in (one, other)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_the_lowest_brier_score_is_chosen_and_weights_count():
    given = training_set()
    found = choose(given, SETTINGS)
    briers = [one.brier for one in found.tried]
    assert briers == sorted(briers)
    assert len({one.name.split(",")[0] for one in found.tried}) == 3
    light = training_set()
    light.score_weight[:] = 1 / len(light.score_weight)
    assert choose(light, SETTINGS).tried[0].brier != briers[0]


def test_widths_and_seeds_that_are_given_are_taken():
    settings = CompanionSettings(targets=("binary",), widths=(12, 6), dropout=(), seeds=(7, 8, 9), passes=3)
    found = choose(training_set(), settings)
    assert {one.name.split(",")[0] for one in found.tried} == {"linear probe", "MLP of widths 12 / 6"}
    assert found.model.seeds in ((7,), (7, 8, 9))


@pytest.mark.parametrize(("told", "chosen"), [(4.0, 24), (0.0, 21)])
def test_inputs_that_some_recipes_read_are_taken_where_they_help(told, chosen):
    """The last three tell correctness, or hide it behind what tells nothing."""
    given = training_set(1.0)
    draw = np.random.default_rng(8)
    given.inputs[:, 21:] = draw.normal(size=(len(given.target), 3)) + told * given.target[:, None]
    given.emphasis[21:] = 40.0
    raw = given.inputs.copy()
    found = choose(replace(given, reads=(21, 24)), SETTINGS)
    named = [one.name.endswith(", reading token probabilities") for one in found.tried]
    assert sorted(named) == [False] * 3 + [True] * 3
    assert named[0] is (chosen == 24)
    assert found.model.input_mean.shape == found.model.input_scale.shape == (chosen,)
    with torch.inference_mode():
        confidence = found.model(torch.from_numpy(raw[:, :chosen])).mean(dim=0).numpy()
    assert brier_score_loss(given.target, confidence) < 0.9 * given.target.var()
    assert (found.alone is not None) is (chosen == 24)
    if found.alone:
        expected = choose(replace(given, inputs=raw, reads=(21,)), SETTINGS)
        np.testing.assert_array_equal(found.alone.out_of_fold, expected.out_of_fold)
        weights = expected.model.state_dict()
        assert all(torch.equal(one, weights[name]) for name, one in found.alone.model.state_dict().items())


@pytest.fixture(scope="module")
def both(tmp_path_factory, own, mine):
    """Companions of the command, without and with token probabilities."""
    folder = tmp_path_factory.mktemp("recipes")
    for name, more in (("states", ("--with", "nothing")), ("tokens", ("--with", "token-probability"))):
        words = ("--model", own.checkpoint, "--rollouts", mine, "--seeds", 42, "--passes", 3, *more)
        assert run("fit", *words, "--output", folder / name) == 0
    return folder


def test_token_probabilities_are_those_of_whole_logits(both, own, micro_policy):
    """The companion that reads them scores as its members do on states and log-probabilities of the plain pass."""
    loaded = Companion.from_pretrained(both / "tokens")
    assert loaded.config.spec.inputs == loaded.config.states_width + 3
    prompts, responses = own.rollouts["prompt_ids"].tolist(), own.rollouts["response_ids"].tolist()
    policy = Policy(*micro_policy)
    batches = batches_of_tokens([len(p) + len(r) for p, r in zip(prompts, responses, strict=True)], 900)
    layer = {"layers": (loaded.config.spec.layer,), "pad": policy.pad}
    found = passes(policy.model, prompts, responses, batches, logprobs=True, **layer)
    given = [(np.exp(one).mean(), one.mean(), one.min()) for one in found.logprobs]
    inputs = np.concatenate([found.features.reshape(len(prompts), -1), np.array(given, dtype=np.float32)], axis=1)
    confidence = loaded.score(*micro_policy, prompts, responses)
    np.testing.assert_allclose(confidence, loaded.score_states(inputs), atol=0.02)
    inputs[:, -3:] = inputs[::-1, -3:]
    assert np.abs(confidence - loaded.score_states(inputs)).max() > 0.02


def test_a_summary_has_a_companion_beside_all_that_is_known_of_the_same_responses(both):
    tokens, states = (Companion.from_pretrained(both / name).config for name in ("tokens", "states"))
    names = {"mean": "mean_confidence", "ECE": "ece", "AUROC": "auroc", "Brier score": "brier"}
    for stage, shown in zip(("held_out", "held_out_all_steps"), tables(tokens.summary(states)), strict=True):
        given = getattr(tokens, stage)
        ours, others = ({m.metric: m.value for m in one.metrics} for one in (given, getattr(states, stage)))
        assert ours["brier"] != others["brier"]
        beside = {"companion": ours, "states alone": others, **given.others}
        assert {*given.others} == {FLAG, LENGTH, TOKENS, NUMBERS, GROUP}
        for row, values in beside.items():
            assert {head: shown[head][row] for head in names} == {
                head: metric_text(metric, np.nan if values[metric] is None else values[metric])
                for head, metric in names.items()
            }
        constant = metric_text("brier", given.constant)
        assert [shown[head]["constant"] for head in names] == ["", "", "", constant]
    assert "states alone" not in tokens.summary()


def test_the_command_says_what_was_tried_and_what_it_reaches(tmp_path, own, mine, capsys):
    words = ("--model", own.checkpoint, "--rollouts", mine, "--seeds", 42, "--passes", 1, "--widths", 4)
    assert run("fit", *words, "--output", tmp_path / "one") == 0
    said, companion = capsys.readouterr().out, Companion.from_pretrained(tmp_path / "one")
    recipes, *quality = tables(said)
    assert recipes == {
        "recipe": {one.name: one.name for one in companion.config.tried},
        "Brier score by cross-validation": {one.name: f"{one.brier:.4f}" for one in companion.config.tried},
    }
    assert quality == tables(companion.summary())
    assert repr(companion).partition("\n\n")[2] in said


def test_what_is_better_and_a_companion_like_a_constant_are_told(both, caplog):
    config = Companion.from_pretrained(both / "states").config
    metrics = [Metric(metric="brier", value=0.2, lower=0.1, upper=0.24)]
    given = config.held_out_all_steps.model_copy(update={"metrics": metrics})
    ends = {TOKENS: (0.19, -0.02, -0.01), GROUP: (0.21, 0.004, 0.02), LENGTH: (0.198, -0.01, 0.006), FLAG: (None,) * 3}
    others = {name: dict(zip(("brier", "lower", "upper"), values, strict=True)) for name, values in ends.items()}
    told = (
        "* On all of these the companion's Brier score (0.200) is lower than that of agreement of the group (0.210); "
        "not separable from that of length (0.198); higher than that of token probability (0.190)."
    )
    best = "* On all of these the companion's Brier score (0.200) is lower than that of agreement of the group (0.210)."
    alike = (
        "* Not shown to be better than a constant on all of these: more rollouts are needed, or the responses do not "
    )
    alike += "tell their labels."
    for constant, upper, said in ((0.25, 0.24, False), (0.24, 0.24, True), (0.21, None, False), (0.19, None, True)):
        one = given.model_copy(update={"constant": constant, "questions": LEAST_COMPARED})
        one.metrics[0] = metrics[0].model_copy(update={"upper": upper})
        for beside, standing in ((others, [told]), ({GROUP: others[GROUP]}, [best]), ({}, [])):
            held = one.model_copy(update={"others": beside})
            parts = {"held_out": held, "held_out_all_steps": None, "held_out_complete": None}
            assert config.model_copy(update=parts)._judged() == [*standing, *[alike] * said]
            caplog.clear()
            config.model_copy(update=parts).warn_of_constant()
            assert (alike[2:] in caplog.text) == said
    few = config.model_copy(update=parts | {"held_out": held.model_copy(update={"questions": LEAST_COMPARED - 1})})
    assert few._judged()[0] == "* So few questions do not tell which of these is better."
    last = config.model_copy(update={"held_out": one.model_copy(update={"others": others}), "held_out_complete": None})
    assert last._judged()[0] == told.replace("all of these", "the last stage")


def test_which_confidence_is_better_is_told_by_resampled_questions():
    """A second computation: the same draws of whole questions, one at a time."""
    draw = np.random.default_rng(11)
    questions = draw.integers(0, 40, 300)
    correct, own, other = draw.random(300) < 0.6, draw.random(300), draw.random(300)
    found = quality_of(questions, own, correct, {"other": other, "equal": own}).others
    excess = (other - correct) ** 2 - (own - correct) ** 2
    names, place = np.unique(questions.astype(str), return_inverse=True)
    (counts,) = question_counts(len(names), 1000, generator_for(42, "differences"))
    means = [np.average(excess, weights=one[place]) for one in counts]
    ends = np.quantile(means, [0.025, 0.975]) - np.mean(means) + excess.mean()
    assert (found["other"]["lower"], found["other"]["upper"]) == pytest.approx(tuple(ends))
    assert (found["equal"]["lower"], found["equal"]["upper"]) == (0, 0)
    few = quality_of(questions % (LEAST_COMPARED - 1), own, correct, {"other": other}).others
    assert {*few["other"]} == {"mean_confidence", "ece", "auroc", "brier"}


def test_baselines_are_logistic_regressions_out_of_fold():
    """A second computation by scikit-learn; the flag is read beside each, and alone."""
    draw = np.random.default_rng(4)
    correct, fold = draw.random(300) < 0.4, draw.integers(0, 4, 300)
    cut = draw.random(300) < np.where(correct, 0.1, 0.5)
    agreed, length = draw.random(300) + 1.5 * correct, draw.integers(3, 40, 300) + 20 * ~correct
    tokens = draw.random((300, TOKEN_INPUTS)) + correct[:, None] * [0.5, 0.1, 0.9]
    found = baselines(correct, fold, cut, length, tokens, agreed)
    columns = {TOKENS: [tokens[:, 0], cut], GROUP: [agreed, cut], FLAG: [cut], LENGTH: [np.log(length), length, cut]}
    columns[NUMBERS] = [*tokens.T, np.log(length), cut]
    assert {*found} == {*columns}
    for name, some in columns.items():
        for k in range(4):
            numbers, train = np.stack(some, axis=1).astype(float), fold != k
            inputs = (numbers - numbers[train].mean(axis=0)) / numbers[train].std(axis=0)
            expected = LogisticRegression(tol=1e-8).fit(inputs[train], correct[train]).predict_proba(inputs)[:, 1]
            np.testing.assert_allclose(found[name][~train], expected[~train], atol=1e-4)
    assert {*baselines(correct, fold, None, length, tokens[:, :1], None)} == {LENGTH, TOKENS}


def test_agreement_is_the_share_of_the_others_with_the_same_answer():
    answers = ["7", "07", "8", "7", None, "7", "7"]
    assert agreement([1, 1, 1, 1, 1, 2, 1], answers).tolist() == [3 / 5, 3 / 5, 0, 3 / 5, 0, 0, 3 / 5]
    assert agreement([1, 2, 3], answers[:3]) is None
    assert agreement([1, 1], [None, None]) is None


def test_the_metrics_of_the_card_are_those_of_the_out_of_fold_confidences(micro_policy, table):
    """Recomputed from the recipe itself on the states that the fit has read; cut responses have their labels."""
    draw, table = np.random.default_rng(5), table.copy()
    states = draw.normal(size=(len(table), 64)).astype(np.float32)
    states[:, 3] += 2 * table["correct"].to_numpy()
    table.loc[table["truncated"].to_numpy().nonzero()[0][::3], "correct"] = True
    found = Companion.fit(*micro_policy, table, states=states, number_format="float32").config
    correct, weight = table["correct"].to_numpy(), np.full(len(table), 1 / len(table))
    learnt, fold = np.ones(len(table), dtype=bool), folds_of(table["question"], 42)
    given = states.copy(), correct.astype(np.float32), learnt, weight, fold, np.ones(64, dtype=np.float32), (64,)
    expected = choose(TrainingSet(*given), CompanionSettings(targets=("binary",))).out_of_fold
    shown = {one.metric: one.value for one in found.held_out_all_steps.metrics}
    assert shown["brier"] == pytest.approx(brier_score_loss(correct, expected), abs=1e-6)
    assert shown["auroc"] == pytest.approx(roc_auc_score(correct, expected), abs=1e-6)


def test_cut_responses_keep_their_labels_or_count_as_wrong_or_are_left_out(micro_policy, table):
    """One column is learnt and measured; what is left out is measured by the verifier's labels, too."""
    table, cut = table.copy(), table["truncated"].to_numpy()
    table.loc[np.flatnonzero(cut)[::3], "correct"] = True
    correct = table["correct"].to_numpy()
    shares = {"as-labelled": correct, "wrong": correct & ~cut, "leave-out": correct[~cut]}
    settings = CompanionSettings(targets=("binary",), widths=(8,), dropout=(), passes=2, seeds=(42,))
    for name, labels in shares.items():
        for recipe in ("best", "paper"):
            config = Companion.fit(*micro_policy, table, recipe=recipe, truncated=name, settings=settings).config
            assert config.spec.training_responses + config.spec.validation_responses == len(labels)
            if recipe == "best":
                measured = correct & ~cut if name == "wrong" else correct
                assert config.spec.training_error_share == pytest.approx(1 - labels.mean())
                shown = {one.metric: one.value for one in config.held_out_all_steps.metrics}
                assert shown["accuracy"] == pytest.approx(measured.mean())
    assert len({labels.mean() for labels in shares.values()}) == 3
    assert Companion.fit(*micro_policy, table, recipe="best", settings=settings).config.truncated == "as-labelled"


def test_wishes_that_do_not_go_together_are_refused(micro_policy, own, mine):
    states = np.zeros((len(own.rollouts), 64), dtype=np.float32)
    for options, words in (
        ({"token_probability": True, "states": states}, "where the states are read by `cocal fit`"),
        ({"recipe": "best", "settings": CompanionSettings()}, "recipe best learns correctness"),
        ({"recipe": "paper", "token_probability": True}, "inputs of the recipe best"),
        ({"prefixes": 3, "states": states}, "where the states are read by `cocal fit`"),
        ({"recipe": "paper", "prefixes": 3}, "and --prefixes, or take --recipe best"),
    ):
        with pytest.raises(ConfigError, match=words):
            Companion.fit(*micro_policy, mine, **options)


def test_a_fit_tries_token_probabilities_unless_it_is_told(tmp_path, own, mine):
    words = ("fit", "--model", own.checkpoint, "--rollouts", mine, "--seeds", 42, "--passes", 1, "--output")
    for name, flags, count in (("default", (), 6), ("with", ("--with", "token-probability"), 3)):
        assert run(*words, tmp_path / name, *flags) == 0
        config = Companion.from_pretrained(tmp_path / name).config
        assert len(config.tried) == count
        reads = name == "with" or config.tried[0].name.endswith("reading token probabilities")
        assert config.token_probability is reads
        assert config.spec.inputs == config.states_width + 3 * reads == 64 + 3 * reads


def test_one_of_states_alone_lies_beside_it(both, tmp_path):
    states, tokens = (Companion.from_pretrained(both / name) for name in ("states", "tokens"))
    assert tokens.alone is None
    Companion(tokens.companions, tokens.config, (states.companions, states.config)).save_pretrained(tmp_path)
    found = Companion.from_pretrained(tmp_path)
    assert (found.identity(), found.alone.identity()) == (tokens.identity(), states.identity())
    assert Companion.from_pretrained(tmp_path / "states-alone").identity() == states.identity()
    for folder in (tmp_path, tmp_path / "new"):
        with full_disk(2000), pytest.raises((OSError, SafetensorError)):
            states.save_pretrained(folder)
    assert Companion.from_pretrained(tmp_path).alone.identity() == states.identity()
    assert not (tmp_path / "new").exists()
    states.save_pretrained(tmp_path)
    assert not (tmp_path / "states-alone").exists()
    found.save_pretrained(tmp_path)
    (tmp_path / "states-alone/notes.txt").write_text("mine")
    states.save_pretrained(tmp_path)
    assert [file.name for file in (tmp_path / "states-alone").iterdir()] == ["notes.txt"]
    assert Companion.from_pretrained(tmp_path).identity() == states.identity()


def test_kept_states_are_read_once(tmp_path, own, monkeypatch, capsys):
    """A second fit with another recipe passes nothing through the model; one of other inputs passes all."""
    mine = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    seen, real = [], fitting.states_and_tokens
    monkeypatch.setattr(fitting, "states_and_tokens", lambda *given: seen.append(len(given[2])) or real(*given))
    words = ("fit", "--model", own.checkpoint, "--rollouts", mine, "--output", tmp_path / "companion", "--passes", 2)
    assert run(*words, "--keep-states") == 0
    assert sum(seen) == len(own.rollouts)
    assert run(*words, "--widths", 8) == 2
    assert "exists already; replace it by --overwrite" in capsys.readouterr().err
    words += ("--overwrite",)
    assert run(*words, "--widths", 8, "--with", "token-probability") == 0
    assert sum(seen) == len(own.rollouts)
    assert run(*words, "--widths", 8, "--layer", 0) == 0
    assert sum(seen) == 2 * len(own.rollouts)
    (tmp_path / "companion/states/settings.digest").unlink()
    assert run(*words, "--keep-states") == 2
    assert (tmp_path / "companion/states").exists()
