"""Fits and their protocol: order, split, truncation, selection, prefixes; and `cocal companions`."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import started
from cocal.cli import main
from cocal.companion import plain
from cocal.companion.companions import Companions, build_model, load_companions
from cocal.companion.fit import _Best, fit_companions
from cocal.companion.spec import Prefix, companion_members, read_spec
from cocal.errors import ConfigError, ContractError
from cocal.features.store import open_features
from cocal_study.planning.costs import Cost, device_name, read_cost
from companion_run import HIDDEN, PER_STEP, SETTINGS, Run, final_features, small_run

QUICK = SETTINGS.model_copy(update={"passes": 2})
SHUFFLED = {"order": "shuffled", "shuffle_seed": 1}
ORDERS = pytest.mark.parametrize("order", [{}, SHUFFLED], ids=["chronological", "shuffled"])


@pytest.fixture
def other(tmp_path: Path) -> Run:
    """The same run, not written yet, for tests that change it."""
    return small_run(tmp_path)


def partition(run: Run, rollouts: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows by the protocol's words."""
    held_out, complete = run.held_out(rollouts), ~rollouts["truncated"].to_numpy()
    return np.flatnonzero(complete & ~held_out), np.flatnonzero(complete & held_out)


def of_member(history: pd.DataFrame, companions: Companions, member: int) -> pd.DataFrame:
    target, seed = companions.members[member]
    return history[(history["target"] == target) & (history["seed"] == seed)].set_index("pass")


def same_weights(one: Companions, other: Companions) -> bool:
    others = other.model.state_dict()
    return all(torch.equal(weight, others[name]) for name, weight in one.model.state_dict().items())


@pytest.mark.parametrize(
    ("member", "order"), [*((member, {}) for member in range(4)), (5, {"order": "shuffled", "shuffle_seed": 5})]
)
def test_a_stacked_member_equals_the_plain_version(run: Run, member: int, order: dict):
    """CoCal, and PostCal in another order, which its seed draws anew for each pass (appendix B.2)."""
    companions, history = run.fit(**order)
    target, seed = companions.members[member]
    rollouts, states = run.read(), torch.from_numpy(final_features(run))
    kept = torch.from_numpy(~rollouts["truncated"].to_numpy())
    correct, group, held_out = (
        torch.from_numpy(np.asarray(values, dtype=np.float32))
        for values in (rollouts["correct"], rollouts["group_accuracy"], run.held_out(rollouts))
    )
    wanted = correct if target == "binary" else correct * group
    torch.manual_seed(seed)
    model = plain.mlp(states.shape[1], SETTINGS.widths, SETTINGS.dropout)
    errors = plain.fit(
        model,
        *(values[kept] for values in (states, wanted, correct, held_out.bool())),
        learning_rate=SETTINGS.learning_rate,
        batch_size=SETTINGS.batch_size,
        passes=SETTINGS.passes,
        shuffling=np.random.default_rng(order["shuffle_seed"]) if order else None,
    )
    np.testing.assert_allclose(of_member(history, companions, member)["validation_mse"], errors, atol=1e-5)
    assert companions.spec.best_pass[member] == 1 + int(np.argmin(errors))
    with torch.inference_mode():
        expected = model.eval()(states).numpy()
    np.testing.assert_allclose(companions.predict(final_features(run))[member], expected, atol=1e-4)


def test_the_plain_version_says_that_no_pass_is_the_best_where_none_is_finite():
    labels, held_out = torch.tensor([0.0, 1, 1]), torch.tensor([False, False, True])
    given = plain.mlp(2, (4,), ()), torch.full((3, 2), torch.nan), labels, labels, held_out
    with pytest.raises(FloatingPointError, match=r"no pass has a finite validation error: \[nan, nan\]"):
        plain.fit(*given, learning_rate=0.1, batch_size=2, passes=2)


