"""Adapters that PEFT has trained: merged in memory, the same states as the adapter's own model, and none of another."""

import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from cocal import Companion
from cocal.errors import ContractError
from cocal.fitting.models import Checkpoint
from cocal.models.adapters import check_base, merged
from cocal.models.loading import load_policy
from hand_rows import lines
from micro import change_json, own_copy
from own_rollouts import read_lines, run

peft = pytest.importorskip("peft", reason="PEFT comes with the extra dev")
LoraConfig, PromptTuningConfig = peft.LoraConfig, peft.PromptTuningConfig
KINDS = {
    "LoRA": {"r": 4, "target_modules": ["q_proj", "down_proj"]},
    "DoRA": {"r": 3, "target_modules": ["v_proj"], "use_dora": True},
    "with a whole layer": {"r": 2, "target_modules": ["k_proj"], "modules_to_save": ["lm_head"]},
}


@pytest.fixture
def trained(own, tmp_path):
    """Make an adapter of the micro policy; returns its folder and the model with it, as PEFT computes it."""

    def train(settings, name="adapter", changed=0.2):
        torch.manual_seed(7)
        if not (tmp_path / "base").exists():
            own_copy(own.checkpoint, tmp_path / "base")
        model = peft.get_peft_model(load_policy(tmp_path / "base").model, settings)
        for weights in model.parameters():
            if weights.requires_grad:
                weights.data += changed * torch.randn(weights.shape)
        model.save_pretrained(tmp_path / name)
        return tmp_path / name, model.eval()

    return train


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_adapter_computes_what_peft_does(own, trained, kind):
    folder, model = trained(LoraConfig(task_type="CAUSAL_LM", **KINDS[kind]))
    ids = torch.tensor([[5, 6, 7, 30, 40, 50]])
    with torch.no_grad():
        expected, alone = model(ids).logits, own.policy.model(ids).logits
        found = merged(load_policy(own.checkpoint).model, folder).eval()(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (found - alone).abs().max() > 0.05


def test_an_adapter_that_does_not_fit_is_refused_and_not_left_out(own, trained, tmp_path):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    weights = folder / "adapter_model.safetensors"
    whole = load_file(weights)
    wrapped = {name.replace("model.model.", "model._orig_mod.model."): one for name, one in whole.items()}
    cases = {
        "do not go together": wrapped,
        "4 weights of the adapter": {name: one for name, one in whole.items() if "layers.1" not in name},
        "cannot be merged into this model": {name: one[:, :-1].contiguous() for name, one in whole.items()},
    }
    for message, changed in cases.items():
        save_file(changed, weights)
        with pytest.raises(ContractError, match=message):
            merged(load_policy(own.checkpoint).model, folder)
    weights.unlink()
    with pytest.raises(ContractError, match=r"adapter_model.safetensors: there is no such file of an adapter"):
        merged(load_policy(own.checkpoint).model, folder)
    prompts, _ = trained(PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3), "prompts")
    with pytest.raises(ContractError, match="prompts: the adapter cannot be merged into this model"):
        merged(load_policy(own.checkpoint).model, prompts)


def test_the_folder_of_verl_s_merger_is_read_with_its_adapter_alone(own, trained, fit, tmp_path, capsys):
    """The base model's weights, and below them an adapter whose lora_alpha the merger does not know."""
    trained(LoraConfig(**KINDS["LoRA"]), "base/lora_adapter")
    base, below = tmp_path / "base", tmp_path / "base/lora_adapter"
    file = below / "adapter_config.json"
    change_json(file, base_model_name_or_path=None)
    settings = file.read_text()
    for alpha in (0, 0.0):
        change_json(file, lora_alpha=alpha)
        assert fit(own.verl, "--model", base, "--adapter", below) == 2
        said = "lora_alpha is 0, with which the adapter changes nothing; put the value of the training there"
        assert f"{file}: {said}" in capsys.readouterr().err
    file.write_text(settings)
    assert fit(own.verl, "--model", base) == 2
    said = f"{base}: an adapter lies below the model, and is not read with it (verl's model_merger saves them so); "
    assert f"{said}give it to cocal fit and cocal score (--adapter {below})" in capsys.readouterr().err
    found = Checkpoint.find(str(base), adapter=below).load("float32").model
    expected = merged(load_policy(own.checkpoint).model, below)
    assert all(torch.equal(*pair) for pair in zip(found.parameters(), expected.parameters(), strict=True))


