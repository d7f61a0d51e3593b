"""What one does with a companion in a notebook: values as they come, a model that stays as it is, what it shows."""

import base64
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.confidence.evaluation import html
from cocal.errors import ContractError
from cocal.fitting.config import BaseModelInfo
from cocal.fitting.held_out import HeldOut
from cocal.fitting.models import Checkpoint
from cocal.models.loading import read_config
from started import script

SETTINGS = CompanionSettings(targets=("binary",), widths=(8, 4), dropout=(0.1,), passes=2, seeds=(42, 137))
CHAT = [{"role": "user", "content": "Was ist 3 + 4?"}]


@pytest.fixture(scope="module")
def companion(micro_policy, table) -> Companion:
    return Companion.fit(*micro_policy, table.drop(columns=["step", "group"]), settings=SETTINGS, base_model="me/mine")


@pytest.fixture
def policy(micro_policy):
    """A model in training, but for one part, with a weight that is not trained; afterwards as it was."""
    model, tokenizer = micro_policy
    model.train()
    model.lm_head.eval()
    model.lm_head.weight.requires_grad_(False)
    yield model, tokenizer
    model.eval()
    model.lm_head.weight.requires_grad_(True)


def _state(model) -> list:
    return [
        [(name, part.training) for name, part in model.named_modules()],
        [(name, one.requires_grad, one.device, one.grad) for name, one in model.named_parameters()],
        model.config.to_dict(),
    ]


def test_the_model_stays_as_it_is(policy, table, companion):
    before = _state(policy[0])
    assert {training for _, training in before[0]} == {True, False}
    found = Companion.fit(*policy, table, settings=SETTINGS)
    assert _state(policy[0]) == before
    found.score(*policy, CHAT, "7")
    with pytest.raises(ContractError):
        found.score(*policy, CHAT, [[10**6]])
    assert _state(policy[0]) == before


def test_values_alone_are_those_in_lists(companion, micro_policy):
    listed = companion.score(*micro_policy, [CHAT], ["7"])
    for prompts, responses in ((CHAT, "7"), ([CHAT], "7"), (CHAT, ["7"]), (tuple(CHAT), ("7",))):
        np.testing.assert_array_equal(companion.score(*micro_policy, prompts, responses), listed)
    np.testing.assert_array_equal(companion.score(*micro_policy, CHAT[0]["content"], "7"), listed)
    several = companion.score(*micro_policy, [CHAT] * 3, ["7", "8", "12 + 1"])
    assert len(np.unique(several)) == 3
    np.testing.assert_array_equal(companion.score(*micro_policy, CHAT, ["7", "8", "12 + 1"]), several)
    with pytest.raises(ContractError, match="2 prompts but 3 responses"):
        companion.score(*micro_policy, [CHAT] * 2, ["7"] * 3)


def test_what_generate_returns_is_scored_without_padding(companion, micro_policy):
    """Rows that ended early have padding, which as many rows of lists without it have not."""
    model, tokenizer = micro_policy
    chat = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    torch.manual_seed(1)
    chat.pop("token_type_ids", None)
    sampled = model.generate(**chat, do_sample=True, max_new_tokens=24, num_return_sequences=12, temperature=1.2)
    new = sampled[:, chat["input_ids"].shape[1] :]
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id} - {None}
    rows = [[*row[: next((k for k, one in enumerate(row) if one in ends), len(row)) + 1]] for row in new.tolist()]
    assert len({*map(len, rows)}) > 2, "some ended early"
    expected = companion.score(*micro_policy, [chat["input_ids"][0].tolist()] * 12, rows)
    assert len(np.unique(expected)) > 4
    prompt = chat["input_ids"]
    for prompts, responses in ((prompt, new), (prompt.expand(12, -1), new), ([prompt] * 12, [*new]), (CHAT, new)):
        np.testing.assert_array_equal(companion.score(*micro_policy, prompts, responses), expected)
    np.testing.assert_allclose(companion.score(*micro_policy, prompt[0], new[3]), expected[3:4], atol=1e-6)


def test_what_a_tokenizer_returns_is_read_by_its_ids(companion, micro_policy):
    """Its keys are as many as two responses, but no prompts."""
    template, asked = micro_policy[1].apply_chat_template, {"add_generation_prompt": True, "return_dict": True}
    expected = companion.score(*micro_policy, CHAT, ["7", "8"])
    one, two = template(CHAT, **asked), template([CHAT, CHAT], **asked)
    for prompts in (one, two, [one, one], template(CHAT, return_tensors="pt", **asked)):
        np.testing.assert_array_equal(companion.score(*micro_policy, prompts, ["7", "8"]), expected)


def test_what_is_longer_than_the_context_is_refused(companion, micro_policy):
    reads = micro_policy[0].config.max_position_embeddings
    fitting = [[5] * 9], [[7] * (reads - 9)]
    assert len(companion.score(*micro_policy, *fitting)) == 1
    with pytest.raises(ContractError, match=rf"response 0: prompt and response have {reads + 1:,} tokens, and the "):
        companion.score(*micro_policy, [[5] * 10], fitting[1])


