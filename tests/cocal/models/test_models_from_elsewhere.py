"""Models, tokenizers and templates from elsewhere: any architecture is read, and no code is run."""

import ast
import io
import json
import os
import re
import shutil

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.utils import filter_repo_objects
from transformers import AutoModelForCausalLM

from cocal import Companion
from cocal.errors import ContractError
from cocal.features.extract import pooled_states
from cocal.features.store import Layout
from cocal.fitting.models import Checkpoint
from cocal.models.hub import download
from cocal.models.loading import decoder_of, load_policy, load_tokenizer
from cocal.models.text import template_fault
from cocal.rollouts.encoding import Encoder
from hand_rows import lines
from micro import change_json, own_copy
from own_rollouts import read_lines

SIZE = {"vocab_size": 384, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
"""No two of its numbers are the same."""
GATED = {**SIZE, "intermediate_size": 40, "num_key_value_heads": 1, "head_dim": 10}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
ARCHITECTURES = {
    "GPT2": ({"vocab_size": 384, "n_embd": 24, "n_layer": 3, "n_head": 2}, "transformer.ln_f"),
    "GPTNeoX": ({**SIZE, "intermediate_size": 40}, "gpt_neox.final_layer_norm"),
    "Llama": (GATED, "model.norm"),
    "Qwen2": (GATED, "model.norm"),
    "Gemma": (GATED, "model.norm"),
    "Gemma2": ({**GATED, "attn_logit_softcapping": 0.05, "sliding_window": 4}, "model.norm"),
    "Gemma3": ({"text_config": {**GATED, "sliding_window": 4}, "vision_config": {"num_hidden_layers": 1}}, None),
    "GptOss": ({**GATED, "num_local_experts": 2, "num_experts_per_tok": 1}, "model.norm"),
    "DeepseekV3": (
        {
            **SIZE,
            **{"intermediate_size": 40, "num_key_value_heads": 2, "first_k_dense_replace": 3, "q_lora_rank": 12},
            **{"kv_lora_rank": 14, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8},
        },
        "model.norm",
    ),
    "OPT": ({**SIZE, "ffn_dim": 40, "word_embed_proj_dim": 24}, "model.decoder.final_layer_norm"),
    "Phi": ({**SIZE, "intermediate_size": 40}, "model.final_layernorm"),
    "Bloom": ({**SIZE, "n_head": 2}, "transformer.ln_f"),
    "Mamba": ({"vocab_size": 384, "hidden_size": 24, "num_hidden_layers": 3, "state_size": 5}, "backbone.norm_f"),
}
"""Tiny models by the beginning of their names in transformers, and their final norms."""
PROMPTS = [[5, 30, 40, 50, 9, 8], [5, 31]]
RESPONSES = [[60, 61, 62, 63, 2], [70, 71, 2]]


@pytest.fixture
def made(micro_checkpoint, tmp_path):
    """Make a checkpoint with random weights and the micro policy's tokenizer, with or without its template."""

    def make(name, template=True):
        torch.manual_seed(3)
        settings, _ = ARCHITECTURES[name]
        config = getattr(transformers, f"{name}Config")(**settings, **ENDS)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        for weights in model.parameters():  # those of a start are so small that blocks hardly differ
            weights.data += 0.1 * torch.randn(weights.shape)
        model.save_pretrained(tmp_path / name)
        files = ["tokenizer.json", "tokenizer_config.json"] + ["chat_template.jinja"] * template
        for file in files:
            shutil.copy(micro_checkpoint / file, tmp_path / name)
        return tmp_path / name, model

    return make


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_of_every_architecture_are_those_before_its_final_norm(made, name):
    """Two rows of different lengths together, in the attention that we choose, against one row by eager attention."""
    folder, model = made(name)
    policy = load_policy(folder)
    assert (policy.blocks, policy.hidden, policy.vocabulary) == (3, 24, 384)
    layout = Layout(2, (0, 1, 2), ("last", "mean"), 24, 2, "float32")
    found = pooled_states(policy, layout, PROMPTS, RESPONSES, 1000)
    norm = ARCHITECTURES[name][1]
    before: list = []
    (model.get_submodule(norm) if norm else model.get_decoder().norm).register_forward_pre_hook(
        lambda _module, inputs: before.append(inputs[0][0])
    )
    for place, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        with torch.no_grad():
            after = model(torch.tensor([prompt + response]), output_hidden_states=True).hidden_states
        blocks = after if name == "Mamba" else after[1:]  # Mamba's have no embeddings at their beginning
        for layer in range(3):
            states = before.pop() if layer == 2 else blocks[layer][0]
            expected = torch.stack([states[-1], states[len(prompt) :].mean(dim=0)])
            np.testing.assert_allclose(found[place, layer], expected, atol=2e-4, rtol=1e-4)
    assert np.abs(found[:, 1] - found[:, 2]).max() > 0.01


def test_a_model_that_is_no_decoder_is_refused_by_its_name(made, tmp_path):
    folder, _ = made("Llama")
    change_json(folder / "config.json", model_type="t5")
    with pytest.raises(ContractError, match="transformers has no causal language model of type t5"):
        load_policy(folder)
    config = transformers.BertConfig(**SIZE, intermediate_size=40, is_decoder=True)
    with pytest.raises(ContractError, match="BertLMHeadModel: the 3 blocks of this architecture are not found"):
        decoder_of(AutoModelForCausalLM.from_config(config))


CODE = """
from pathlib import Path
from transformers import PretrainedConfig, PreTrainedTokenizerFast
Path({ran!r}).touch()
class Own(PretrainedConfig):
    model_type = "own"
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


def _with_code(own, folder, **files):
    """A copy of the micro policy whose settings name code that would leave a file `ran` beside it."""
    own_copy(own.checkpoint, folder)
    (folder / "own.py").write_text(CODE.format(ran=str(folder.with_name("ran"))))
    for file, changes in files.items():
        change_json(folder / f"{file}.json", **changes)
    return folder


def test_code_of_a_model_is_not_run_whatever_is_answered(own, fit, tmp_path, capsys, monkeypatch):
    """transformers would ask on the terminal, and run it on `y`."""
    folder = _with_code(own, tmp_path / "model", config={"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}})
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    assert fit(own.verl, "--model", folder) == 2
    said = capsys.readouterr().err
    assert "the model brings code of its own (auto_map), which is never run; give a model of an architecture" in said
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "companion").exists()


def test_a_model_that_transformers_knows_is_read_without_its_code(own, tmp_path, monkeypatch):
    changes = {"config": "AutoModelForCausalLM", "tokenizer_config": "AutoTokenizer"}
    changes = {file: {"auto_map": {what: "own.Own"}} for file, what in changes.items()}
    changes["config"]["_attn_implementation"] = "somebody/kernel"  # transformers would load it from the hub
    folder = _with_code(own, tmp_path / "model", **changes)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    found = load_policy(folder)
    assert not (tmp_path / "ran").exists()
    pairs = zip(found.model.parameters(), own.policy.model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_a_pipe_among_the_files_of_a_model_is_not_waited_for(own, tmp_path):
    folder = own_copy(own.checkpoint, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    for read in (load_policy, Checkpoint.find):
        with pytest.raises(ContractError, match=r"model.safetensors: is a pipe or a device"):
            read(str(folder))


def test_every_call_that_could_run_a_model_s_code_forbids_it(repository):
    """`AutoTokenizer.from_pretrained` and the like, `datasets.load_dataset`, TRL's settings and vLLM."""
    asked = 0
    for file in [*(repository / "src").rglob("*.py"), *(repository / "docs").glob("*.py")]:
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            if re.fullmatch(r"Auto\w+\.from_pretrained|(\w+\.)?load_dataset|LLM|GRPOConfig", name):
                given = {word.arg: ast.unparse(word.value) for word in call.keywords}
                assert given.get("trust_remote_code") == "False", f"{file}:{call.lineno}: {name}"
                asked += 1
    assert asked == 8


def test_a_template_may_refuse_roles(micro_policy):
    refusal = "{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}"
    refusing = f"{{% for m in messages %}}{refusal}{{{{ m.content }}}}{{% endfor %}}"
    assert template_fault(micro_policy.tokenizer, refusing) is None
    assert template_fault(micro_policy.tokenizer) is None


TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}\n{% endfor %}answer:"


