"""Companions and their protocol: targets, order, truncation, selection."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cocal.companion import plain
from cocal.companion.companions import build_model
from cocal.companion.fit import _Best, fit_companions
from cocal.companion.spec import companion_members
from cocal.companion.supervision import groups_of, prompts_of
from cocal.companion.targets import confidence_targets
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader, open_features
from cocal.study.prefix import Prefix
from companion_run import HIDDEN, PER_STEP, SETTINGS, Run, final_features, small_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that is not written yet."""
    return small_run(tmp_path)


def partition(run: Run, rollouts: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows by the protocol's words."""
    held_out = run.held_out(rollouts)
    complete = ~rollouts["truncated"].to_numpy()
    return np.flatnonzero(complete & ~held_out), np.flatnonzero(complete & held_out)


def plain_fit(
    run: Run, target: str, seed: int, shuffle_seed: int | None = None
) -> tuple[np.ndarray, list[float], list[float]]:
    """One companion in plain PyTorch: confidences of the best pass, train losses, validation errors."""
    rollouts = run.read()
    inputs = torch.from_numpy(final_features(run))
    correct = torch.from_numpy(rollouts["correct"].to_numpy().astype(np.float32))
    group = torch.from_numpy(rollouts["group_accuracy"].to_numpy().astype(np.float32))
    wanted = correct if target == "binary" else correct * group
    kept = torch.from_numpy(~rollouts["truncated"].to_numpy())
    torch.manual_seed(seed)
    model = plain.mlp(inputs.shape[1], SETTINGS.widths, SETTINGS.dropout)
    losses, errors = plain.fit(
        model,
        inputs[kept],
        wanted[kept],
        correct[kept],
        torch.from_numpy(run.held_out(rollouts))[kept],
        learning_rate=SETTINGS.learning_rate,
        batch_size=SETTINGS.batch_size,
        passes=SETTINGS.passes,
        shuffling=None if shuffle_seed is None else np.random.default_rng(shuffle_seed),
    )
    with torch.inference_mode():
        return model.eval()(inputs).numpy(), losses, errors


def test_targets_are_correctness_or_group_accuracy_of_correct_responses():
    correct, group = np.array([True, False, True, False]), np.array([0.75, 0.75, 0.125, 0.0])
    binary, fine = confidence_targets("binary", correct, group), confidence_targets("group", correct, group)
    assert (binary.dtype, fine.dtype) == (np.float32, np.float32)
    assert binary.tolist() == [1, 0, 1, 0]
    assert fine.tolist() == [0.75, 0, 0.125, 0]


def test_the_same_text_under_two_ids_lies_on_one_side(run: Run):
    run.questions["question"] = [f"What is {k // 2} plus {k // 2}?" for k in range(45)]
    rollouts = run.write().read()
    rows = partition(run, rollouts)
    training, validation = (set(rollouts["question"].iloc[chosen]) for chosen in rows)
    assert training
    assert validation
    assert not training & validation
    assert run.fit()[0].spec.validation_responses == len(rows[1])


def test_an_empty_partition_is_refused(run: Run):
    run.questions["question"] = "What is 1 + 1?"
    run.write()
    with pytest.raises(ContractError, match=r"no response is left for training on steps 1 to 3: .* 1 questions"):
        run.fit()


@pytest.mark.parametrize("member", range(4))
def test_a_stacked_member_equals_plain_pytorch(run: Run, member: int):
    companions, history = run.write().fit()
    target, seed = companions.members[member]
    confidence, losses, errors = plain_fit(run, target, seed)
    mine = history[(history["target"] == target) & (history["seed"] == seed)]
    np.testing.assert_allclose(mine["train_loss"], losses, atol=1e-5)
    np.testing.assert_allclose(mine["validation_mse"], errors, atol=1e-5)
    assert companions.spec.best_pass[member] == 1 + int(np.argmin(errors))
    np.testing.assert_allclose(companions.predict(final_features(run))[member], confidence, atol=1e-4)


def test_postcal_sees_a_new_order_in_every_pass(run: Run):
    """Appendix B.2: the resampled responses are shuffled; the generator of the seed draws an order for each pass."""
    companions, history = run.write().fit(order="shuffled", shuffle_seed=5)
    target, seed = companions.members[-1]
    _, losses, errors = plain_fit(run, target, seed, shuffle_seed=5)
    mine = history[(history["target"] == target) & (history["seed"] == seed)]
    np.testing.assert_allclose(mine["train_loss"], losses, atol=1e-5)
    np.testing.assert_allclose(mine["validation_mse"], errors, atol=1e-5)


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


def test_members_do_not_depend_on_those_beside_them(run: Run):
    companions, _ = run.write().fit()
    together = companions.predict(final_features(run))
    for member, (target, seed) in enumerate(companions.members):
        alone, _ = run.fit(settings=SETTINGS.model_copy(update={"targets": (target,), "seeds": (seed,)}))
        assert alone.members == [(target, seed)]
        np.testing.assert_allclose(alone.predict(final_features(run))[0], together[member], atol=1e-4)
    assert len(np.unique(together.round(6), axis=0)) == 6


def test_truncated_responses_do_not_influence_training_or_selection(run: Run):
    truncated = run.responses["truncated"].to_numpy()
    held_out = run.held_out(run.write().read())
    assert (truncated & held_out).any()
    assert (truncated & ~held_out).any()
    companions, history = run.fit()
    poisoned = Run(run.folder / "poisoned", run.responses, run.questions, run.features.copy())
    poisoned.features[truncated] = 1e6
    again, again_history = poisoned.write().fit()
    pd.testing.assert_frame_equal(history, again_history)
    for name, weight in companions.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    complete = run.responses[~truncated].index
    poisoned.features[complete[0]] = 1e6
    control = Run(run.folder / "control", run.responses, run.questions, poisoned.features).write()
    assert not control.fit()[1].equals(history)


def test_predictions_keep_truncated_responses(run: Run):
    companions, _ = run.write().fit()
    confidence = companions.predict(final_features(run))
    assert confidence.shape == (6, len(run.responses))
    assert confidence.dtype == np.float64
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_group_targets_keep_the_truncated_siblings(run: Run):
    """Dropping truncated rows from the table (a user's dump) changes neither targets nor result."""
    _, history = run.write().fit()
    kept = ~run.responses["truncated"].to_numpy()
    thinned = Run(run.folder / "thinned", run.responses[kept].reset_index(drop=True), run.questions, run.features[kept])
    _, again = thinned.write().fit()
    pd.testing.assert_frame_equal(history, again)


def test_all_targets_are_selected_by_their_error_against_correctness(run: Run):
    companions, history = run.write().fit()
    rollouts = run.read()
    _, validation = partition(run, rollouts)
    correct = rollouts["correct"].to_numpy()[validation]
    confidence = companions.predict(final_features(run)[validation])
    for member, (target, seed) in enumerate(companions.members):
        mine = history[(history["target"] == target) & (history["seed"] == seed)].set_index("pass")
        assert companions.spec.best_pass[member] == mine["validation_mse"].idxmin()
        error = np.mean((confidence[member] - correct) ** 2)
        np.testing.assert_allclose(error, mine["validation_mse"].min(), rtol=1e-5)


def test_the_best_pass_can_differ_from_the_last_and_between_members(run: Run):
    overfit = SETTINGS.model_copy(update={"passes": 25, "learning_rate": 0.03})
    companions, history = run.write().fit(settings=overfit)
    assert history["pass"].max() == 25
    assert min(companions.spec.best_pass) < 25
    assert len(set(companions.spec.best_pass)) > 1
    by_member = history.set_index("pass").groupby(["target", "seed"])
    lowest, in_training = (by_member[name].idxmin() for name in ("validation_mse", "train_loss"))
    assert list(companions.spec.best_pass) == [lowest[member] for member in companions.members]
    assert (lowest != in_training).any()


def test_shuffling_needs_a_seed_and_changes_the_result(run: Run):
    _, chronological = run.write().fit()
    _, shuffled = run.fit(order="shuffled", shuffle_seed=1)
    _, again = run.fit(order="shuffled", shuffle_seed=1)
    _, other = run.fit(order="shuffled", shuffle_seed=2)
    pd.testing.assert_frame_equal(shuffled, again)
    assert not shuffled.equals(chronological)
    assert not shuffled.equals(other)
    with pytest.raises(ConfigError, match="seed"):
        run.fit(order="shuffled")
    with pytest.raises(ConfigError, match="seed"):
        run.fit(shuffle_seed=1)


def test_rows_out_of_chronological_order_are_refused(run: Run):
    backwards = run.write().read().iloc[::-1].reset_index(drop=True)
    fits = fit_companions(
        SETTINGS, open_features(run.folder / "features.zarr"), backwards, run.questions["question"], [Prefix(3, 3)]
    )
    with pytest.raises(ContractError, match="chronological"):
        next(fits)


@pytest.mark.parametrize("order", ["chronological", "shuffled"])
def test_reading_in_slices_gives_the_result_of_reading_at_once(run: Run, order: str):
    seed = 1 if order == "shuffled" else None
    _, at_once = run.write().fit(order=order, shuffle_seed=seed)
    _, sliced = run.fit(order=order, shuffle_seed=seed, memory=1)
    pd.testing.assert_frame_equal(at_once, sliced)


def test_a_prefix_ignores_later_steps(run: Run):
    _, history = run.write().fit(steps=2)
    later = Run(run.folder / "later", run.responses, run.questions, run.features.copy())
    later.features[2 * PER_STEP :] *= -10
    _, again = later.write().fit(steps=2)
    pd.testing.assert_frame_equal(history, again)
    assert not run.fit(steps=3)[1].equals(history)


@pytest.mark.parametrize("order", ["chronological", "shuffled"])
def test_prefixes_together_equal_prefixes_alone(run: Run, order: str):
    """The features of all prefixes in memory, those of the first alone, or none."""
    seed = 1 if order == "shuffled" else None
    words = ["1", "1/3", "2", "2/3", "3"]
    run.write()
    alone = [run.fit(steps=steps, order=order, shuffle_seed=seed) for steps in words]
    for memory in (2**31, 256 * 12 * 4, 1):
        together = run.fits(words, order=order, shuffle_seed=seed, memory=memory)
        for steps, (companions, history), (one, its_history) in zip(words, together, alone, strict=True):
            assert companions.spec == one.spec
            assert str(companions.spec.prefix) == steps
            pd.testing.assert_frame_equal(history, its_history)
            for name, weight in companions.model.state_dict().items():
                assert torch.equal(weight, one.model.state_dict()[name]), (memory, name)


def test_a_budget_is_trained_on_its_steps_and_selected_on_all(run: Run):
    """Appendix E.1: each budget uses a fixed, question-disjoint validation pool."""
    (own, own_history), (fixed, history) = run.write().fits(["1", "1/3"], settings=SETTINGS)
    rollouts = run.read()
    training, validation = partition(run, rollouts)
    assert fixed.spec.prefix == Prefix(1, 3)
    assert fixed.spec.training_responses == own.spec.training_responses == (training < PER_STEP).sum()
    assert fixed.spec.validation_responses == len(validation) > own.spec.validation_responses
    pd.testing.assert_series_equal(history["train_loss"], own_history["train_loss"])  # selection does not train
    confidence = fixed.predict(final_features(run)[validation])
    correct = rollouts["correct"].to_numpy()[validation]
    for member, (target, seed) in enumerate(fixed.members):
        mine = history[(history["target"] == target) & (history["seed"] == seed)].set_index("pass")["validation_mse"]
        assert fixed.spec.best_pass[member] == mine.idxmin()
        np.testing.assert_allclose(np.mean((confidence[member] - correct) ** 2), mine.min(), rtol=1e-5)


def test_later_steps_of_a_fixed_pool_do_not_leak_into_training(run: Run):
    _, history = run.write().fit("2/3")
    held_out, last = run.held_out(run.read()), np.arange(len(run.responses)) >= 2 * PER_STEP

    def fit_with(name: str, rows: np.ndarray, value: float) -> pd.DataFrame:
        features = np.where(rows[:, None, None, None], np.float32(value), run.features)
        return Run(run.folder / name, run.responses, run.questions, features).write().fit("2/3")[1]

    pd.testing.assert_frame_equal(fit_with("training", last & ~held_out, 1e6), history)
    again = fit_with("validation", last & held_out, 3.0)
    pd.testing.assert_series_equal(again["train_loss"], history["train_loss"])
    assert not again["validation_mse"].equals(history["validation_mse"])


def test_prefixes_are_written_as_they_are_read():
    for word, prefix, folder in (
        ("40", Prefix(40, 40), "steps-40"),
        ("5/120", Prefix(5, 120), "steps-5-validation-120"),
    ):
        assert Prefix.parse(word) == prefix
        assert str(prefix) == word
        assert prefix.folder == folder
    assert Prefix.parse("7/7") == Prefix(7, 7)
    for wrong in ("0", "-1", "5/0", "5/", "/5", "a", "5/6/7", "", "1.5"):
        with pytest.raises(ConfigError, match="is not N or N/M"):
            Prefix.parse(wrong)


def test_features_that_fit_are_read_once_for_all_prefixes(run: Run, monkeypatch):
    read = []
    take = FeatureReader.take
    monkeypatch.setattr(FeatureReader, "take", lambda self, rows, *given: read.append(rows) or take(self, rows, *given))
    list(run.write().fits(["1", "1/3", "2", "3"]))
    assert [rows.tolist() for rows in read] == [rows.tolist() for rows in partition(run, run.read())]


def test_early_steps_without_validation_questions_keep_the_last_pass(run: Run, caplog):
    first, side = np.arange(45) < 20, run.held_out(run.questions)  # questions of step 1
    run.questions.loc[first & side, "question"] = run.questions["question"].to_numpy()[~side][0]
    (short, history), _ = run.write().fits([1, 3])
    assert "no response is left for validation on steps 1 to 1: 160 rollouts of" in caplog.text
    assert short.spec.validation_responses == 0
    assert set(short.spec.best_pass) == {SETTINGS.passes}
    assert history["validation_mse"].isna().all()


def test_rollouts_without_validation_responses_are_refused_before_anything_is_fitted(run: Run):
    held_out = run.questions.loc[run.held_out(run.questions), "question_id"]
    cut = run.responses["question_id"].isin(held_out)
    run.responses.loc[cut, ["truncated", "finish_reason"]] = True, "length"
    run.write()
    with pytest.raises(ContractError, match=r"no response is left for validation on steps 1 to 3: 480 rollouts of"):
        next(run.fits([1, 3]))


def test_the_error_share_is_that_of_the_training_responses(run: Run):
    spec = run.write().fit(steps=2)[0].spec
    rollouts = run.read(steps=2)
    training, _ = partition(run, rollouts)
    assert spec.training_error_share == pytest.approx(1 - rollouts["correct"].to_numpy()[training].mean())
    assert spec.training_error_share < 1 - rollouts["correct"].mean()  # truncated responses are wrong


def test_layer_and_poolings_are_chosen(run: Run):
    companions, _ = run.write().fit()
    assert companions.spec.layer == 5, "the deepest one"
    companions, _ = run.fit(layer=0, poolings=("mean",))
    assert (companions.spec.layer, companions.spec.poolings, companions.spec.inputs) == (0, ("mean",), HIDDEN)
    run.features[:, 1:] *= -1
    run.features[:, :, 0] *= -1
    other, _ = (
        Run(run.folder / "other", run.responses, run.questions, run.features).write().fit(layer=0, poolings=("mean",))
    )
    assert torch.equal(companions.model.output.weight, other.model.output.weight)


def test_a_diverging_member_is_an_error(run: Run):
    run.write()
    with pytest.raises(ContractError, match=r"companion \(group, seed 42\): .* never finite"):
        run.fit(settings=SETTINGS.model_copy(update={"dropout": (1.0,), "learning_rate": 1e38}))


def test_before_generation_the_label_is_the_accuracy_of_the_whole_group(run: Run):
    """Appendix F.4: one row a question asked. Planted: first responses that are truncated, or not the group's mean."""
    rollouts = run.write().read()
    prompts, groups = prompts_of(rollouts), rollouts.groupby(groups_of(rollouts))
    first = groups.first()
    assert first["truncated"].any()
    assert (first["correct"] != groups["correct"].mean()).any()
    np.testing.assert_allclose(prompts["correct"], groups["correct"].mean())
    assert not prompts["truncated"].any()
