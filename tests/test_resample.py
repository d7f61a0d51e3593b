"""PostCal's resampling: the same questions step by step, the same number of responses, the final policy."""

import numpy as np
import pandas as pd
import pytest

from cocal.answers.equivalence import Verifier
from cocal.config.evaluation import FeatureSettings, PostCalSettings, VerifierSettings
from cocal.config.policy import PolicySettings
from cocal.features.forward import score
from cocal.features.store import open_features
from cocal.generation.responses import Sampler
from cocal.generation.transformers_engine import TransformersEngine
from cocal.policy.recorder import Outputs
from cocal.policy.resample import resample
from cocal.policy.schedule import question_schedule
from cocal.prompts import Prompts
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS, RESPONSES
from cocal.store.run_folder import RunFolder
from cocal.study.costs import Cost, read_cost

POLICY = PolicySettings(
    dataset="micro-train",
    steps=3,
    stages=(3,),
    questions_per_step=10,  # an epoch ends inside the last step
    responses_per_question=4,
    max_response_length={"grpo": 16, "rlcr": 16, "dcpo": 16},
)


class _Interrupted(Exception):
    """What a kill is to the process under test."""


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
    assert read_cost(folder / "cost.json", Cost).items == 120
    return found


def test_budget_and_questions_are_those_of_the_rollouts(resampled, questions):
    frame, _ = resampled
    schedule = question_schedule(len(questions), POLICY.steps, POLICY.questions_per_step, POLICY.seed)
    assert frame["question_id"].tolist() == questions["question_id"].iloc[schedule.ravel().repeat(4)].tolist()
    assert frame["step"].tolist() == np.repeat([1, 2, 3], 40).tolist()
    assert frame["sample"].tolist() == [0, 1, 2, 3] * 30
    assert 0 < frame["truncated"].mean() < 1
    groups = frame["correct"].to_numpy().reshape(-1, 4).mean(axis=1)
    np.testing.assert_array_equal(frame["group_accuracy"], groups.repeat(4))


def test_responses_to_a_question_differ(resampled):
    frame, _ = resampled
    texts = frame.groupby(["step", "question_id"])["text"].nunique()
    assert texts.max() > 1


def test_features_are_those_of_the_exact_ids(resampled, micro_policy):
    frame, reader = resampled
    model, tokenizer = micro_policy
    prompts, responses = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
    (part,) = score(
        model, prompts, responses, [np.arange(len(frame))], layers=[1], pad=tokenizer.pad_token_id, logprobs=True
    )
    np.testing.assert_allclose(reader.read(0, len(frame)), part.features.reshape(len(frame), -1), atol=1e-4)
    for found, expected in zip(frame["logprobs"], part.logprobs, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_killed_run_goes_on_with_the_next_step(tmp_path, resampled, micro_policy, questions):
    real = TransformersEngine.of(micro_policy, 32)

    class Dying:
        """Generates one step, then the process is gone."""

        steps = 0

        def generate(self, *arguments):
            if self.steps:
                raise _Interrupted
            self.steps += 1
            return real.generate(*arguments)

    with pytest.raises(_Interrupted):
        _resample(tmp_path, micro_policy, questions, Dying())
    assert not (tmp_path / "rollouts").exists()
    frame, reader = _resample(tmp_path, micro_policy, questions)
    assert read_cost(tmp_path / "cost.json", Cost).items == len(frame)
    pd.testing.assert_frame_equal(frame, resampled[0])
    np.testing.assert_array_equal(reader.read(0, len(reader)), resampled[1].read(0, len(frame)))