def test_a_model_without_a_template_takes_plain_texts_or_a_template(own, made, fit, tmp_path, capsys):
    """From fit to score: the companion keeps what prompts were, and scores the same ids."""
    folder, _ = made("GPT2", template=False)
    (tmp_path / "mine.jinja").write_text(TEMPLATE)
    source, scored, confidences = tmp_path / "in.jsonl", tmp_path / "out.jsonl", {}
    rollouts = lines(tmp_path / "rollouts.jsonl", *own.as_texts())
    for name, more, template in (("plain", (), ""), ("mine", ("--template", tmp_path / "mine.jinja"), TEMPLATE)):
        output = tmp_path / name
        assert fit(rollouts, "--model", folder, *more, to=name) == 0
        kind = {"plain": "texts without a chat, tokenised as whole texts", "mine": "chats, put into the template"}[name]
        assert f"60 prompts are {kind}" in capsys.readouterr().out
        companion = Companion.from_pretrained(output)
        assert companion.config.template == template
        asked = "What is 2 + 3, and what is 7?"
        lines(source, {"prompt": asked, "response": "5"})
        assert own.score(source, scored, model=folder, companion=output) == 0
        assert f"1 prompts are {kind}" in capsys.readouterr().out
        confidences[name] = read_lines(scored)[0]["confidence"]
        policy = load_policy(folder, plain=True)
        text = asked if name == "plain" else f"<|im_start|>user: {asked}\nanswer:"
        ids = policy.tokenizer(text)["input_ids"], [*policy.tokenizer("5")["input_ids"], 2]
        assert companion.score(*policy, [ids[0]], [ids[1]])[0] == confidences[name]
    assert confidences["plain"] != confidences["mine"]
    lines(source, {"messages": [{"role": "user", "content": "2 + 3?"}], "response": "5"})
    assert own.score(source, scored, model=folder, companion=tmp_path / "plain") == 2
    assert f"{source}: line 1: the prompt is a chat, but there is no chat template" in capsys.readouterr().err
    assert own.score(source, scored, model=folder, companion=tmp_path / "mine") == 0


