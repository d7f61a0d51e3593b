"""Weights that are not in the files, or are not what they are taken for: refused by name, with the remedy."""

import json
import re
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from cocal.errors import ContractError
from cocal.models.loading import load_policy, load_tokenizer
from cocal.models.weights import kind_of
from cocal_study.backbones.importing import import_checkpoint
from micro import change_json, own_copy

SIZE = {"vocab_size": 384, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40}
SIZE |= {"num_key_value_heads": 1, "head_dim": 10, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
V5 = transformers.__version__ >= "5"
"""Version 4 keeps experts one by one, and does not name shapes that differ."""
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


@pytest.fixture
def model(micro_checkpoint, tmp_path):
    """Save a tiny model whose weights and settings may be changed; returns its folder."""

    def make(change=dict, name="Qwen3", settings=(), **more):
        torch.manual_seed(4)
        config = getattr(transformers, f"{name}Config")(**SIZE, **more)
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
        weights = tmp_path / "model/model.safetensors"
        save_file({key: one.clone() for key, one in change(load_file(weights)).items()}, weights, {"format": "pt"})
        change_json(tmp_path / "model/config.json", **dict(settings))
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(micro_checkpoint / file, tmp_path / "model")
        return tmp_path / "model"

    return make


def _prefixed(prefix):
    return lambda weights: {f"{prefix}{key}": one for key, one in weights.items()}


def _without(part):
    return lambda weights: {key: one for key, one in weights.items() if part not in key}


def _unmerged(weights):
    found = {key.replace("q_proj.weight", "q_proj.base_layer.weight"): one for key, one in weights.items()}
    return found | {"model.layers.0.self_attn.q_proj.lora_A.default.weight": torch.ones(4, 24)}


def _blocks(count):
    return {"num_hidden_layers": count, "layer_types": ["full_attention"] * count}


def _called(name):
    return {"settings": {"architectures": [name]}}


def _quantised(**how):
    return {"settings": {"quantization_config": how}}


Q = "model.layers.0.self_attn.q_proj"
TIED = {"tie_word_embeddings": True}
SCORED = {"change": lambda one: one | {"score.weight": torch.ones(1, 24)}, **TIED}
MOE = {"change": _without("layers.1.mlp.experts.2."), "name": "Qwen3Moe", **EXPERTS}
CRITIC, REMEDY = "that of a critic or reward model; give", "give the policy alone, as save_pretrained writes it"
IN_V5 = {
    "another shape": "model.norm.weight has shape (12,), but config.json states (24,)",
    "an expert": "layers.1.mlp.experts.down_proj has shape (3, 24, 16), but config.json states (4, 24, 16)",
    "bitsandbytes": "can be read here (Using `bitsandbytes` 4-bit quantization requires",
}
"""What is said of some faults from version 5 on."""
FAULTS = {
    "PEFT": (
        {"change": _prefixed("base_model.model.")},
        f"such as base_model.model.lm_head.weight; {REMEDY}",
    ),
    "wrapped and tied": (
        {"change": _prefixed("actor."), **TIED},
        "of no use to it, such as actor.model.",
    ),
    "unmerged": ({"change": _unmerged}, f"{Q}.weight and 4 are of no use to it, such as {Q}.base_layer.weight; "),
    "a lost block": ({"change": _without("layers.1.")}, "in no file, such as model.layers.1.input_layernorm.weight; "),
    "a lost embedding": ({"change": _without("embed"), **TIED}, "2 weights of the model are in no file"),
    "a lost output layer": ({"change": _without("lm_head")}, '"tie_word_embeddings": true if only lm_head'),
    "more blocks": ({"settings": _blocks(5)}, "its own config.json, which states 5 blocks: no critic"),
    "fewer blocks": ({"settings": _blocks(2)}, "11 are of no use to it, such as model.layers.2.input_layernorm.weight"),
    "biases": ({"change": lambda one: one | {f"{Q}.bias": torch.ones(20)}}, f"1 are of no use to it, such as {Q}.bias"),
    "another shape": (
        {"change": lambda weights: weights | {"model.norm.weight": torch.ones(12)}},
        "model.norm.weight has another shape",
    ),
    "a reward model": (
        _called("Qwen3ForSequenceClassification") | SCORED,
        f"architectures in config.json is ['Qwen3ForSequenceClassification'], {CRITIC}",
    ),
    "somebody's reward model": (_called("Qwen3RewardModel") | TIED, f"['Qwen3RewardModel'], {CRITIC}"),
    "a critic by a policy's name": (SCORED, f"such as score.weight; {REMEDY}"),
    "an expert": (MOE, "3 weights of the model are in no file, such as model.layers.1.mlp.experts.2.down_proj.weight"),
    "bitsandbytes": (
        _quantised(quant_method="bitsandbytes", load_in_4bit=True),
        "or none that can be read here (",
    ),
}
"""Faults of a checkpoint, and what is said of them."""


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_would_be_drawn_or_misread_are_refused_by_name(model, tmp_path, fault):
    """By what loads a policy, and by what takes one into a study."""
    given, message = FAULTS[fault]
    message = IN_V5.get(fault, message) if V5 else message
    folder = model(**({"tie_word_embeddings": False} | given))
    with pytest.raises(ContractError, match=re.escape(message)) as first:
        load_policy(folder)
    assert str(first.value).startswith(f"{folder}: ")
    depth = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    with pytest.raises(ContractError, match=re.escape(message)):
        import_checkpoint(folder, tmp_path / "taken", depth=depth, width=24, attributes={})
    assert not (tmp_path / "taken").exists()


BESIDE = {
    "heads of values": {"v_head.summary.weight": torch.ones(1, 24), "v_head.summary.bias": torch.ones(1)},
    "constants of older versions": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(5)},
    "a layer that guesses ahead": {
        "model.layers.3.eh_proj.weight": torch.ones(24, 48),
        "model.layers.3.mlp.up_proj.weight": torch.ones(40, 24),
    },
    "layers that guess ahead": {"mtp.layers.0.mlp.up_proj.weight": torch.ones(40, 24)},
}


