"""PostCal's resampling: the same questions step by step, the same number of responses, the final policy."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.runtime import lock
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.run_folder import RunFolder
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.engines import Sampling
from cocal_study.generation.responses import Sampler, sampling_seeds
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.planning.costs import Cost, read_cost
from cocal_study.policy.recorder import Outputs
from cocal_study.policy.resample import resample
from cocal_study.policy.schedule import asked_questions, question_schedule
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS
from passed import check_recorded

POLICY = PolicySettings(
    dataset="micro-train",
    seed=7,  # not that of the sampling
    steps=3,
    stages=(3,),
    questions_per_step=10,  # an epoch ends inside the last step
    responses_per_question=4,
    max_response_length={"grpo": 16, "rlcr": 20, "dcpo": 12},
)


@pytest.fixture(scope="module")
def questions(micro_questions) -> pd.DataFrame:
    return read_frame(micro_questions / "micro-train.parquet", QUESTIONS)


def _resample(folder, micro_policy, questions, engine=None):
    engine = engine or TransformersEngine.of(micro_policy, 32)
    with Verifier(VerifierSettings()) as verifier:
        resample(
            PostCalSettings(),
            POLICY,
            policy=micro_policy,
            sampler=Sampler(engine, micro_policy.tokenizer, Prompts("tiny")),
            identity="micro/postcal",
            questions=questions,
            schedule=question_schedule(len(questions), POLICY.steps, POLICY.questions_per_step, POLICY.seed),
            verifier=verifier,
            features=FeatureSettings(dtype="float32"),
            run=RunFolder(folder / "run", "digest"),
            outputs=Outputs({}, folder / "rollouts", folder / "rollouts.zarr", folder / "cost.json"),
        )
    return read_frame(folder / "rollouts", RESPONSES), open_features(folder / "rollouts.zarr")


@pytest.fixture(scope="module")
def resampled(tmp_path_factory, micro_policy, questions):
    folder = tmp_path_factory.mktemp("resampled")
    found = _resample(folder, micro_policy, questions)
    cost = read_cost(folder / "cost.json", Cost)
    assert cost.items == 120
    assert cost.states_seconds > 0
    return found


def test_budget_and_questions_are_those_of_the_rollouts(resampled, questions):
    frame, _ = resampled
    schedule = question_schedule(len(questions), POLICY.steps, POLICY.questions_per_step, POLICY.seed)
    assert frame["question_id"].tolist() == questions["question_id"].iloc[schedule.ravel().repeat(4)].tolist()
    assert frame["step"].tolist() == np.repeat([1, 2, 3], 40).tolist()
    assert frame["sample"].tolist() == [0, 1, 2, 3] * 30
    assert 0 < frame["truncated"].mean() < 1
    assert (frame["length"][frame["truncated"]] == 16).all()
    assert PostCalSettings().seed != POLICY.seed
    assert frame["response_id"].tolist() == list(range(120))
    groups = frame["correct"].to_numpy().reshape(-1, 4).mean(axis=1)
    np.testing.assert_array_equal(frame["group_accuracy"], groups.repeat(4))


def test_questions_are_read_from_rollouts(resampled, questions):
    """In their order, and not in that of our schedule."""
    frame, _ = resampled
    schedule = question_schedule(len(questions), POLICY.steps, POLICY.questions_per_step, POLICY.seed)
    np.testing.assert_array_equal(asked_questions(frame.sample(frac=1, random_state=0), questions, 3, 4), schedule)
    turned = questions.iloc[::-1].reset_index(drop=True)
    np.testing.assert_array_equal(asked_questions(frame, turned, 3, 4), len(questions) - 1 - schedule)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda frame: frame[frame["step"] < 3], "hold 80 responses of 2 steps, which are no 3 steps with 4"),
        (lambda frame: frame.iloc[:-1], "hold 119 responses of 3 steps"),
        (
            lambda frame: frame.assign(question_id=[*frame["question_id"].tolist()[1:], "x"]),
            "do not follow one another",
        ),
        (lambda frame: frame.assign(question_id="x"), "answer question 'x', which is not in the training set"),
    ],
)
def test_rollouts_of_another_training_are_refused(resampled, questions, spoil, message):
    with pytest.raises(ContractError, match=message):
        asked_questions(spoil(resampled[0]), questions, 3, 4)


def test_every_place_of_the_schedule_has_its_own_noise(resampled, micro_policy):
    """The engine gives the responses of the second step again from their seeds alone."""
    frame, _ = resampled
    settings = PostCalSettings()
    seeds = sampling_seeds("micro/postcal", settings.seed, 30, 4)[10:20]
    rows = frame[frame["step"] == 2]
    engine = TransformersEngine.of(micro_policy, 32)
    found = engine.generate(rows["prompt_ids"].tolist()[::4], Sampling.of(settings, 16, 4), seeds)
    assert [one.token_ids for group in found for one in group] == [list(ids) for ids in rows["response_ids"]]
    assert len({seed + sample for seed in seeds for sample in range(4)}) == len(rows)


def test_features_are_those_of_the_exact_ids(resampled, micro_policy):
    check_recorded(micro_policy, *resampled)


class _Lasting:
    """Generates so many steps, then the process is gone."""

    def __init__(self, policy, steps):
        self.real = TransformersEngine.of(policy, 32)
        self.steps = steps

    def generate(self, *arguments):
        if not self.steps:
            raise KeyboardInterrupt
        self.steps -= 1
        return self.real.generate(*arguments)


@pytest.fixture
def interrupted(tmp_path, micro_policy, questions) -> Path:
    """The folder of a run that was killed in its second step."""
    with pytest.raises(KeyboardInterrupt):
        _resample(tmp_path, micro_policy, questions, _Lasting(micro_policy, 1))
    lock.release(tmp_path / "run")  # as the end of the process does
    assert not (tmp_path / "rollouts").exists()
    return tmp_path


DAMAGES = {
    "metadata of the store that is cut off": lambda run: (run / "features.zarr/zarr.json").write_text('{"zarr_'),
    "a lost store": lambda run: shutil.rmtree(run / "features.zarr"),
    "a store of other settings": lambda run: zarr.open_group(run / "features.zarr").attrs.update(stage="other"),
    "times that are cut off": lambda run: (run / "seconds.json").write_text('{"1": [2.5'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_remedy_for_damaged_work_ends_in_the_same_rows(interrupted, damage, resampled, micro_policy, questions):
    """Deleting what the error names, and no more than that, lets the same command end."""
    damage(interrupted / "run")
    with pytest.raises(ContractError, match=r"run/.*; delete \S+, which holds unfinished work, and run") as refused:
        _resample(interrupted, micro_policy, questions)
    lock.release(interrupted / "run")
    shutil.rmtree(re.search(r"delete (\S+),", str(refused.value))[1])
    frame, reader = _resample(interrupted, micro_policy, questions)
    pd.testing.assert_frame_equal(frame, resampled[0])
    np.testing.assert_array_equal(reader.read(0, len(reader)), resampled[1].read(0, len(frame)))


def test_a_killed_run_goes_on_with_the_next_step(interrupted, resampled, micro_policy, questions):
    frame, reader = _resample(interrupted, micro_policy, questions, _Lasting(micro_policy, 2))
    assert read_cost(interrupted / "cost.json", Cost).items == len(frame)
    pd.testing.assert_frame_equal(frame, resampled[0])
    np.testing.assert_array_equal(reader.read(0, len(reader)), resampled[1].read(0, len(frame)))
