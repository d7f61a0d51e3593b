"""Rollouts of the micro policy, and the same rollouts as other engines dump them."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.models.loading import Policy
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.engines import Sampling
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
            rows = sampler.sample(asked, "answer", sampling, seeds, step=step, first=first)
            groups = np.arange(len(asked)).repeat(GROUP)
            frame = with_verdicts(rows, asked.iloc[groups], groups, verifier, pool=False)
            frames.append(frame.assign(reward_task=frame["correct"].astype(float)))
    return pd.concat(frames, ignore_index=True)


def json_lines(path: Path, rows: list[dict]) -> None:
    """Write JSON lines, whose lists and numbers may be NumPy's; folders above are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False, default=lambda found: found.tolist()) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def steps_of(rollouts: pd.DataFrame) -> Iterator[tuple[int, list]]:
    """Each step with its rows, whose indices count within the step."""
    for step, frame in rollouts.groupby("step"):
        yield int(step), list(frame.reset_index(drop=True).itertuples())


def write_slime(folder: Path, rollouts: pd.DataFrame, tokenizer) -> Path:
    """slime's dumps (`Sample.to_dict`); a step's groups lie as they were finished, not as they were asked."""
    folder.mkdir(parents=True)
    for step, rows in steps_of(rollouts):
        samples = [
            {
                "group_index": row.Index // GROUP,
                "index": row.Index,
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
            for row in rows
        ]
        torch.save({"rollout_id": step - 1, "samples": samples}, folder / f"{step - 1}.pt")
    torch.save({"samples": []}, folder / "eval_0.pt")
    return folder


def write_jsonl(folder: Path, rollouts: pd.DataFrame, logprobs: bool = True) -> Path:
    """JSON lines that name their questions."""
    names = ["question_id", "prompt_ids", "response_ids", "truncated", *(["logprobs"] if logprobs else [])]
    for step, rows in steps_of(rollouts):
        lines = [{name: getattr(row, name) for name in names} for row in rows]
        more = [{"group": row.Index // GROUP, "reward": int(row.correct)} for row in rows]
        json_lines(folder / f"step-{step:05d}.jsonl", [one | other for one, other in zip(lines, more, strict=True)])
    return folder


def write_traces(folder: Path, rollouts: pd.DataFrame) -> Path:
    """open-instruct's traces (`_save_rollouts` of `rl_utils.py`): all steps in one file, beside one about the run."""
    json_lines(folder / "run__1_metadata.jsonl", [{"run_name": "run", "git_commit": "1"}])
    lines = [
        {
            "step": step,
            "sample_idx": row.Index,
            "prompt_idx": row.Index // GROUP,
            "prompt_tokens": row.prompt_ids,
            "response_tokens": row.response_ids,
            "reward": 10.0 * row.correct,
            "advantage": 0.0,
            "finish_reason": row.finish_reason,
            "logprobs": None,
        }
        for step, rows in steps_of(rollouts)
        for row in rows
    ]
    json_lines(folder / "run__1_rollouts_000000.jsonl", lines)
    return folder


def write_completions(folder: Path, rollouts: pd.DataFrame, questions: pd.DataFrame, spacing: int) -> Path:
    """TRL's `log_completions` of a training with `spacing` updates a step."""
    folder.mkdir(parents=True)
    texts, prompts = questions.set_index("question_id")["question"], Prompts("tiny")
    for step, frame in rollouts.groupby("step"):
        asked = [prompts.message("answer", texts[name]) for name in frame["question_id"]]
        table = pd.DataFrame(
            {
                "step": step * spacing,
                "prompt": [[{"role": "user", "content": text}] for text in asked],
                "completion": [[{"role": "assistant", "content": text}] for text in frame["text"]],
                "correctness": frame["correct"].astype(float).to_numpy(),
                "advantage": 0.0,
            }
        )
        table.to_parquet(folder / f"completions_{step * spacing:05d}.parquet")
    return folder