@pytest.mark.parametrize("what", BESIDE)
def test_what_does_not_belong_to_the_decoder_may_lie_beside_it(model, tmp_path, what):
    folder = model(lambda weights: weights | BESIDE[what], tie_word_embeddings=True)
    found = load_policy(folder).model
    assert torch.equal(found.lm_head.weight, load_file(folder / "model.safetensors")["model.embed_tokens.weight"])
    import_checkpoint(folder, tmp_path / "taken", depth=3, width=24, attributes={})


@pytest.mark.parametrize("names", [None, ["LlavaForConditionalGeneration"], ["Qwen3Model"]])
def test_a_policy_is_read_whatever_else_config_calls_it(model, names):
    folder = model(settings={"architectures": names}, tie_word_embeddings=True)
    found = load_policy(folder).model
    assert torch.equal(found.lm_head.weight, load_file(folder / "model.safetensors")["model.embed_tokens.weight"])


def test_names_and_constants_of_older_versions_are_read(model):
    """GPT-2's first files have no prefix, and hold masks."""

    def older(weights):
        masks = [f"h.{k}.attn.{name}" for k in range(3) for name in ("bias", "masked_bias")]
        found = {key.removeprefix("transformer."): one for key, one in weights.items()}
        return found | dict.fromkeys(masks, torch.ones(1, 1, 8, 8))

    folder = model(older, name="GPT2")
    expected = load_file(folder / "model.safetensors")["h.2.mlp.c_fc.weight"]
    assert torch.equal(load_policy(folder).model.transformer.h[2].mlp.c_fc.weight, expected)


@pytest.mark.parametrize("read", [load_tokenizer, load_policy])
def test_a_checkpoint_that_a_later_transformers_saved_is_refused(micro_checkpoint, tmp_path, read):
    """Where names of settings have changed, the older version would take its defaults, and say nothing."""
    folder = own_copy(micro_checkpoint, tmp_path / "later")
    major = int(transformers.__version__.partition(".")[0])
    change_json(folder / "config.json", transformers_version=f"{major}.99.0")
    read(folder)
    change_json(folder / "config.json", transformers_version=f"{major + 1}.0.0.dev0")
    said = rf"later: transformers {major + 1}\.0\.0\.dev0 saved this checkpoint, .* install transformers {major + 1}$"
    with pytest.raises(ContractError, match=said):
        read(folder)


