"""Sampling for PostCal: the final policy answers the training questions again (appendix B.2, PostCal)."""

import time
from functools import partial

import numpy as np
import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.features.extract import pooled_states
from cocal.models.loading import Policy
from cocal.runtime.progress import Progress
from cocal.store.run_folder import RunFolder
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.engines import Sampling
from cocal_study.generation.responses import Sampler, sampling_seeds
from cocal_study.generation.sampling import with_verdicts
from cocal_study.policy.recorder import Outputs, open_recorder


def resample(
    settings: PostCalSettings,
    training: PolicySettings,
    *,
    policy: Policy,
    sampler: Sampler,
    identity: str,
    questions: pd.DataFrame,
    schedule: np.ndarray,
    verifier: Verifier,
    features: FeatureSettings,
    run: RunFolder,
    outputs: Outputs,
) -> None:
    """Answer the questions of every rollout step again, with as many responses per question, and publish the results.

    The results have the layout of a training run's rollouts, so that a budget of n steps means the same questions and
    the same number of responses for both. The answers of a step are verified in separate processes while the next is
    sampled. A killed run resumes with the first missing step.

    Args:
        policy: Final policy, which computes the features.
        identity: Name of backbone and policy, from which the sampling seeds are derived.
        schedule: Indices of the questions that each step of the training asked, int64 (steps, questions per step).
    """
    recorder = open_recorder(run, training, policy.config, features, outputs)
    size = training.responses_per_question
    count = training.questions_per_step * size
    sampling = Sampling.of(settings, training.max_response_length["grpo"], size)
    seeds = np.array(sampling_seeds(identity, settings.seed, schedule.size, size)).reshape(schedule.shape)
    todo = recorder.missing()
    progress = Progress("step", training.steps, done=training.steps - len(todo))

    def verified(sampled: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
        groups = np.arange(len(asked)).repeat(size).tolist()
        frame = with_verdicts(sampled, asked.iloc[groups], groups, verifier, pool=False)
        progress.add(detail=f"accuracy {frame['correct'].mean():.3f}")
        return frame

    with recorder:
        for step in todo:
            asked = questions.iloc[schedule[step - 1]]
            began, place = time.monotonic(), {"step": step, "first": (step - 1) * count}
            sampled = sampler.sample(asked, "answer", sampling, seeds[step - 1].tolist(), **place)
            ended = time.monotonic()
            ids = sampled["prompt_ids"].tolist(), sampled["response_ids"].tolist()
            states = pooled_states(policy, recorder.features.layout, *ids, features.batch_tokens)
            recorder.seconds.record(step, ended - began, time.monotonic() - ended)
            recorder.write(partial(verified, sampled, asked), states)
    recorder.publish(outputs, items=training.steps * count)
