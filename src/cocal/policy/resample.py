"""PostCal's data: the final policy answers the training questions again (appendix B.2, PostCal)."""

import logging
import time
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cocal.config.policy import Policy
from cocal.config.protocol import Features, PostCal
from cocal.features.capture import resolve_layers
from cocal.features.forward import batches_of_tokens, score
from cocal.features.store import create_features, open_features
from cocal.generation.engine import Engine, Sampling
from cocal.generation.responses import chat_ids, sampling_seeds
from cocal.policy.recorder import RolloutRecorder, Rollouts
from cocal.policy.rewards import group_accuracy
from cocal.policy.schedule import question_schedule
from cocal.prompts import Prompts
from cocal.store.run_folder import RunFolder
from cocal.verify.answers import extract_answer
from cocal.verify.equivalence import Verifier


def resample(
    settings: PostCal,
    policy: Policy,
    *,
    engine: Engine,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: pd.DataFrame,
    prompts: Prompts,
    features: Features,
    verifier: Verifier,
    run: RunFolder,
    identity: str,
    rollouts: Path,
    output_features: Path,
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
        questions: training set (cocal.schemas.QUESTIONS).
        prompts: prompt set.
        features: layers and type.
        verifier: decides correctness.
        run: working folder.
        identity: names backbone and policy; chooses the noise.
        rollouts: folder for one table a step.
        output_features: feature store of all responses.
        attributes: provenance.
    """
    layers = resolve_layers(features.layers, model.config.num_hidden_layers)
    size = policy.responses_per_question
    count = policy.questions_per_step * size
    store = run.path / "features.zarr"
    writer = create_features(
        store,
        responses=policy.steps * count,
        layers=layers,
        hidden=model.config.hidden_size,
        rows_per_chunk=count,
        dtype=features.dtype,
        attributes=attributes,
        resume=run.resumed,
    )
    recorder = RolloutRecorder(run.path / "rollouts", writer, str(questions["dataset"].iloc[0]), size, attributes)
    sampling = Sampling(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        presence_penalty=settings.presence_penalty,
        max_tokens=policy.max_response_length["grpo"],
        samples=size,
    )
    schedule = question_schedule(len(questions), policy.steps, policy.questions_per_step, policy.seed)
    seeds = np.array(sampling_seeds(identity, settings.seed, schedule.size, size)).reshape(schedule.shape)
    started, todo = time.monotonic(), recorder.missing(policy.steps)
    for done, step in enumerate(todo, start=1):
        asked = questions.iloc[schedule[step - 1]]
        messages = [prompts.message("answer", question) for question in asked["question"]]
        prompt_ids = chat_ids(tokenizer, messages)
        groups = engine.generate(prompt_ids, sampling, seeds[step - 1].tolist())
        completions = [completion for group in groups for completion in group]
        ids = [completion.token_ids for completion in completions]
        prompt_of = [prompt for prompt in prompt_ids for _ in range(size)]
        text = tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        answers = [extract_answer(said) for said in text]
        rows = asked.loc[asked.index.repeat(size)]
        golds = [[answer, *aliases] for answer, aliases in zip(rows["answer"], rows["aliases"], strict=True)]
        correct = verifier.correct(golds, answers)
        states = np.empty((count, len(layers), 2, model.config.hidden_size), dtype=np.float32)
        lengths = [len(p) + len(r) for p, r in zip(prompt_of, ids, strict=True)]
        batches = batches_of_tokens(lengths, features.batch_tokens)
        for part in score(model, prompt_of, ids, batches, layers=layers, pad=tokenizer.pad_token_id):
            states[part.rows] = part.features
        none = np.full(count, np.nan)
        recorder.write(
            step,
            Rollouts(
                question_id=rows["question_id"].tolist(),
                prompt_ids=prompt_of,
                response_ids=ids,
                logprobs=[completion.logprobs for completion in completions],
                text=text,
                truncated=np.array([completion.finish_reason == "length" for completion in completions]),
                answer=answers,
                correct=correct,
                group_accuracy=group_accuracy(correct, size),
                reward_task=none,
                reward_calibration=none,
                confidence=none,
                features=states,
            ),
        )
        left = (time.monotonic() - started) / done * (len(todo) - done)
        logging.info("step %d/%d  accuracy %.3f  %.0f s left", step, policy.steps, correct.mean(), left)
    recorder.require(policy.steps)
    open_features(store)  # refuses a store with gaps
    run.publish({"rollouts": rollouts, "features.zarr": output_features})