def test_an_adapter_of_another_model_is_warned_of(own, trained, tmp_path, caplog):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    for base, name in (("Org/Micro", "org/Micro"), ("Org/other", tmp_path / "other"), ("", "org/Micro")):
        change_json(folder / "adapter_config.json", base_model_name_or_path=base)
        check_base(folder, str(name), own.checkpoint)
    change_json(folder / "adapter_config.json", base_model_name_or_path="Org/Micro")
    check_base(folder, "0123", tmp_path / "models--Org--Micro/snapshots/0123")
    assert caplog.text == ""
    check_base(folder, "Org/Macro", own.checkpoint)
    assert "the adapter was trained on Org/Micro; if Org/Macro is another model, the confidences mean" in caplog.text


def test_an_adapter_that_is_no_number_or_not_there_is_named(own, trained):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    weights = load_file(folder / "adapter_model.safetensors")
    next(iter(weights.values()))[0, 0] = float("nan")
    save_file(weights, folder / "adapter_model.safetensors")
    with pytest.raises(ContractError, match=rf"{folder}: the weight .* holds NaN or infinity"):
        merged(load_policy(own.checkpoint).model, folder)
    (folder / "adapter_model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n")
    with pytest.raises(ContractError, match=r"adapter_model.safetensors: is a pointer of git-lfs"):
        merged(load_policy(own.checkpoint).model, folder)


def test_fit_and_score_read_the_states_of_the_merged_model(own, trained, fit, tmp_path, capsys, caplog):
    folder, model = trained(LoraConfig(task_type="CAUSAL_LM", **KINDS["LoRA"]))
    base, output = tmp_path / "base", tmp_path / "companion"
    assert fit(own.verl, "--model", base, "--adapter", folder) == 0
    assert f"--model {base} --adapter {folder}" in capsys.readouterr().out
    source = lines(tmp_path / "in.jsonl", {"prompt_ids": [5, 6, 7], "response_ids": [30, 31, 2]})

    def scored(name, *more):
        assert run("score", "--companion", output, "--model", name, *more, source, tmp_path / "out", "--overwrite") == 0
        return read_lines(tmp_path / "out")[0]["confidence"]

    with_it = scored(base, "--adapter", folder)
    assert "the companion was fitted for the states" not in caplog.text
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(base / file, tmp_path / "merged")
    expected = Companion.from_pretrained(output).score(*load_policy(tmp_path / "merged"), [[5, 6, 7]], [[30, 31, 2]])
    assert with_it == pytest.approx(expected[0], abs=1e-4)
    assert abs(scored(base) - with_it) > 1e-4
    assert "with an adapter, and these are without one; give what it was fitted for (--adapter)" in caplog.text


def test_an_adapter_brings_the_tokenizer_that_it_was_trained_with(own, trained, tmp_path):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(own.checkpoint / file, folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }} its own")
    found = Checkpoint.find(str(tmp_path / "base"), adapter=folder).load("float32")
    assert found.tokenizer.chat_template.endswith("its own")


def test_without_peft_one_sentence_says_so(own, trained, fit, tmp_path, capsys, monkeypatch):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert fit(own.verl, "--model", tmp_path / "base", "--adapter", folder) == 2
    assert "--adapter needs PEFT, which is not installed: pip install peft" in capsys.readouterr().err


def test_an_adapter_beside_its_model_is_refused(own, trained, fit, tmp_path, capsys):
    folder, _ = trained(LoraConfig(**KINDS["LoRA"]))
    beside = shutil.copytree(folder, tmp_path / "base", dirs_exist_ok=True)
    assert fit(own.verl, "--model", beside) == 2
    assert f"{beside}: adapter_config.json lies beside the model" in capsys.readouterr().err
