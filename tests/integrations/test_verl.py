"""Exact ids in verl's rollout dump, written by a stand-in of verl's trainer with the documented form of its data."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

from cocal import Companion
from cocal.integrations.verl import ExactIds
from cocal.own_policy.rollouts import find

PAD = 0


class Dumping:
    """The part of verl's `RayPPOTrainer` that writes a rollout dump."""

    def __init__(self, tokenizer, step: int):
        self.tokenizer, self.global_steps = tokenizer, step

    def _log_rollout_data(self, batch, reward_extra_infos_dict, timing_raw, rollout_data_dir):
        fields = {
            "input": self.tokenizer.batch_decode(batch.batch["prompts"], skip_special_tokens=True),
            "output": self.tokenizer.batch_decode(batch.batch["responses"], skip_special_tokens=True),
            "score": batch.batch["token_level_scores"].sum(-1).tolist(),
        }
        count = len(fields["input"])
        fields |= {"gts": ["?"] * count, "step": [self.global_steps] * count}
        fields |= {name: values for name, values in reward_extra_infos_dict.items() if len(values) == count}
        lines = [json.dumps({name: values[k] for name, values in fields.items()}) for k in range(count)]
        (Path(rollout_data_dir) / f"{self.global_steps}.jsonl").write_text("\n".join(lines) + "\n")


class Trainer(ExactIds, Dumping):
    pass


def _proto(rows: pd.DataFrame) -> SimpleNamespace:
    """verl's DataProto: prompts padded on the left, responses on the right."""
    prompts, responses = (rows[name].map(list).tolist() for name in ("prompt_ids", "response_ids"))
    wide, long = max(map(len, prompts)), max(map(len, responses))
    left = [[PAD] * (wide - len(ids)) + [int(i) for i in ids] for ids in prompts]
    right = [[int(i) for i in ids] + [PAD] * (long - len(ids)) for ids in responses]
    masks = [
        [0] * (wide - len(p)) + [1] * (len(p) + len(r)) + [0] * (long - len(r))
        for p, r in zip(prompts, responses, strict=True)
    ]
    scores = torch.zeros(len(rows), long)
    scores[:, -1] = torch.tensor(rows["correct"].to_numpy(dtype=np.float32))
    batch = {"prompts": torch.tensor(left), "responses": torch.tensor(right), "attention_mask": torch.tensor(masks)}
    uid = np.array([f"group {name}" for name in rows["question_id"]], dtype=object)
    return SimpleNamespace(batch=batch | {"token_level_scores": scores}, non_tensor_batch={"uid": uid})


def test_the_ids_that_verl_sampled_reach_the_companion(own, tmp_path):
    rollouts = own.rollouts
    for step, rows in rollouts.groupby("step"):
        trainer = Trainer(own.policy.tokenizer, int(step))
        trainer._log_rollout_data(_proto(rows), {"acc": rows["correct"].tolist()}, {}, str(tmp_path))
    encoder = Companion.from_pretrained(own.companion).encoder(own.policy)
    samples = list(find([tmp_path]).samples({}, Counter()))
    found = encoder.encode(samples)
    assert all(one.exact for one in found)
    for name, column in (("prompt", "prompt_ids"), ("response", "response_ids")):
        assert [getattr(one, name).tolist() for one in found] == [[*map(int, ids)] for ids in rollouts[column]]
    assert [one.truncated for one in found] == rollouts["truncated"].tolist()
    assert [one.group for one in samples] == [f"group {name}" for name in rollouts["question_id"]]
    assert [one.label for one in samples] == rollouts["correct"].astype(float).tolist()
