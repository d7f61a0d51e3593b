"""Prefixes of responses: their states and weights, what the card says of growing responses, and their trajectories."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError
from cocal.features.extract import token_inputs
from cocal.features.forward import score
from cocal.features.store import open_features
from cocal.fitting import prefixes, recipes
from cocal.fitting.prefixes import Rows, drawn, quality_of_parts
from cocal.fitting.recipes import TrainingSet, _Mlp, choose, folds_of
from cocal.runtime.progress import Progress
from golden import assert_golden
from own_rollouts import read_lines, run

EVERY, STRIDE = 3, 4
"""Tokens between the prefixes that are learnt from, and between the confidences of a trajectory."""


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, own, mine):
    """Companions of prefixes with their states, by what they read beside states."""
    folder = tmp_path_factory.mktemp("grown")
    words = ("--model", own.checkpoint, "--rollouts", mine, "--seeds", 42, 137, "--passes", 3, "--prefixes", EVERY)
    for beside in ("nothing", "token-probability"):
        flags = ("--keep-states", "--states", "float32", "--with", beside, "--output", folder / beside)
        assert run("fit", *words, *flags) == 0
    return folder


@pytest.fixture
def companion(fitted):
    return fitted / "nothing"


def test_token_inputs_of_prefixes_are_those_of_their_tokens():
    logprobs = np.log([0.9, 0.2, 0.4])
    expected = [[0.55, np.log(0.9 * 0.2) / 2, np.log(0.2)], [0.5, np.log(0.9 * 0.2 * 0.4) / 3, np.log(0.2)]]
    np.testing.assert_allclose(token_inputs(logprobs, np.array([2, 3])), expected, rtol=1e-6)


def test_prefixes_end_before_the_response_and_are_spread_over_long_ones(monkeypatch):
    lengths = [3, 4, 6, 7, 25, *[1001] * 400]
    found = drawn(lengths, 3, 16)
    assert [one.tolist() for one in found[:5]] == [[], [3], [3], [3, 6], [3, 6, 9, 12, 15, 18, 21, 24]]
    long = np.array(found[5:])
    assert long.shape == (400, prefixes.MOST)
    assert (long % 3 == 0).all()
    assert (np.diff(long) > 0).all()
    counts, _ = np.histogram(long, bins=20, range=(0, 1000))
    assert counts.min() > 0.9 * counts.mean()
    monkeypatch.setattr(prefixes, "MEMORY", 2.5 * 4 * len(lengths) * 2 * 16)  # room for two and a half of each
    assert {len(one) for one in drawn(lengths, 3, 16)} == {0, 1, 2}
    monkeypatch.setattr(prefixes, "MEMORY", 1)
    assert {len(one) for one in drawn(lengths, 3, 16)} == {0, 1}


def test_a_long_response_weighs_as_a_short_one_and_neighbours_are_mixed():
    lengths = np.array([3, 40, 7, 13] * 200)
    each = Rows.of(lengths, drawn(lengths, 3, 16))
    whole = each.prefix == 0
    np.testing.assert_array_equal(np.sort(each.response[whole]), np.arange(800))
    np.testing.assert_allclose(np.bincount(each.response[~whole], each.share[~whole]), [0, 1, 1, 1] * 200, atol=1e-6)
    assert (each.share[whole] == 1).all()
    np.testing.assert_allclose(np.bincount(each.response, each.weight), 1, atol=1e-6)
    np.testing.assert_allclose(each.weight[whole & (each.response % 4 == 1)], 0.5, atol=1e-6)
    assert (np.diff(each.response // 256) >= 0).all()  # the order of the training, but for neighbours
    batch = each.response[:256]
    assert len(np.unique(batch)) > 100
    np.testing.assert_array_equal(each.by_response(each.tokens), lengths)
    alone = Rows.of(lengths, None)
    np.testing.assert_array_equal(alone.response, np.arange(800))
    assert (alone.weight == 1).all()


def test_a_row_of_a_share_counts_as_so_much_of_a_row():
    """A probe on rows of which some are doubled, with half a share each, is scikit-learn's logistic regression on the
    rows, at the penalty that was chosen and on inputs as they are given."""
    draw = np.random.default_rng(4)
    questions = np.repeat([f"q {k}" for k in range(60)], 6)
    inputs = draw.normal(size=(360, 5)).astype(np.float32)
    target = (inputs[:, 0] + draw.normal(size=360) > 0.4).astype(np.float32)
    inputs = 20 + inputs * np.linspace(0.5, 40, 5, dtype=np.float32)
    copies = np.where(draw.random(360) < 0.5, 2, 1)
    rows = np.repeat(np.arange(360), copies)
    share = (1 / copies[rows]).astype(np.float32)
    weight = share.astype(np.float64) / share.sum()
    given = inputs[rows], target[rows], share, weight, folds_of(questions[rows], 1), np.ones(5, np.float32), (5,)
    data = TrainingSet(*given)
    standard = (inputs[rows] - inputs[rows].mean(axis=0)) / inputs[rows].std(axis=0)
    found = choose(data, CompanionSettings(targets=("binary",), seeds=(7,), passes=1))
    assert found.settings.widths == ()
    strength = 1 / float(found.tried[0].name.rpartition(" ")[2])
    expected = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(standard, target[rows], share)
    confidence = found.model(torch.from_numpy(inputs[rows]))[0].detach().numpy()
    np.testing.assert_allclose(confidence, expected.predict_proba(standard)[:, 1], atol=2e-3)


def test_a_row_of_a_share_counts_as_so_much_of_a_row_in_an_mlp():
    """In one batch and without dropout, members that learn from such rows are those that learn from the rows."""
    draw = np.random.default_rng(5)
    inputs = draw.normal(size=(240, 4)).astype(np.float32)
    target = (inputs[:, 0] > draw.normal(size=240)).astype(np.float32)
    fold, copies = np.arange(240) % 5, np.where(target == 1, 3, 1)  # without shares, most would be right
    settings = CompanionSettings(targets=("binary",), widths=(8,), dropout=(0.0,), batch_size=1000, passes=12)
    found = []
    for rows in (np.arange(240), np.repeat(np.arange(240), copies)):
        share = (1 / np.bincount(rows)[rows]).astype(np.float32)
        given = inputs[rows], target[rows], share, share / 240.0, fold[rows], np.ones(4, np.float32), (4,)
        left_out = [*((k, (k + 1) % 5) for k in range(5)), *((k,) for k in range(5)), ()]
        kind = _Mlp(TrainingSet(*given), left_out, 4, settings, Progress("", 1))
        first = np.unique(rows, return_index=True)[1]
        found.append((kind.singles[:, first], kind.overall[: len(kind.singles)]))
    np.testing.assert_allclose(found[1][0], found[0][0], atol=1e-4)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-5)
    assert np.ptp(found[0][0][-1]) > 0.05


def test_prefixes_are_learnt_with_label_and_question_of_the_whole_response(own, mine, micro_policy, monkeypatch):
    """And weigh together as much as it, however long it is; where recipes are compared, both are half of it."""
    sets, real = [], recipes.choose
    monkeypatch.setattr(recipes, "choose", lambda one, *how: sets.append(one) or real(one, *how))
    settings = CompanionSettings(targets=("binary",), seeds=(42,), widths=(4,), dropout=(0.0,), passes=1)
    Companion.fit(*micro_policy, mine, recipe="best", truncated="leave-out", prefixes=EVERY, settings=settings)
    rows, (data,) = own.rollouts, sets
    each = Rows.of(rows["length"], drawn(rows["length"], EVERY, 32))
    whole, correct, cut = each.prefix == 0, rows["correct"].to_numpy(), rows["truncated"].to_numpy()
    np.testing.assert_array_equal(data.target, correct[each.response])
    assert 0 < data.target[~whole].mean() < 1
    questions = rows["question_id"].map(own.texts)
    np.testing.assert_array_equal(data.fold, folds_of(questions, settings.split_seed)[each.response])
    has = np.bincount(each.response) > 1
    assert np.ptp(np.bincount(each.response)) > 2
    learnt = np.bincount(each.response[~whole], data.loss_weight[~whole], len(rows))
    np.testing.assert_allclose(learnt, has & ~cut, atol=1e-6)
    np.testing.assert_array_equal(data.loss_weight[whole], ~cut[each.response[whole]])
    weight = ~cut / (~cut).sum()
    np.testing.assert_allclose(np.bincount(each.response, data.score_weight), weight, atol=1e-9)
    alone = np.where(has, 0.5, 1)[each.response[whole]]
    np.testing.assert_allclose(data.score_weight[whole], (weight[each.response[whole]] * alone), atol=1e-9)


def test_each_part_has_the_last_prefix_of_each_response_there():
    """The file was compared with the scores of those prefixes by hand."""
    length = np.array([8, 8, 20, 4])
    correct = np.array([True, False, True, False])
    lengths = [np.array([2, 4, 6]), np.array([2, 4, 6]), np.array([2, 6, 10, 18]), np.array([2])]
    each = Rows.of(length, lengths)
    confidence = (each.response * 0.2 + each.tokens / 100).round(6)
    tokens = np.full((4, 5, 3), -1.0, dtype=np.float32)
    tokens[:, 0, 0] = 0.5
    tokens[:, 1:, 0] = np.arange(4)[:, None] / 10  # of prefixes, the later responses have more
    rows = pd.DataFrame({"length": length, "correct": correct})
    found = pd.DataFrame(one.model_dump() for one in quality_of_parts(each, rows, confidence, tokens.reshape(4, 15), 2))
    lines = found.to_csv(index=False, float_format="%.6g").splitlines()
    assert_golden(Path(__file__).with_name("trajectory.txt"), lines)


def test_a_companion_says_that_it_has_learnt_from_prefixes_and_how_good_it_is_there(companion, own):
    config = Companion.from_pretrained(companion).config
    assert config.prefixes == EVERY
    lengths = own.rollouts["length"].to_numpy()
    parts = {one.name: one for one in config.trajectory}
    assert parts["whole response"].responses == len(lengths)
    shown = {one.metric: one.value for one in config.held_out_all_steps.metrics}
    assert parts["whole response"].auroc == pytest.approx(shown["auroc"])
    assert parts["3 to 5 tokens"].responses == (lengths > EVERY).sum()
    card = config.card()
    assert "### While a response grows, of all steps" in card
    assert f"after every {EVERY} tokens" in card
    assert all(re.search(rf"\| {name} +\| {one.responses:,} +\| ", card) for name, one in parts.items())


def test_what_is_learnt_are_the_states_of_wholes_and_prefixes(companion, own):
    """The kept states are those that shorter responses have, and what standardises the inputs is theirs."""
    (kept,) = (companion / "states").glob("*.zarr")
    store, rows = open_features(kept), own.rollouts
    grown = drawn(rows["length"], EVERY, store.hidden)
    each = Rows.of(rows["length"], grown)
    inputs = each.inputs(store, 1, None)
    policy = own.policy
    chosen = np.flatnonzero(each.prefix > 0)[::7]
    shorter = [rows["response_ids"].iloc[each.response[k]][: each.tokens[k]] for k in chosen]
    prompts = [rows["prompt_ids"].iloc[each.response[k]] for k in chosen]
    options = {"layers": (1,), "pad": policy.pad}
    batches = [np.array([k]) for k in range(len(chosen))]
    expected = score(policy.model, prompts, shorter, batches, **options).features.reshape(len(chosen), -1)
    np.testing.assert_allclose(inputs[chosen], expected, rtol=2**-7, atol=1e-4)
    weights = Companion.from_pretrained(companion).companions.model.state_dict()
    width = inputs.shape[1]  # behind the states, the recipe may have chosen token probabilities
    np.testing.assert_allclose(weights["input_mean"][:width], inputs.mean(axis=0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", [None, 42])
@pytest.mark.parametrize("beside", ["nothing", "token-probability"])
def test_a_trajectory_has_the_confidences_of_shorter_responses(own, fitted, micro_policy, seed, beside):
    """In one call, and in that of each, whatever the batches."""
    loaded, rows = Companion.from_pretrained(fitted / beside), own.rollouts
    assert (loaded.config.prefixes, loaded.config.token_probability) == (EVERY, beside != "nothing")
    prompts, responses = rows["prompt_ids"].tolist(), rows["response_ids"].tolist()
    responses[4] = responses[4][:2]  # which has no trajectory
    seed = seed if seed in loaded.config.spec.settings.seeds else None
    whole, trajectories = loaded.score(*micro_policy, prompts, responses, seed=seed, every=STRIDE, batch_tokens=300)
    np.testing.assert_array_equal(whole, loaded.score(*micro_policy, prompts, responses, seed=seed, batch_tokens=300))
    shorter = [(k, n) for k, one in enumerate(responses) for n in range(STRIDE, len(one), STRIDE)]
    given = [prompts[k] for k, _ in shorter], [responses[k][:n] for k, n in shorter]
    alone = loaded.score(*micro_policy, *given, seed=seed)
    np.testing.assert_allclose(np.concatenate(trajectories), alone, atol=1e-5)
    assert [len(one) for one in trajectories] == [(len(one) - 1) // STRIDE for one in responses]
    assert np.ptp(alone) > 0.02


def test_the_command_writes_the_trajectory_beside_the_confidence(own, companion, mine, tmp_path, micro_policy):
    words = ("score", "--companion", companion, "--model", own.checkpoint, mine)
    assert run(*words, tmp_path / "plain.jsonl") == 0
    assert run(*words, tmp_path / "trajectory.jsonl", "--every", STRIDE, "--name", "sure") == 0
    rows = own.rollouts
    given = rows["prompt_ids"].tolist(), rows["response_ids"].tolist()
    _, trajectories = Companion.from_pretrained(companion).score(*micro_policy, *given, every=STRIDE)
    plain, found = read_lines(tmp_path / "plain.jsonl"), read_lines(tmp_path / "trajectory.jsonl")
    for before, line, length, values in zip(plain, found, rows["length"], trajectories, strict=True):
        trajectory = line.pop("sure_trajectory")
        assert (trajectory["every"], trajectory["tokens"]) == (STRIDE, length)
        np.testing.assert_allclose(trajectory["values"], values, atol=1e-5)
        assert line.pop("sure") == before.pop("confidence")
        for name in ("learnt", "by", "response"):
            assert line.pop(f"sure_{name}") == before.pop(f"confidence_{name}")
        assert line == before


def test_a_companion_of_whole_responses_has_no_trajectory(own, companion, mine, tmp_path, capsys, micro_policy):
    words = ("score", "--model", own.checkpoint, mine, tmp_path / "out.jsonl", "--every", STRIDE)
    assert run(*words, "--companion", own.companion) == 2
    assert "fit one that has learnt from prefixes, too (cocal fit --prefixes 16)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="whole responses alone"):
        Companion.from_pretrained(own.companion).score(*micro_policy, ["1"], ["2"], every=STRIDE)
    assert not (tmp_path / "out.jsonl").exists()
