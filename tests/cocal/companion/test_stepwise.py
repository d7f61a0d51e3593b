"""Companions that learn from each rollout step when it is produced, on their own and through `cocal online`."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.stepwise import OnlineCompanions, summary
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.metrics.calibration import evaluate
from cocal.store import read_frame
from cocal_study.policy.online import replayed
from cocal_study.store.contracts import PREQUENTIAL
from companion_run import HIDDEN, PER_STEP, SETTINGS, STEPS

INPUTS = 2 * HIDDEN


@pytest.fixture
def steps(run):
    """Each step of the run: its number, states, labels, and which of its rows are held out."""
    states, found = open_features(run.folder / "features.zarr").read(0, STEPS * PER_STEP), []
    for number, labels in run.read().groupby("step"):
        held_out = run.held_out(labels)
        found.append(SimpleNamespace(number=number, states=states[labels.index], labels=labels, held_out=held_out))
    return found


def learner(settings: CompanionSettings = SETTINGS, **options) -> OnlineCompanions:
    return OnlineCompanions(settings, INPUTS, **options)


def observe(online: OnlineCompanions, step, states=None, **changes) -> pd.DataFrame | None:
    rows = step.labels.assign(**{"held_out": step.held_out} | changes)
    return online.observe(step.states if states is None else states, rows)


def weights(online: OnlineCompanions) -> dict[str, torch.Tensor]:
    return online.companions(0).model.state_dict()


def same(one: OnlineCompanions, other: OnlineCompanions) -> bool:
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_a_step_is_scored_before_it_is_learnt_from(steps):
    """Its labels change no confidence in its own responses, and those of the next step's."""
    as_it_was, flipped = learner(), learner()
    assert observe(as_it_was, steps[0]) is None
    assert observe(flipped, steps[0]) is None
    found = observe(as_it_was, steps[1])
    wrong = ~steps[1].labels["correct"].to_numpy()
    other = observe(flipped, steps[1], correct=wrong, group_accuracy=wrong.astype(float))
    pd.testing.assert_series_equal(found["mean_confidence"], other["mean_confidence"])
    assert not np.allclose(found["auroc"], other["auroc"])
    assert set(found["source_step"]) == {1}
    assert set(found["step"]) == {2}
    changed = observe(as_it_was, steps[2])["mean_confidence"] != observe(flipped, steps[2])["mean_confidence"]
    assert changed.all()


def test_only_questions_asked_for_the_first_time_are_scored(steps):
    """A question that was asked before counts as asked in whatever case and spacing; without a new one there is no
    score, and the repeated ones are learnt from all the same."""
    online, planted = learner(), steps[1].labels["question"].to_numpy().copy()
    planted[8:24] = [f"  {text.upper()}" for text in steps[0].labels["question"][:16]]
    new = ~np.isin(np.arange(PER_STEP), np.arange(8, 24))
    observe(online, steps[0])
    before = online.companions(5)
    found = observe(online, steps[1], question=planted).set_index(["target", "seed"])
    correct = steps[1].labels["correct"].to_numpy()
    for member, confidence in zip(before.members, before.predict(steps[1].states), strict=True):
        expected = evaluate(confidence[new], np.ones(new.sum(), dtype=bool), correct[new])
        assert found.loc[member, list(expected)].to_dict() == pytest.approx(expected, abs=1e-12)
        assert found.loc[member, "responses"] == PER_STEP - 16
    whole = learner()
    observe(whole, steps[0])
    observe(whole, steps[1])
    assert same(online, whole)
    again = observe(online, steps[0])
    assert set(again["responses"]) == {0}
    assert again[["accuracy", "mean_confidence", "ece", "auroc"]].isna().all(axis=None)
    assert summary(again) == "before learning from it: no new question"
    table = again.assign(window=1, kept_bytes=0)
    PREQUENTIAL.check(table, "scores")


@pytest.mark.slow
def test_one_pass_without_a_buffer_is_a_replay_of_one_pass(run, steps):
    """In batches of one, which never cross two steps, the weights are those of the replayed companions."""
    settings = SETTINGS.model_copy(update={"batch_size": 1, "passes": 1})
    online = learner(settings)
    for step in steps[:2]:
        observe(online, step)
    fitted, _ = run.fit(2, settings, layer=5)
    spec = online.companions(5).spec
    for name, tensor in fitted.model.state_dict().items():
        assert torch.equal(weights(online)[name], tensor), name
    same_counts = ("training_responses", "validation_responses", "training_error_share")
    assert [getattr(spec, name) for name in same_counts] == [getattr(fitted.spec, name) for name in same_counts]


def test_truncated_and_validation_responses_are_never_learnt_from(steps):
    labels = steps[0].labels
    left_out = labels["truncated"].to_numpy() | steps[0].held_out
    assert 0 < left_out.sum() < len(labels)
    one, other = learner(), learner()
    observe(one, steps[0])
    observe(other, steps[0], states=np.where(left_out[:, None], np.float32(7), steps[0].states))
    assert same(one, other)
    third = learner()
    observe(third, steps[0], truncated=np.zeros(len(labels), dtype=bool))
    assert not same(one, third)


def test_a_window_learns_from_the_last_steps_again_the_oldest_first(steps):
    """Two steps with a window of two: the first, then the first and the second once more."""
    online = learner(window=2)
    observe(online, steps[0])
    observe(online, steps[1])
    by_hand = learner()
    for step in (steps[0], steps[0], steps[1]):
        observe(by_hand, step)
    assert same(online, by_hand)
    observe(online, steps[2])
    for step in (steps[1], steps[2]):  # the first step has left the window
        observe(by_hand, step)
    assert same(online, by_hand)
    observe(online, steps[1], held_out=np.ones(PER_STEP, dtype=bool))  # nothing to learn from
    observe(by_hand, steps[2])
    assert same(online, by_hand)


