"""Exact ids in verl's rollout dump, written by stand-ins of verl's trainers with the documented form of their data."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from cocal import Companion
from cocal.integrations.verl import ExactIds
from cocal.own_policy.rollouts import find
from cocal.own_policy.states import Encoder

PAD = 0


class Writing:
    """The part that V0 and V1 have in common."""

    def __init__(self, tokenizer, step: int):
        self.tokenizer, self.global_steps = tokenizer, step

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        fields = {"input": inputs, "output": outputs, "gts": gts, "score": scores, **reward_extra_infos_dict}
        rows = pd.DataFrame(fields).assign(step=self.global_steps)
        rows.to_json(Path(dump_path) / f"{self.global_steps}.jsonl", orient="records", lines=True)


class V0(Writing):
    """The part of verl's `RayPPOTrainer` that gathers a rollout dump."""

    def _log_rollout_data(self, batch, reward_extra_infos_dict, timing_raw, rollout_data_dir):
        self._dump_generations(
            inputs=self.tokenizer.batch_decode(batch.batch["prompts"], skip_special_tokens=True),
            outputs=self.tokenizer.batch_decode(batch.batch["responses"], skip_special_tokens=True),
            gts=["?"] * len(batch.batch["prompts"]),
            scores=batch.batch["token_level_scores"].sum(-1).tolist(),
            reward_extra_infos_dict=reward_extra_infos_dict,
            dump_path=rollout_data_dir,
        )


class V1(Writing):
    """The part of verl's `PPOTrainer` of V1 that gathers a rollout dump from its TransferQueue."""

    def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
        import transfer_queue as tq

        wanted = ["uid", "prompts", "responses", "rm_scores"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=wanted)
        texts = {
            name: [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in data[name].to_padded_tensor(PAD)]
            for name in ("prompts", "responses")
        }
        scores = data["rm_scores"].to_padded_tensor(0.0).sum(dim=1).tolist()
        parts = [key.rsplit("_", 2) for key in batch.keys]
        order = sorted(range(len(parts)), key=lambda k: (parts[k][0], int(parts[k][1]), int(parts[k][2])))
        self._dump_generations(
            inputs=[texts["prompts"][k] for k in order],
            outputs=[texts["responses"][k] for k in order],
            gts=["?"] * len(order),
            scores=[scores[k] for k in order],
            reward_extra_infos_dict={"uid": [batch.keys[k] for k in order]},
            dump_path=rollout_data_dir,
        )


class Trainer(ExactIds, V0):
    pass


class Trainer1(ExactIds, V1):
    pass


@pytest.fixture
def queue(monkeypatch):
    """verl's TransferQueue: what `kv_batch_get` gives for keys; tensors of several lengths are nested."""

    def keep(stored: dict[str, dict]):
        def kv_batch_get(keys, partition_id, select_fields):
            assert partition_id == "train"
            rows = [stored[key] for key in keys]
            return {
                name: torch.nested.as_nested_tensor([row[name] for row in rows], layout=torch.jagged)
                if torch.is_tensor(rows[0][name])
                else [row[name] for row in rows]
                for name in select_fields
            }

        monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kv_batch_get))

    return keep


def _proto(rows: pd.DataFrame) -> SimpleNamespace:
    """verl's DataProto: prompts padded on the left, responses on the right."""
    prompts, responses = (rows[name].map(list).tolist() for name in ("prompt_ids", "response_ids"))
    wide, long = max(map(len, prompts)), max(map(len, responses))
    left = [[PAD] * (wide - len(ids)) + [int(i) for i in ids] for ids in prompts]
    right = [[int(i) for i in ids] + [PAD] * (long - len(ids)) for ids in responses]
    sizes = zip(map(len, prompts), map(len, responses), strict=True)
    masks = [[0] * (wide - prompt) + [1] * (prompt + response) + [0] * (long - response) for prompt, response in sizes]
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
    encoder = Companion.from_pretrained(own.companion).about.encoder(own.policy)
    samples = list(find([tmp_path]).samples({}, Counter()))
    found = encoder.encode(samples)
    assert all(one.exact for one in found)
    for name, column in (("prompt", "prompt_ids"), ("response", "response_ids")):
        assert [getattr(one, name).tolist() for one in found] == [[*map(int, ids)] for ids in rollouts[column]]
    assert [one.truncated for one in found] == rollouts["truncated"].tolist()
    assert [one.group for one in samples] == [f"group {name}" for name in rollouts["question_id"]]
    assert [one.label for one in samples] == rollouts["correct"].astype(float).tolist()