def test_the_template_of_an_older_processor_is_read_where_the_tokenizer_has_none(micro_checkpoint, tmp_path):
    folder = own_copy(micro_checkpoint, tmp_path / "model")
    usual = load_tokenizer(folder).chat_template
    older = folder / "chat_template.json"
    older.write_text(json.dumps({"chat_template": TEMPLATE}))
    assert load_tokenizer(folder).chat_template == usual
    (folder / "chat_template.jinja").unlink()
    assert load_tokenizer(folder).chat_template == TEMPLATE
    for content, message in (("{", f"{older}: not a readable JSON file"), ('{"chat_template": "{% for"}', "is broken")):
        older.write_text(content)
        with pytest.raises(ContractError, match=re.escape(message)):
            load_tokenizer(folder)


def test_a_download_has_the_older_template_and_the_adapters_below(monkeypatch):
    files = ["chat_template.json", "lora_adapter/adapter_config.json", "own.py"]

    def taken(*_, allow_patterns, **__):
        return "+".join(filter_repo_objects(files, allow_patterns=allow_patterns))

    monkeypatch.setattr("huggingface_hub.snapshot_download", taken)
    assert str(download("owner/model")) == "+".join(files[:2])


def test_a_template_that_is_lost_or_broken_is_named(own, made, fit, tmp_path, capsys):
    with pytest.raises(ContractError, match="GPT2: the tokenizer has no chat template; put one into the folder"):
        load_policy(made("GPT2", template=False)[0])
    policy = load_policy(own_copy(own.checkpoint, tmp_path / "model"))
    policy.tokenizer.chat_template = None
    with pytest.raises(ContractError, match="has no chat template, with which the companion was fitted"):
        Encoder(policy, Companion.from_pretrained(own.companion).config)
    (tmp_path / "mine.jinja").write_text("{% for")
    assert fit(own.verl, "--template", tmp_path / "mine.jinja") == 2
    assert "the chat template of --template or of the companion's config.json is broken" in capsys.readouterr().err
    assert fit(own.verl, "--template", tmp_path / "none.jinja") == 2
    assert f"{tmp_path / 'none.jinja'}: not a readable chat template" in capsys.readouterr().err
    assert not (tmp_path / "companion").exists()