def test_what_is_kept_from_one_step_to_the_next(steps):
    learnt = [int((~step.labels["truncated"].to_numpy() & ~step.held_out).sum()) for step in steps]
    most = {1: 0, 2: max(learnt), 3: max(learnt[0] + learnt[1], sum(learnt[1:]))}
    for window, rows in most.items():
        online = learner(window=window, number_format="bfloat16")
        for step in steps:
            observe(online, step)
        assert online.kept_bytes == 2 * INPUTS * rows


def test_states_are_rounded_as_a_feature_store_rounds_them(steps):
    rounded, exact = learner(number_format="bfloat16"), learner()
    observe(rounded, steps[0])
    observe(exact, steps[0], states=torch.from_numpy(steps[0].states).bfloat16().float().numpy())
    assert same(rounded, exact)


def test_a_saved_learner_goes_on_as_if_it_had_never_stopped(steps, tmp_path):
    whole, first, second = (learner(window=2) for _ in range(3))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for step in steps:
        observe(whole, step)
    assert torch.equal(torch.get_rng_state(), before), "no random number of the policy's training is touched"
    for step in steps[:2]:
        observe(first, step)
    first.save(tmp_path / "online.pt")
    second.restore(tmp_path / "online.pt")
    observe(second, steps[2])
    assert same(whole, second)
    pd.testing.assert_frame_equal(second.scores, whole.scores)
    assert second.kept_bytes == whole.kept_bytes
    assert second.companions(5).spec == whole.companions(5).spec


def test_a_damaged_state_is_named(steps, tmp_path):
    path = tmp_path / "online.pt"
    path.write_bytes(b"not a state")
    other = learner(SETTINGS.model_copy(update={"widths": (4,), "dropout": (0.1,)}))
    observe(other, steps[0])
    other.save(tmp_path / "other.pt")
    for file in ("online.pt", "other.pt"):
        with pytest.raises(ContractError, match=rf"{file}: not a readable state of these online companions"):
            learner().restore(tmp_path / file)


def test_states_of_another_width_and_nothing_to_learn_from_are_refused(steps):
    with pytest.raises(ContractError, match=r"step 1 have shape \(\d+, 3\), not"):
        observe(learner(), steps[0], states=steps[0].states[:, :3])
    online = learner()
    observe(online, steps[0], held_out=np.ones(PER_STEP, dtype=bool))
    with pytest.raises(ContractError, match="seen 1 rollout steps, and nothing to learn from"):
        online.companions(5)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    """The outputs of `cocal online` with windows 1 and 2, and companions replayed on one and on two steps."""
    folder = tmp_path_factory.mktemp("command")
    assert main([*run.command(folder / "fits"), "--steps", "1", "2"]) == 0
    inputs = [word for word in run.command(folder) if word.startswith(("--rollouts", "--questions", "--features"))]
    command = ["online", "--settings", SETTINGS.model_dump_json(), *inputs, "--steps", str(STEPS)]
    command += ["--windows", "1", "2", "--stages", "2", str(STEPS)]
    command += ["--replayed", *map(str, sorted((folder / "fits").glob("steps-*")))]
    places = ["--output-companions", str(folder / "companions"), "--output", str(folder / "scores.parquet")]
    assert main([*command, *places]) == 0
    return folder


def test_the_command_gives_what_the_steps_give_in_memory(written, steps):
    table = read_frame(written / "scores.parquet", PREQUENTIAL)
    for window in (1, 2):
        online = learner(window=window)
        for step in steps:
            observe(online, step)
            folder = written / f"companions/window-{window}/steps-{step.number}"
            assert folder.exists() == (step.number in (2, STEPS))
            if folder.exists():
                stored = load_companions(folder)
                assert stored.spec == online.companions(5).spec
                for name, tensor in weights(online).items():
                    assert torch.equal(stored.model.state_dict()[name], tensor)
        rows = table[table["window"] == window].drop(columns=["window", "kept_bytes"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(rows[online.scores.columns], online.scores, check_dtype=False)


def test_replayed_companions_are_scored_on_the_step_after_theirs(run, written):
    table = read_frame(written / "scores.parquet", PREQUENTIAL)
    found = table[table["window"] == 0].set_index(["source_step", "target", "seed"]).sort_index()
    rollouts, features = run.read(), open_features(run.folder / "features.zarr")
    for steps in (1, 2):
        fitted = load_companions(written / f"fits/steps-{steps}")
        asked = set(rollouts["question"][rollouts["step"] <= steps])
        rows = (rollouts["step"] == steps + 1).to_numpy()
        new = ~rollouts["question"][rows].isin(asked).to_numpy()
        assert new.sum() == {1: PER_STEP, 2: 40}[steps], "the run asks 15 of its questions again in the third step"
        states = features.read(0, len(rollouts))[rows]
        correct = rollouts["correct"].to_numpy()[rows][new]
        for member, confidence in zip(fitted.members, fitted.predict(states)[:, new], strict=True):
            expected = evaluate(confidence, np.ones(len(correct), dtype=bool), correct)
            assert found.loc[(steps, *member), list(expected)].to_dict() == pytest.approx(expected, abs=1e-12)
        assert set(found.loc[steps, "kept_bytes"]) == {steps * PER_STEP * INPUTS * 4}
    assert list(replayed([run.fit(STEPS)[0]], features, rollouts, 10)) == []