def test_a_notebook_shows_the_card_s_numbers_and_a_diagram(companion):
    config = companion.config
    shown, words = companion._repr_html_(), config.summary()
    read = "".join(f"\n  {note}" for note in config.notes)
    assert repr(companion) == f"Companion of me/mine (Hidden layers 8 / 4){read}\n\n{words}"
    numbers = re.findall(r"\b0\.\d{3}\b", words)
    assert len(numbers) > 1
    assert [number for number in numbers if number not in shown] == []
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
    assert picture.startswith(b"\x89PNG")
    held = config.held_out_all_steps or config.held_out
    assert sum(one.count for one in held.bins) == held.responses
    assert "<img" not in html(config.model_copy(update={"held_out": None, "held_out_all_steps": None}), words)
    strange = config.base_model.model_copy(update={"name": "<script>"})
    assert "<script>" not in html(config.model_copy(update={"base_model": strange}), words)


def test_a_card_names_what_there_is(companion, micro_policy, table):
    """No step where the rollouts name none, and the model as its own settings or its owner do."""
    card = companion.config.card()
    assert "# Companion of me/mine" in card
    assert "rollout step" not in card
    found = Companion.fit(*micro_policy, table.assign(step=np.arange(len(table)) // 30 + 91), settings=SETTINGS).config
    assert f"{found.spec.training_responses} responses of rollout steps up to 92, of which" in found.card()
    assert f"# Companion of {Path(micro_policy[0].config.name_or_path).name}" in found.card()
    assert isinstance(found.held_out, HeldOut)


def test_a_hub_that_is_not_reached_is_told_in_one_sentence(companion):
    """The tests are offline."""
    with pytest.raises(ContractError, match=r"^me/mine: not uploaded \(.*\); save ") as told:
        companion.push_to_hub("me/mine")
    assert "\n" not in str(told.value)


class Repository:
    """The Hub's client with one repository, which is a folder."""

    def __init__(self, folder: Path):
        self.folder, self.deleted = folder, None

    def create_repo(self, repo_id, private, exist_ok):
        return SimpleNamespace(repo_id=repo_id)

    def list_repo_files(self, name, revision):
        return [file.name for file in self.folder.iterdir()]

    def hf_hub_download(self, name, file, revision):
        return str(self.folder / file)

    def upload_folder(self, repo_id, folder_path, delete_patterns=None):
        self.deleted = delete_patterns
        shutil.copytree(folder_path, self.folder, dirs_exist_ok=True)
        return "a-commit"


def test_no_other_repository_is_replaced(companion, tmp_path, monkeypatch):
    hub = Repository(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi", lambda token: hub)
    for _ in range(2):
        assert companion.push_to_hub("me/mine") == "a-commit"
        assert hub.deleted == "states-alone/*"
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    weights = (tmp_path / "model.safetensors").write_bytes(b"theirs")
    with pytest.raises(ContractError, match=r"^me/mine: the repository holds something else than a companion"):
        companion.push_to_hub("me/mine")
    assert (tmp_path / "model.safetensors").stat().st_size == weights


def test_a_model_of_a_folder_is_none_of_the_hub_s(own, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/step-5").symlink_to(own.checkpoint)
    monkeypatch.chdir(tmp_path)
    assert Checkpoint.find("runs/step-5").architecture.shown == "step-5"
    assert BaseModelInfo.of(read_config(own.checkpoint), "me/model").shown == "me/model"


def test_the_notebook_of_the_documentation_runs(tmp_path, own, repository, monkeypatch):
    """On the micro policy in the places of the embedded study's; each cell that says something there says it here."""
    notebook = script("docs/notebook.py")
    for place, source in (("policies", own.checkpoint), ("rollouts", own.verl)):
        folder = tmp_path / "results" / place / "tiny/grpo"
        folder.parent.mkdir(parents=True)
        if place == "policies":
            folder.mkdir()
            folder /= "step-120"
        folder.symlink_to(source)
    stored = repository / "docs/own_policy.ipynb"
    shutil.copy(stored, tmp_path)
    monkeypatch.chdir(tmp_path)
    notebook.run(tmp_path / stored.name)
    cells, expected = (json.loads(path.read_text())["cells"] for path in (tmp_path / stored.name, stored))
    for cell, one in zip(cells, expected, strict=True):
        assert cell["source"] == one["source"]
        said, stated = ([out["output_type"] for out in part.get("outputs", [])] for part in (cell, one))
        assert said == stated
    said = notebook.page(tmp_path / stored.name)
    assert "data:image/png;base64," in said
    assert re.search(r"^```text\n0\.\d{4}  ", said, re.MULTILINE)
    assert float(re.findall(r"```text\n(.*)\n```", said)[-1]) == 0.0