def test_two_sets_of_weights_are_refused(model, tmp_path):
    folder = model(tie_word_embeddings=True)
    whole = load_policy(folder).model
    shutil.move(folder / "model.safetensors", tmp_path / "old")
    whole.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    load_policy(folder)
    shutil.copy(tmp_path / "old", folder / "model.safetensors")
    with pytest.raises(ContractError, match=r"model.safetensors lies beside the model, and is not read with it"):
        load_policy(folder)
    with pytest.raises(ContractError, match="delete what is older or was merged"):
        import_checkpoint(folder, tmp_path / "taken", depth=3, width=24, attributes={})
    for file in folder.glob("model-*"):
        file.unlink()
    names = dict.fromkeys(load_file(tmp_path / "old"), "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    load_policy(folder)  # an index of the one file


@pytest.mark.parametrize("name", ["model-00001-of-00001.safetensors", "adapter_model.safetensors"])
def test_weights_that_nothing_names_are_refused(model, name):
    folder = model(tie_word_embeddings=True)
    for other in ("consolidated", "model.fp16", "optimizer"):  # usual ones that are no others of the model
        save_file({"weight": torch.ones(2)}, folder / f"{other}.safetensors")
    load_policy(folder)
    save_file({"weight": torch.ones(2)}, folder / name)
    with pytest.raises(ContractError, match=f"{name} lies beside the model, and is not read with it"):
        load_policy(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    with pytest.raises(ContractError, match="holds weights in several files without their index"):
        load_policy(folder)


KINDS = {
    "adapter": (
        ["adapter_config.json", "adapter_model.safetensors", "tokenizer.json"],
        "is an adapter (PEFT) without its model; give the model that it was trained on",
    ),
    "verl's actor": (
        ["model_world_size_2_rank_0.pt", "huggingface/config.json"],
        "holds the shards of verl's actor; merge them: python -m verl.model_merger merge --backend fsdp --local_dir {}",
    ),
    "verl's step": (["actor/model_world_size_2_rank_0.pt", "data.pt"], "is a training of verl or one of its steps"),
    "verl's run": (["global_step_20/actor/extra.pt", "latest_checkpointed_iteration.txt"], "is a training of verl"),
    "DCP": ([".metadata", "__0_0.distcp"], "is a distributed checkpoint of PyTorch or Megatron; convert it"),
    "slime": (["latest_checkpointed_iteration.txt", "iter_0000005/__0_0.distcp"], "tools/convert_torch_dist_to_hf.py"),
    "accelerate": (["pytorch_model_fsdp_0/__0_0.distcp"], "accelerate merge-weights"),
    "DeepSpeed": (["zero_to_fp32.py", "global_step9/bf16_zero_pp_rank_0.pt"], "merge"),
    "GGUF": (["config.json", "model-q4.gguf"], "holds weights for llama.cpp (GGUF); give the checkpoint that they"),
    "training": (["checkpoint-500/model.safetensors", "README.md"], "is the output of a whole training; give one"),
    "pickles": (["config.json", "pytorch_model.bin"], "holds its weights as pickles, which can run code and are not"),
    "companion": (["config.json"], "is a companion and no language model; are --companion and --model swapped?"),
    "no index": (["model-00001-of-00002.safetensors"], "without their index, model.safetensors.index.json; give"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_without_a_model_is_told_what_it_is(own, fit, tmp_path, capsys, kind):
    names, message = KINDS[kind]
    folder = tmp_path / "given"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"model_type": "cocal-companion"}' if kind == "companion" else "{}")
    assert fit(own.verl, "--model", folder) == 2
    said = capsys.readouterr().err
    assert f"{folder}: {message.format(folder)}" in said or (message in said and f"{folder}: " in said)
    assert said.count("error:") == 1
    if (folder / "huggingface").exists():
        assert f"--local_dir {folder} " in kind_of(folder / "huggingface")


def test_a_file_in_place_of_a_folder_is_told_so(own, fit, tmp_path, capsys):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert fit(own.verl, "--model", tmp_path / "model.gguf") == 2
    assert f"{tmp_path / 'model.gguf'}: is neither a folder of a model in the format of" in capsys.readouterr().err