def test_truncated_responses_do_not_influence_training_or_selection(run: Run, fitted, tmp_path: Path):
    truncated, held_out = run.responses["truncated"].to_numpy(), run.held_out(run.read())
    assert {*held_out[truncated]} == {True, False}

    def with_spoilt(rows) -> tuple[Companions, pd.DataFrame]:
        features = run.features.copy()
        features[rows] = 1e6
        return Run(tmp_path / str(len(list(tmp_path.iterdir()))), run.responses, run.questions, features).write().fit()

    again, history = with_spoilt(truncated)
    pd.testing.assert_frame_equal(history, fitted[1])
    assert same_weights(again, fitted[0])
    assert not with_spoilt(np.flatnonzero(~truncated)[:1])[1].equals(history), "a complete response is learnt from"
    kept = ~truncated  # a user's dump without them: targets keep the accuracy of the whole group
    thinned = Run(tmp_path / "thinned", run.responses[kept].reset_index(drop=True), run.questions, run.features[kept])
    pd.testing.assert_frame_equal(thinned.write().fit()[1], fitted[1])
    assert len(again.predict(final_features(run))[0]) == len(run.responses), "they are scored all the same"


def test_all_targets_are_selected_by_their_error_against_correctness(run: Run):
    """Many passes at a high rate, so that the best ones differ from the last, between members, and from training's."""
    companions, history = run.fit(settings=SETTINGS.model_copy(update={"passes": 25, "learning_rate": 0.03}))
    rollouts = run.read()
    _, validation = partition(run, rollouts)
    correct = rollouts["correct"].to_numpy()[validation]
    confidence, best = companions.predict(final_features(run)[validation]), companions.spec.best_pass
    mine = [of_member(history, companions, member) for member in range(6)]
    for member in range(6):
        assert best[member] == mine[member]["validation_mse"].idxmin()
        error = np.mean((confidence[member] - correct) ** 2)
        np.testing.assert_allclose(error, mine[member]["validation_mse"].min(), rtol=1e-5)
    assert min(best) < 25
    assert len({*best}) > 1
    assert any(one["train_loss"].idxmin() != number for one, number in zip(mine, best, strict=True))


def test_of_equally_good_passes_the_first_is_kept():
    model = build_model(SETTINGS, HIDDEN)
    model.initialise()
    first = model.output.bias.detach().clone()
    best = _Best(model)
    best.update(1, torch.full((6,), 0.2, dtype=torch.float64))
    with torch.no_grad():
        model.output.bias += 1
    best.update(2, torch.tensor([0.2, 0.1, 0.3, torch.nan, 0.0, 0.2], dtype=torch.float64))
    assert best.restore(companion_members(SETTINGS)) == (1, 2, 1, 1, 2, 1)
    assert (model.output.bias - first).flatten().round(decimals=5).tolist() == [0, 1, 0, 0, 1, 0]


