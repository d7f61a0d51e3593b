"""Rollouts as NeMo-RL, ROLL, AReaL, SkyRL and prime-rl write them: all fields that are read, and some of the others."""

import json
from pathlib import Path

import pandas as pd

from dumps import GROUP, json_lines, steps_of


def write_nemo(folder: Path, rollouts: pd.DataFrame, pad: int) -> Path:
    """NeMo-RL's `log_batched_dict_as_jsonl` of `train_data_step1.jsonl` (`grpo.py`): slices of one sample, whose ids
    are padded on the right to the longest of the step."""
    for step, rows in steps_of(rollouts):
        whole = [[*row.prompt_ids, *row.response_ids] for row in rows]
        longest = max(map(len, whole))
        lines = [
            {
                "content": ["1 + 1" + row.text],
                "rewards": [float(row.correct)],
                "input_lengths": [len(ids)],
                "token_ids": [ids + [pad] * (longest - len(ids))],
                "token_loss_mask": [[0] * len(row.prompt_ids) + [1] * row.length + [0] * (longest - len(ids))],
                "sample_loss_mask": [1.0],
                "generation_logprobs": [[-0.25] * longest],
                "idx": row.Index,
            }
            for ids, row in zip(whole, rows, strict=True)
        ]
        json_lines(folder / f"train_data_step{step}.jsonl", lines)
    return folder


def write_roll(folder: Path, rollouts: pd.DataFrame, questions: pd.Series) -> Path:
    """ROLL's `dump_rollout_to_specific_path` (`roll/pipeline/rlvr/utils.py`): a line with a column for every field."""
    for step, rows in steps_of(rollouts):
        asked = [questions[row.question_id] for row in rows]
        columns = {
            "id": [row.question_id for row in rows],
            "domain": ["math_rule"] * len(rows),
            "prompt": asked,
            "messages": [json.dumps([{"role": "user", "content": text}]) for text in asked],
            "responses": [row.text for row in rows],
            "scores": [float(row.correct) for row in rows],
            "global_step": [step - 1] * len(rows),
        }
        json_lines(folder / f"rollout_dump_data.step_{step - 1}.jsonl", [columns])
    return folder


def write_areal(folder: Path, rollouts: pd.DataFrame, tokenizer) -> Path:
    """AReaL's `_dump_trajectory` (`areal/infra/workflow_executor.py`): a file for each task in a folder for the version
    of the weights; texts have their special tokens."""
    for step, rows in steps_of(rollouts):
        for task in range(0, len(rows), GROUP):
            number = 100 * step + task // GROUP
            records = [
                {
                    "task_id": number,
                    "sample_idx": place,
                    "seqlen": len(row.prompt_ids) + row.length,
                    "prompt_len": len(row.prompt_ids),
                    "head_version": max(0, step - 2),
                    "tail_version": step - 1,
                    "reward": float(row.correct),
                    "prompt": tokenizer.decode(row.prompt_ids),
                    "completion": tokenizer.decode(row.response_ids),
                }
                for place, row in enumerate(rows[task : task + GROUP])
            ]
            json_lines(folder / str(step - 1) / f"{number}.jsonl", records)
    return folder


def write_skyrl(folder: Path, rollouts: pd.DataFrame, tokenizer) -> Path:
    """SkyRL's `dump_per_dataset_eval_results` (`skyrl/train/utils/trainer_utils.py`): a file for each data source
    beside one of metrics; a score may be that of every token."""
    for step, rows in steps_of(rollouts):
        lines = [
            {
                "input_prompt": tokenizer.decode(row.prompt_ids),
                "output_response": tokenizer.decode(row.response_ids),
                "score": [0.0] * (row.length - 1) + [float(row.correct)] if step > 1 else float(row.correct),
                "stop_reason": row.finish_reason,
                "env_class": "gsm8k",
                "data_source": "sums",
            }
            for row in rows
        ]
        json_lines(folder / f"global_step_{5 * step}_evals/sums.jsonl", lines)
        json_lines(folder / f"global_step_{5 * step}_evals/aggregated_results.jsonl", [{"eval/all/avg_score": 0.5}])
    return folder


def write_prime_rl(folder: Path, rollouts: pd.DataFrame) -> Path:
    """prime-rl's traces (`FileMonitor.log_episodes`, and `Episode.to_record` of verifiers 0.4) of an environment of one
    turn, with a trace of another agent in each episode, and an evaluation beside each step."""
    for step, rows in steps_of(rollouts):
        records = [_episode(row, f"group-{step}-{row.Index // GROUP}") for row in rows]
        for part in ("train/all", "eval/all"):
            json_lines(folder / f"rollouts/step_{step}/{part}/traces.jsonl", records)
    return folder


def _episode(row, group: str) -> dict:
    *before, last = row.prompt_ids
    answer = {  # the generation prompt goes before the response
        "parent": 1,
        "sampled": True,
        "token_ids": [last, *row.response_ids],
        "mask": [False, *[True] * row.length],
    }
    other = {"sampled": False, "token_ids": [7, 8], "mask": [False] * 2}
    trace = {
        "task": {"key": row.question_id, "hash": "f00d"},
        "agent": {"name": "agent", "trainable": True},
        "nodes": [other, {"sampled": False, "token_ids": before, "mask": [False] * len(before)}, answer],
        "calls": [{"node": 2, "finish_reason": row.finish_reason}],
        "rewards": {
            "correct": {"score": float(row.correct), "weight": 0.5},
            "form": {"score": 0.5, "weight": row.correct},
        },
        "ok": True,
    }
    judge = trace | {"agent": {"name": "judge", "trainable": False}}
    return {"id": f"e-{row.response_id}", "group": {"id": group}, "traces": [trace, judge]}
