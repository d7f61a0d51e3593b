"""The page of formats: its examples are read, and its converters make rollouts of the lines of other engines."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import engine_lines
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.experience import experience_of
from cocal.rollouts.files import find
from cocal.rollouts.format import Reading
from cocal.rollouts.formats import FORMATS
from dumps import GROUP
from hand_rows import lines, noted, samples

PAGE = Path(__file__).parents[3].joinpath("docs/formats.md").read_text(encoding="utf-8")
CODE: dict = {}
for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
    exec(block, CODE)

WRITERS = {
    "nemo_rl": lambda own, folder: engine_lines.write_nemo(folder, own.rollouts, 0),
    "roll": lambda own, folder: engine_lines.write_roll(folder, own.rollouts, own.texts),
    "areal": lambda own, folder: engine_lines.write_areal(folder, own.rollouts, own.policy.tokenizer),
    "skyrl": lambda own, folder: engine_lines.write_skyrl(folder, own.rollouts, own.policy.tokenizer),
    "prime_rl": lambda own, folder: engine_lines.write_prime_rl(folder, own.rollouts),
}


EXAMPLES = re.findall(r"^\* (.+), `(\S+\.jsonl)`: `(.+)`$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0])
def test_an_example_of_the_page_is_read_as_its_format(tmp_path, example):
    kind, name, row = example
    path = lines(tmp_path / name, json.loads(row))
    assert find([path]).kind.name == kind
    assert len(samples(path)) == 1


def test_the_page_has_a_row_for_every_format():
    assert [kind.name for kind in FORMATS if f"| {kind.name} |" not in PAGE] == []
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("name", WRITERS)
def test_converted_rollouts_become_experience(tmp_path, own, name):
    files = {"files": "train/all/traces.jsonl"} if name == "prime_rl" else {}
    CODE["convert"](CODE[name], WRITERS[name](own, tmp_path / "theirs"), tmp_path / "ours.jsonl", **files)
    found, given = samples(tmp_path / "ours.jsonl"), own.rollouts
    table = experience_of(iter(found), Encoder(own.policy, Reading(max_response_length=20))).rows
    assert (table["step"] // (5 if name == "skyrl" else 1)).tolist() == given["step"].tolist()
    assert table["correct"].tolist() == given["correct"].tolist()
    np.testing.assert_array_equal(table["group_accuracy"], given["group_accuracy"])
    assert table.groupby(["step", "question_id"]).size().eq(GROUP).all()
    assert name == "roll" or [[*one] for one in table["prompt_ids"]] == [[*one] for one in given["prompt_ids"]]
    if name in ("nemo_rl", "prime_rl"):
        assert [[*one] for one in table["response_ids"]] == [[*one] for one in given["response_ids"]]
    if name in ("nemo_rl", "prime_rl", "skyrl"):
        assert table["truncated"].tolist() == given["truncated"].tolist()


def test_a_conversation_of_nemo_rl_is_left_out_and_a_chat_of_nemo_gym_is_read(tmp_path):
    logged = {"input_lengths": [6], "token_ids": [[5, 6, 7, 8, 9, 4, 0]], "rewards": [1.0]}
    masks = [0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0], [0] * 7
    found = [row for mask in masks for row in CODE["nemo_rl"](logged | {"token_loss_mask": [mask]})]
    (one,), notes = noted(lines(tmp_path / "1.jsonl", *found))
    assert (one.prompt_ids.tolist(), one.response_ids.tolist()) == ([5, 6], [7, 8, 9, 4])
    assert [note.partition(" left out")[0] for note in notes] == ["1 row", "1 row"]
    chat = [{"role": "user", "content": "2 + 3?"}]
    said = [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "It is 5."}]}]
    gym = {"responses_create_params": {"input": chat}, "response": {"output": said}, "reward": 1.0}
    (one,) = samples(lines(tmp_path / "2.jsonl", *CODE["nemo_gym"](gym)))
    assert (one.prompt, one.response, one.reward) == (tuple(chat), "It is 5.", 1.0)


class V1:
    """What verl's `PPOTrainer` of V1 does with a rollout dump."""

    def _log_rollout_data(self, batch, timing_raw, rollout_data_dir):
        texts = [f"user\n{name}\nassistant\n" for name in batch.keys]
        self._dump_generations(
            texts, ["It is 5."] * len(texts), texts, [1.0] * len(texts), {"uid": [*batch.keys]}, rollout_data_dir
        )

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        columns = {"input": inputs, "output": outputs, "score": scores, "step": [3] * len(inputs)}
        columns |= reward_extra_infos_dict
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        Path(dump_path).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_ids_of_verl_stand_beside_its_texts(tmp_path, monkeypatch):
    """Sessions of several outputs, of which the last was scored, and the words of a tool are left out."""
    masks = {"a_0_0": [1, 1], "a_1_0": [1, 1], "a_1_1": [1, 1], "b_0_0": [1, 0, 1], "b_10_0": [1, 1, 1]}

    def kv_batch_get(keys, partition_id, select_fields):
        assert partition_id == "train"
        ids = {"prompts": lambda key: [40, 41], "responses": lambda key: [42, 43, 44][: len(masks[key])]}
        ids["response_mask"] = masks.__getitem__
        rows = {name: [torch.tensor(ids[name](key)) for key in keys] for name in select_fields}
        return {name: torch.nested.as_nested_tensor(one, layout=torch.jagged) for name, one in rows.items()}

    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kv_batch_get))
    trainer = type("Trainer", (CODE["ExactIds"], V1), {})()
    trainer._log_rollout_data(SimpleNamespace(keys=[*masks], partition_id="train"), {}, tmp_path / "3.jsonl")
    found, notes = noted(tmp_path / "3.jsonl")
    assert [(one.response_ids.tolist(), one.prompt_ids.tolist(), one.group) for one in found] == [
        ([42, 43], [40, 41], "a"),
        ([42, 43, 44], [40, 41], "b"),
    ]
    assert [note.partition(" left out")[0] for note in notes] == ["2 rows", "1 row"]