def test_the_order_is_that_of_the_steps_or_of_a_seed(run: Run, fitted):
    first, again, other = (run.fit(order="shuffled", shuffle_seed=seed)[1] for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(fitted[1])
    assert not first.equals(other)
    for wrong in ({"order": "shuffled"}, {"shuffle_seed": 1}):
        with pytest.raises(ConfigError, match="seed"):
            run.fit(**wrong)
    backwards, features = run.read().iloc[::-1].reset_index(drop=True), open_features(run.folder / "features.zarr")
    with pytest.raises(ContractError, match="chronological"):
        next(fit_companions(SETTINGS, features, backwards, run.questions["question"], [Prefix(3, 3)]))


@ORDERS
def test_a_prefix_ignores_later_steps(run: Run, tmp_path: Path, order: dict):
    _, history = run.fit(steps=2, **order)
    features = run.features.copy()
    features[2 * PER_STEP :] *= -10
    _, again = Run(tmp_path, run.responses, run.questions, features).write().fit(steps=2, **order)
    pd.testing.assert_frame_equal(history, again)
    assert not run.fit(steps=3, **order)[1].equals(history)


@pytest.mark.slow
@ORDERS
def test_neither_memory_nor_other_prefixes_change_a_fit(run: Run, order: dict):
    """The features of all prefixes in memory, those of the first alone, or none, which are then read in slices."""
    words = ["1", "1/3", "2", "2/3", "3"]
    alone = [run.fit(steps, QUICK, **order) for steps in words]
    for memory in (2**31, 256 * 12 * 4, 1):
        together = run.fits(words, QUICK, memory=memory, **order)
        for steps, (companions, history), (one, its_history) in zip(words, together, alone, strict=True):
            assert companions.spec == one.spec
            assert str(companions.spec.prefix) == steps
            pd.testing.assert_frame_equal(history, its_history)
            assert same_weights(companions, one), memory


def test_a_budget_is_trained_on_its_steps_and_selected_on_all(run: Run, tmp_path: Path):
    """Appendix E.1: each budget uses a fixed, question-disjoint validation pool."""
    (own, own_history), (fixed, history) = run.fits(["1", "1/3"])
    training, validation = partition(run, run.read())
    wrong = ~run.responses["correct"].to_numpy()[training[training < PER_STEP]]
    assert fixed.spec.training_error_share == pytest.approx(wrong.mean())
    assert fixed.spec.prefix == Prefix(1, 3)
    assert fixed.spec.training_responses == own.spec.training_responses == (training < PER_STEP).sum()
    assert fixed.spec.validation_responses == len(validation) > own.spec.validation_responses
    pd.testing.assert_series_equal(history["train_loss"], own_history["train_loss"])  # selection does not train
    late = np.arange(len(run.responses)) >= PER_STEP
    for side, trains in ((training, False), (validation, True)):
        features = run.features.copy()
        features[side[late[side]]] = 3.0
        _, found = Run(tmp_path / str(trains), run.responses, run.questions, features).write().fit("1/3")
        pd.testing.assert_series_equal(found["train_loss"], history["train_loss"])
        assert found["validation_mse"].equals(history["validation_mse"]) != trains


def test_early_steps_without_validation_questions_keep_the_last_pass(other: Run, caplog):
    texts, first = other.questions["question"].to_numpy().copy(), np.arange(45) < 20  # questions of step 1
    side = other.held_out(other.questions)
    other.questions.loc[first & side, "question"] = texts[~side][0]
    (short, history), _ = other.write().fits([1, 3])
    assert "no response is left for validation on steps 1 to 1: 160 rollouts of" in caplog.text
    assert short.spec.validation_responses == 0
    assert {*short.spec.best_pass} == {SETTINGS.passes}
    assert history["validation_mse"].isna().all()


def test_steps_with_nothing_to_learn_or_to_choose_by_are_refused_before_anything_is_fitted(other: Run, tmp_path: Path):
    one = small_run(tmp_path / "one question")
    one.questions["question"] = "What is 1 + 1?"
    with pytest.raises(ContractError, match=r"no response is left for training on steps 1 to 3: .* 1 questions"):
        one.write().fit()
    cut = other.responses["question_id"].isin(other.questions.loc[other.held_out(other.questions), "question_id"])
    other.responses.loc[cut, ["truncated", "finish_reason"]] = True, "length"
    with pytest.raises(ContractError, match=r"no response is left for validation on steps 1 to 3: 480 rollouts of"):
        next(other.write().fits([1, 3]))


def test_layer_and_poolings_are_chosen(run: Run, fitted, tmp_path: Path):
    assert fitted[0].spec.layer == 5, "the deepest one"
    companions, _ = run.fit(layer=0, poolings=("mean",))
    assert (companions.spec.layer, companions.spec.poolings, companions.spec.inputs) == (0, ("mean",), HIDDEN)
    features = -run.features
    features[:, 0, 1] *= -1
    found, _ = Run(tmp_path, run.responses, run.questions, features).write().fit(layer=0, poolings=("mean",))
    assert same_weights(companions, found)


def test_a_diverging_member_is_an_error(run: Run):
    with pytest.raises(ContractError, match=r"companion \(group, seed 42\): .* never finite"):
        run.fit(settings=SETTINGS.model_copy(update={"dropout": (1.0,), "learning_rate": 1e38}))


def test_prefixes_are_written_as_they_are_read():
    for word, folder in (("40", "steps-40"), ("5/120", "steps-5-validation-120")):
        prefix = Prefix.parse(word)
        assert (str(prefix), prefix.folder) == (word, folder)
    assert (Prefix.parse("7/7"), Prefix.parse("5/120")) == (Prefix(7, 7), Prefix(5, 120))
    for wrong in ("0", "-1", "5/0", "5/", "/5", "a", "5/6/7", "", "1.5"):
        with pytest.raises(ConfigError, match="is not N or N/M"):
            Prefix.parse(wrong)


@pytest.mark.slow
def test_the_command_writes_the_same_bytes_whatever_the_memory_and_without_transformers(run: Run, tmp_path: Path):
    for output, memory in (("first", 5), ("second", 0)):
        flags = "--settings", QUICK.model_dump_json(), "--steps", "3", "2", "2/3", f"--memory={memory}"
        command = run.command(tmp_path / output, *flags)
        if memory:  # a process of its own, and this one
            code = "import sys; from cocal.cli import main; print(main(sys.argv[1:]), 'transformers' in sys.modules)"
            assert started.python(code, *command).stdout == "0 False\n"
        else:
            assert main(command) == 0
    first, second = (
        {str(file.relative_to(tmp_path / name)): file.read_bytes() for file in (tmp_path / name).rglob("*.*")}
        for name in ("first", "second")
    )
    assert first == second
    names = ["companions.safetensors", "history.csv", "spec.json"]
    prefixes = (Prefix(2, 2), Prefix(2, 3), Prefix(3, 3))
    assert sorted(first) == sorted(f"{prefix.folder}/{name}" for prefix in prefixes for name in names)
    for prefix in prefixes:
        folder = tmp_path / "first" / prefix.folder
        made = json.loads((folder / "spec.json").read_text())["provenance"]
        parents = {Path(place).name for place in json.loads(made["parents"])}
        assert (made["stage"], parents) == ("companions", {"features.zarr", "questions.parquet", "rollouts"})
        loaded, (expected, history) = load_companions(folder), run.fit(str(prefix), QUICK)
        assert loaded.spec == read_spec(folder) == expected.spec
        assert same_weights(loaded, expected)
        pd.testing.assert_frame_equal(pd.read_csv(folder / "history.csv"), history)


def test_the_cost_is_that_of_the_last_fit_alone(run: Run, tmp_path: Path, monkeypatch):
    """The clock is read when a fit begins and ends; between them the files are written."""
    clock = iter([0.0, 10.0, 11.0, 14.0, 20.0])
    monkeypatch.setattr("cocal_study.stages.companions.time", SimpleNamespace(monotonic=lambda: next(clock)))
    cost = tmp_path / "cost.json"
    assert main([*run.command(tmp_path / "output", "--steps", "3", "2"), f"--cost={cost}"]) == 0
    assert read_cost(cost, Cost) == Cost(seconds=3.0, items=6, device=device_name())


def test_the_command_shuffles_by_its_seed_and_takes_the_states_that_are_asked_for(run: Run, tmp_path: Path, caplog):
    shuffled = ["--steps", "3", "--order=shuffled", "--shuffle-seed=7", "--states=0/mean"]
    with caplog.at_level(logging.INFO):
        assert main(run.command(tmp_path / "output", *shuffled)) == 0
    found, states = load_companions(tmp_path / "output/0/mean/steps-3"), {"layer": 0, "poolings": ("mean",)}
    assert same_weights(found, run.fit(steps="3", order="shuffled", shuffle_seed=7, **states)[0])
    assert not same_weights(found, run.fit(steps="3", order="shuffled", shuffle_seed=8, **states)[0])
    assert "100 %, 3 steps: pass 4 of 4, group " in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--steps", "3", "0"], "steps.1: Value error, '0' is not N or N/M"),
        (["--steps", "1/9"], "steps 1 to 9 are needed, found 1 to 3"),
        (["--order=shuffled"], "seed"),
        (["--states=1/last"], "layer 1 is not stored"),
        (["--states=0/first"], "pooling 'first' is not stored"),
        (["--states=last"], "--states: 'last' is not LAYER/POOLINGS"),
    ],
)
def test_the_command_refuses_wrong_flags(run: Run, tmp_path: Path, capsys, flags: list[str], message: str):
    assert main(run.command(tmp_path / "output", *flags)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "output").exists()
