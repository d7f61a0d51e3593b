"""Rollouts of the micro policy, and the same rollouts as other engines dump them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.engines.engine import Sampling
from cocal.models.loading import Policy
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.responses import Sampler
from cocal_study.generation.sampling import with_verdicts
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.policy.schedule import question_schedule
from cocal_study.questions.prompts import Prompts

GROUP = 4
SETTINGS = PolicySettings(
    dataset="micro-train",
    steps=3,
    stages=(2, 3),
    questions_per_step=5,
    responses_per_question=GROUP,
    micro_batch=GROUP,
    max_response_length={"grpo": 20, "rlcr": 20, "dcpo": 20},
)


def sampled(policy: Policy, questions: pd.DataFrame) -> pd.DataFrame:
    """All steps' rollouts in the contract RESPONSES."""
    sampler = Sampler(TransformersEngine.of(policy, batch_size=32), policy.tokenizer, Prompts("tiny"))
    schedule = question_schedule(len(questions), SETTINGS.steps, SETTINGS.questions_per_step, SETTINGS.seed)
    sampling = Sampling(1.0, 0, 1.0, 0.0, max_tokens=20, samples=GROUP)
    frames = []
    with Verifier(VerifierSettings()) as verifier:
        for step, places in enumerate(schedule, start=1):
            asked = questions.iloc[places]
            seeds = [1000 * step + GROUP * k for k in range(len(places))]
            first = (step - 1) * len(places) * GROUP
            rows, _ = sampler.sample(asked, "answer", sampling, seeds, step=step, first=first)
            groups = np.arange(len(asked)).repeat(GROUP)
            frame = with_verdicts(rows, asked.iloc[groups], groups, verifier, pool=False)
            frames.append(frame.assign(reward_task=frame["correct"].astype(float)))
    return pd.concat(frames, ignore_index=True)


def slime_samples(frame: pd.DataFrame, tokenizer) -> list[dict]:
    """One step as slime's samples (`Sample.to_dict`): the fields that are read, and some of the others."""
    return [
        {
            "group_index": place // GROUP,
            "index": place,
            "prompt": tokenizer.decode(row.prompt_ids),
            "tokens": [*row.prompt_ids, *row.response_ids],
            "response": tokenizer.decode(row.response_ids),
            "response_length": row.length,
            "label": "unused",
            "reward": {"acc": float(row.correct)},
            "loss_mask": [1] * row.length,
            "rollout_log_probs": [float(value) for value in row.logprobs],
            "status": "truncated" if row.truncated else "completed",
            "metadata": {},
        }
        for place, row in enumerate(frame.itertuples())
    ]


def write_slime(folder: Path, rollouts: pd.DataFrame, tokenizer) -> Path:
    """slime's dumps; a step's groups lie as they were finished, not as they were asked."""
    folder.mkdir(parents=True)
    for step, frame in rollouts.groupby("step"):
        samples = slime_samples(frame, tokenizer)
        torch.save({"rollout_id": step - 1, "samples": samples}, folder / f"{step - 1}.pt")
    torch.save({"samples": []}, folder / "eval_0.pt")
    return folder


def write_jsonl(folder: Path, rollouts: pd.DataFrame, logprobs: bool = True) -> Path:
    """JSON lines that name their questions."""
    folder.mkdir(parents=True)
    for step, frame in rollouts.groupby("step"):
        rows = [
            {
                "group": place // GROUP,
                "question_id": row.question_id,
                "prompt_ids": list(row.prompt_ids),
                "response_ids": list(row.response_ids),
                "truncated": row.truncated,
                "reward": int(row.correct),
            }
            | ({"logprobs": [float(value) for value in row.logprobs]} if logprobs else {})
            for place, row in enumerate(frame.itertuples())
        ]
        (folder / f"step-{step:05d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_traces(folder: Path, rollouts: pd.DataFrame) -> Path:
    """open-instruct's traces (`_save_rollouts` of `rl_utils.py`): all steps in one file, beside one about the run."""
    folder.mkdir(parents=True)
    (folder / "run__1_metadata.jsonl").write_text(json.dumps({"run_name": "run", "git_commit": "1"}) + "\n")
    rows = [
        {
            "step": int(step),
            "sample_idx": place,
            "prompt_idx": place // GROUP,
            "prompt_tokens": [int(one) for one in row.prompt_ids],
            "response_tokens": [int(one) for one in row.response_ids],
            "reward": 10.0 * row.correct,
            "advantage": 0.0,
            "finish_reason": row.finish_reason,
            "logprobs": None,
        }
        for step, frame in rollouts.groupby("step")
        for place, row in enumerate(frame.itertuples())
    ]
    (folder / "run__1_rollouts_000000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_episodes(folder: Path, rollouts: pd.DataFrame, subset: str = "all") -> Path:
    """prime-rl's traces (`FileMonitor.log_episodes`, and `Episode.to_record` of verifiers 0.4) of an environment of one
    turn: all fields that are read, and some of the others."""
    for step, frame in rollouts.groupby("step"):
        path = folder / f"rollouts/step_{step}/train/{subset}/traces.jsonl"
        path.parent.mkdir(parents=True)
        records = [_episode(row, f"group-{step}-{place // GROUP}") for place, row in enumerate(frame.itertuples())]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def _episode(row, group: str) -> dict:
    prompt, response = ([int(one) for one in ids] for ids in (row.prompt_ids, row.response_ids))
    task = {"type": "Sums", "data": {"prompt": "1 + 1"}, "key": row.question_id, "hash": "f00d"}
    question = {
        "message": {"role": "user", "content": "1 + 1"},
        "sampled": False,
        "token_ids": prompt[:-1],
        "mask": [False] * (len(prompt) - 1),
    }
    answer = {  # the generation prompt goes before the response
        "parent": 0,
        "message": {"role": "assistant", "content": row.text},
        "sampled": True,
        "token_ids": [prompt[-1], *response],
        "mask": [False, *[True] * len(response)],
        "is_content": [],
        "logprobs": [float(one) for one in row.logprobs],
    }
    trace = {
        "id": f"trace-{row.response_id}",
        "task": task,
        "agent": {"config": {}, "name": "agent", "trainable": True},
        "nodes": [question, answer],
        "calls": [{"node": 1, "finish_reason": row.finish_reason, "time": {"start": 1.5, "end": 2.5}}],
        "rewards": {"correct": {"score": float(row.correct), "weight": 1.0}},
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
    }
    return {"id": f"e-{row.response_id}", "task": task, "group": {"id": group}, "ok": True, "traces": [trace]}


def write_completions(folder: Path, rollouts: pd.DataFrame, questions: pd.DataFrame, spacing: int) -> Path:
    """TRL's `log_completions` of a training with `spacing` updates a step."""
    folder.mkdir(parents=True)
    texts = questions.set_index("question_id")["question"]
    for step, frame in rollouts.groupby("step"):
        table = pd.DataFrame(
            {
                "step": step * spacing,
                "prompt": [
                    [{"role": "user", "content": Prompts("tiny").message("answer", texts[name])}]
                    for name in frame["question_id"]
                ],
                "completion": [[{"role": "assistant", "content": text}] for text in frame["text"]],
                "correctness": frame["correct"].astype(float).to_numpy(),
                "advantage": np.zeros(len(frame)),
            }
        )
        table.to_parquet(folder / f"completions_{step * spacing:05d}.parquet")
    return folder
