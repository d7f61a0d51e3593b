"""PostCal's data: the final policy answers the training questions again (appendix B.2, PostCal)."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cocal.answers.equivalence import Verifier
from cocal.config.evaluation import FeatureSettings, PostCalSettings
from cocal.config.policy import PolicySettings
from cocal.features.capture import RESPONSE_POOLINGS, resolve_layers
from cocal.features.forward import batches_of_tokens, score
from cocal.generation.engine import Engine, Sampling
from cocal.generation.responses import draw, sampled, sampling_seeds
from cocal.judging.verdicts import with_verdicts
from cocal.policy.recorder import open_recorder
from cocal.policy.schedule import question_schedule
from cocal.prompts import Prompts
from cocal.runtime.progress import Progress
from cocal.store.run_folder import RunFolder
from cocal.study.costs import write_cost


def resample(
    settings: PostCalSettings,
    policy: PolicySettings,
    *,
    engine: Engine,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: pd.DataFrame,
    prompts: Prompts,
    features: FeatureSettings,
    verifier: Verifier,
    run: RunFolder,
    identity: str,
    rollouts: Path,
    output_features: Path,
    cost: Path | None,
    attributes: dict[str, str],
) -> None:
    """Sample the questions of every rollout step again, the same number of responses each, and publish.

    The result is laid out like the rollouts of a training run, step by step: a budget of n steps is the same
    questions and the same number of responses for both. A killed run goes on with the next step.

    Args:
        settings: how to sample.
        policy: the training whose schedule and response length are repeated.
        engine: generates with the final policy.
        model: the final policy, for the features.
        tokenizer: of the policy.
        questions: training set (cocal.store.contracts.QUESTIONS).
        prompts: prompt set.
        features: layers and type.
        verifier: decides correctness.
        run: working folder.
        identity: names backbone and policy; chooses the noise.
        rollouts: folder for one table a step.
        output_features: feature store of all responses.
        cost: file for the time of the sampling alone; none if it is not wanted.
        attributes: provenance.
    """
    layers = resolve_layers(features.layers, model.config.num_hidden_layers)
    size = policy.responses_per_question
    count = policy.questions_per_step * size
    shape = (count, len(layers), len(RESPONSE_POOLINGS), model.config.hidden_size)
    recorder, seconds = open_recorder(
        run,
        steps=policy.steps,
        rollouts=count,
        layers=layers,
        hidden=model.config.hidden_size,
        dtype=features.dtype,
        attributes=attributes,
    )
    sampling = Sampling.of(settings, policy.max_response_length["grpo"], size)
    schedule = question_schedule(len(questions), policy.steps, policy.questions_per_step, policy.seed)
    seeds = np.array(sampling_seeds(identity, settings.seed, schedule.size, size)).reshape(schedule.shape)
    todo = recorder.missing(policy.steps)
    progress = Progress("step", policy.steps, done=policy.steps - len(todo))
    for step in todo:
        asked = questions.iloc[schedule[step - 1]]
        began = time.monotonic()
        drawn = draw(
            asked, "answer", sampling, seeds[step - 1].tolist(), engine=engine, tokenizer=tokenizer, prompts=prompts
        )
        seconds.record(step, time.monotonic() - began)
        first = (step - 1) * count
        frame = sampled(drawn, asked, "answer", tokenizer=tokenizer, step=step, first=first)
        groups = np.arange(len(asked)).repeat(size)
        frame = with_verdicts(frame, asked.iloc[groups], groups, verifier, pool=False)
        prompt_ids, response_ids = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
        lengths = [len(p) + len(r) for p, r in zip(prompt_ids, response_ids, strict=True)]
        batches = batches_of_tokens(lengths, features.batch_tokens)
        states = np.empty(shape, dtype=np.float32)
        for part in score(model, prompt_ids, response_ids, batches, layers=layers, pad=tokenizer.pad_token_id):
            states[part.rows] = part.features
        recorder.write(frame, states)
        progress.add(detail=f"accuracy {frame['correct'].mean():.3f}")
    recorder.require(policy.steps)
    if cost is not None:
        write_cost(cost, seconds.cost(items=policy.steps * count))
    run.publish({"rollouts": rollouts, "features.zarr": output_features})
