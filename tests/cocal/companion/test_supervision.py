"""The tables that companions learn from: targets, groups, order, questions, matching features, and the split."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cocal.companion.supervision import confidence_targets, in_validation
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal_study.generation.labels import check_features, groups_of, prompts_of
from companion_run import GROUP, Run, small_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that is not written yet."""
    return small_run(tmp_path)


@pytest.mark.parametrize(
    ("target", "expected"),
    [("binary", [1, 0, 1, 0]), ("group", [0.75, 0, 0.125, 0]), ("question", [0.75, 0.75, 0.125, 0])],
)
def test_targets_are_correctness_or_the_accuracy_of_the_group(target: str, expected: list[float]):
    correct, group = np.array([True, False, True, False]), np.array([0.75, 0.75, 0.125, 0.0])
    found = confidence_targets(target, correct, group)
    assert found.dtype == np.float32
    assert found.tolist() == expected


def test_before_generation_the_label_is_the_accuracy_of_the_whole_group(run: Run):
    """Appendix F.4: one row for each question asked, whose group counts truncated responses."""
    rollouts = run.write().read()
    prompts, groups = prompts_of(rollouts), rollouts.groupby(groups_of(rollouts))
    first = groups.first()
    assert first["truncated"].any()
    assert (first["correct"] != groups["correct"].mean()).any()
    np.testing.assert_allclose(prompts["correct"], groups["correct"].mean())
    np.testing.assert_allclose(prompts["correct"], rollouts["correct"].to_numpy().reshape(-1, GROUP).mean(axis=1))
    assert prompts["step"].is_monotonic_increasing
    assert not prompts["truncated"].any()


def test_group_accuracy_taken_after_truncation_filtering_is_refused(run: Run):
    kept = run.responses["correct"].where(~run.responses["truncated"]).astype(float)
    run.responses["group_accuracy"] = kept.groupby(run.responses.index // GROUP).transform("mean")
    with pytest.raises(ContractError, match="over the whole group, before truncated responses are filtered"):
        run.write().read()


def test_rollouts_out_of_order_are_refused(run: Run, tmp_path: Path):
    run.write()
    first, second = (run.folder / "rollouts" / f"step-0000{step}.parquet" for step in (1, 2))
    aside = first.rename(run.folder / "aside")
    second.rename(first)
    aside.rename(second)
    with pytest.raises(ContractError, match="chronological order, but column 'step' goes from 2 to 1 at row 160"):
        run.read()
    swapped = small_run(tmp_path / "swapped")
    swapped.responses = swapped.responses.iloc[[1, 0, *range(2, len(run.responses))]].reset_index(drop=True)
    with pytest.raises(ContractError, match="'response_id' goes from 1 to 0 at row 1"):
        swapped.write().read()


def test_missing_steps_and_questions_are_refused(run: Run):
    run.questions = run.questions.iloc[:-1]
    run.write()
    with pytest.raises(ContractError, match="steps 1 to 5 are needed, found 1 to 3 without 4, 5"):
        run.read(steps=5)
    with pytest.raises(ContractError, match=r"question 'q-44' .* is not in"):
        run.read()
    (run.folder / "rollouts" / "step-00002.parquet").unlink()
    with pytest.raises(ContractError, match="without 2"):
        run.read()


def test_features_of_other_responses_are_refused(run: Run):
    rollouts, reader = run.write().read(), open_features(run.folder / "features.zarr")
    check_features(rollouts, reader)
    for column, other in (("response_id", 8), ("question_id", "q-x"), ("length", 9)):
        changed = rollouts.assign(**{column: rollouts[column].where(rollouts.index != 7, other)})
        with pytest.raises(
            ContractError, match=rf"features\.zarr: {column} is \S+ at row 7, the rollouts have {other} "
        ):
            check_features(changed, reader)
    with pytest.raises(ContractError, match="holds 480 rows for 960 rollouts"):
        check_features(pd.concat([rollouts, rollouts]), reader)


def test_the_split_goes_by_the_text_and_the_question_table_alone():
    texts = [f"question {k}" for k in range(3000)]
    side = in_validation(texts, texts, 0.1, 42)
    mixed = np.random.default_rng(0).permutation(3000)
    shuffled = [texts[k] for k in mixed]
    np.testing.assert_array_equal(in_validation(shuffled, shuffled, 0.1, 42), side[mixed])
    np.testing.assert_array_equal(in_validation(texts[:300], texts, 0.1, 42), side[:300])  # what was asked is no matter
    assert (in_validation(texts, texts, 0.1, 43) != side).any()
    held_out = int(np.flatnonzero(side)[0])
    assert in_validation([texts[held_out], f"  Question\n {held_out}"], texts, 0.1, 42).all()
    twice = [*texts, *(f"Question  {k}" for k in range(50))]
    np.testing.assert_array_equal(in_validation(twice, twice, 0.1, 42), [*side, *side[:50]])
    with pytest.raises(ContractError, match="'question 9' is not in the question table"):
        in_validation(["question 9"], texts[:9], 0.1, 42)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("count", "share", "held_out"),
    [(3000, 0.1, 300), (45, 0.1, 5), (44, 0.1, 4), (50, 0.29, 15), (3, 0.1, 1), (1, 0.1, 1), (0, 0.1, 0)],
)
def test_the_share_is_exact_with_halves_up_and_one_at_least(count: int, share: float, held_out: int, seed: int):
    texts = [f"question {k}" for k in range(count)]
    assert in_validation(texts, texts, share, seed).sum() == held_out