def _stored(uid: str, prompt, response, mask, correct: float) -> dict:
    """What the queue holds of a response."""
    scores = torch.zeros(len(mask))
    scores[-1] = correct
    ids = {"prompts": prompt, "responses": response, "response_mask": mask}
    return {name: torch.tensor(list(one)) for name, one in ids.items()} | {"rm_scores": scores, "uid": uid}


def test_the_ids_of_v1_reach_the_companion(own, tmp_path, queue):
    """Its keys are PROMPT_SESSION_OUTPUT, and it sorts the file by them."""
    rows = own.rollouts[own.rollouts["step"] == 2]
    stored = {
        f"u_{row.question_id}_{place}_0": _stored(
            f"u_{row.question_id}", row.prompt_ids, row.response_ids, [1] * row.length, float(row.correct)
        )
        for place, row in enumerate(rows.itertuples())
    }
    queue(stored)
    batch = SimpleNamespace(keys=[*stored][::-1], partition_id="train")
    Trainer1(own.policy.tokenizer, 2)._log_rollout_data(batch, {}, str(tmp_path))
    samples = list(find([tmp_path]).samples({}, Counter()))
    given = {(tuple(one.prompt_ids), tuple(one.response_ids), one.label, one.group) for one in samples}
    assert given == {
        (tuple(row.prompt_ids), tuple(row.response_ids), float(row.correct), f"u_{row.question_id}")
        for row in rows.itertuples()
    }
    assert len(samples) == len(rows)
    assert all(one.exact for one in Encoder(own.policy).encode(samples))


def test_outputs_of_one_session_and_words_of_tools_are_left_out(own, tmp_path, queue):
    """V1 writes every output of a session, each with the score of the last."""
    masks = {"a_0_0": [1, 1], "a_1_0": [1, 1], "a_1_1": [1, 1], "b_0_0": [1, 0, 1], "b_10_0": [1, 1], "b_2_0": [1, 1]}
    queue({key: _stored(key[0], [40, 41], [42, 43, 44][: len(mask)], mask, 1.0) for key, mask in masks.items()})
    batch = SimpleNamespace(keys=[*masks], partition_id="train")
    Trainer1(own.policy.tokenizer, 1)._log_rollout_data(batch, {}, str(tmp_path))
    notes: Counter = Counter()
    found = list(find([tmp_path]).samples({}, notes))
    assert [sample.where.rpartition(" ")[2] for sample in found] == ["1", "5", "6"]
    assert [note for note in notes if "left out" in note] == [
        "2 rows left out: its session has several outputs",
        "1 row left out: its mask excludes tokens that the policy did not write",
    ]


def test_tools_of_v0_are_left_out(own, tmp_path):
    rows = own.rollouts[own.rollouts["step"] == 1].iloc[:4]
    proto = _proto(rows)
    proto.batch["response_mask"] = torch.ones_like(proto.batch["responses"])
    proto.batch["response_mask"][1, 1] = 0
    Trainer(own.policy.tokenizer, 1)._log_rollout_data(proto, {}, {}, str(tmp_path))
    notes: Counter = Counter()
    found = list(find([tmp_path]).samples({}, notes))
    assert [sample.where.rpartition(" ")[2] for sample in found] == ["1", "3", "4"]
    assert [note for note in notes if "left out" in note] == [
        "1 row left out: its mask excludes tokens that the policy did not write",
    ]


def test_a_trainer_of_another_version_is_refused_when_its_class_is_defined():
    class Later(Writing):
        def _log_rollout_data(self, batch, folder):
            """A hook of other parameters, which is read and never called."""

    for bases in ((ExactIds, Later), (ExactIds, Writing), (V1, ExactIds)):
        with pytest.raises(TypeError, match=r"ExactIds must stand before a trainer of verl whose _log_rollout_data"):
            type("Mine", bases, {})
