"""Tokenizers that are not the one of their file, that change texts or are not there, and weights that are no numbers:
refused before anything is read with them."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders
from transformers import AutoTokenizer

from cocal.errors import ContractError
from cocal.models.loading import load_policy, load_tokenizer, open_model, read_config
from micro import change_json, own_copy


@pytest.fixture
def model(micro_checkpoint, tmp_path):
    return own_copy(micro_checkpoint, tmp_path / "model")


def settings(model, **changes):
    change_json(model / "tokenizer_config.json", **changes)


def change(model, edit):
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    edit(tokenizer)
    tokenizer.save(str(model / "tokenizer.json"))


def refusal(read, *given) -> str:
    with pytest.raises(ContractError) as found:
        read(*given)
    return str(found.value)


@pytest.mark.parametrize("name", ["LlamaTokenizerFast", "LlamaTokenizer"])
def test_a_tokenizer_of_another_class_than_its_file_is_refused(model, name):
    """As DeepSeek-R1-Distill-Llama's: its file is byte-level, and the class reads SentencePiece's."""
    settings(model, tokenizer_class=name)
    said = refusal(load_policy, model)
    assert said.startswith(f"{model}: transformers makes another tokenizer (LlamaTokenizer) than tokenizer.json holds")
    assert "it reads 'What is 12 + 7? It is 19.' as 'Whatis12+7?" in said
    settings(model, tokenizer_class="PreTrainedTokenizerFast")
    assert load_tokenizer(model).decode([30]) == load_tokenizer(model).decode([30])


def test_the_file_decides_where_the_settings_leave_the_class_open(model):
    """transformers reads the tokenizers of some models by their own class all the same, which splits digits."""
    ids = load_tokenizer(model)("2018, 1999").input_ids
    change_json(model / "config.json", model_type="qwen2")
    assert AutoTokenizer.from_pretrained(model)("2018, 1999").input_ids != ids
    assert load_tokenizer(model)("2018, 1999").input_ids == ids
    settings(model, tokenizer_class="Qwen2Tokenizer")
    said = refusal(load_tokenizer, model)
    assert "another tokenizer (Qwen2Tokenizer) than tokenizer.json holds or the policy" in said


def test_a_class_that_cannot_be_built_and_a_damaged_shard_are_named(model):
    settings(model, tokenizer_class="CodeLlamaTokenizerFast")
    assert 'let the file decide by "tokenizer_class": "PreTrainedTokenizerFast"' in refusal(load_tokenizer, model)
    settings(model, tokenizer_class="PreTrainedTokenizerFast")
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "can be read here (model.safetensors: Error while" in refusal(load_policy, model)


def test_a_tokenizer_without_its_dropout_gives_the_same_ids_again(model):
    change(model, lambda tokenizer: setattr(tokenizer.model, "dropout", 0.5))
    tokenizer = load_tokenizer(model)
    assert len({(*tokenizer("What is 12 + 7? It is 19.")["input_ids"],) for _ in range(20)}) == 1


def test_a_tokenizer_whose_texts_do_not_come_back_is_refused(model):
    change(model, lambda one: setattr(one, "decoder", decoders.Fuse()))
    settings(model, tokenizer_class="PreTrainedTokenizerFast")
    said = refusal(load_tokenizer, model)
    assert "it reads 'What is 12 + 7? It is 19.' as 'What\u0120is\u012012" in said


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_a_folder_without_a_tokenizer_says_so(model, file):
    for name in {"tokenizer.json", file}:
        (model / name).unlink()
    said = refusal(load_policy, model)
    assert said.startswith(f"{model}: its tokenizer cannot be read (there is no file of one); put tokenizer.json")


def test_a_tokenizer_that_has_lost_its_end_token_is_refused(model):
    """Where vocab.json and merges.txt lie alone, no token is special."""
    settings(model, split_special_tokens=True)
    assert "the tokenizer reads the end token <|im_end|> as words; put" in refusal(lambda: load_policy(model).ends)
    words = json.loads((model / "tokenizer.json").read_text())["model"]
    (model / "vocab.json").write_text(json.dumps(words["vocab"]))
    settings(model, split_special_tokens=False, tokenizer_class="GPT2Tokenizer")
    (model / "tokenizer.json").unlink()
    assert "its tokenizer cannot be read (`vocab` and `merges` must" in refusal(load_policy, model)
    (model / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, words["merges"])]))
    assert load_policy(model).ends
    (model / "tokenizer_config.json").unlink()
    assert "the tokenizer reads the end token <|im_end|> as words; put" in refusal(lambda: load_policy(model).ends)


def test_a_tokenizer_that_its_class_cannot_read_is_no_damaged_model(model):
    settings(model, tokenizer_class="GemmaTokenizerFast")
    assert refusal(load_tokenizer, model).startswith(f"{model}: its tokenizer cannot be read (Unk token `<unk>` not")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_pointer_of_git_lfs_is_named(model, file):
    (model / file).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4\n")
    assert refusal(load_policy, model) == (
        f"{model / file}: is a pointer of git-lfs and not the file itself; fetch it (git lfs pull)"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("device", [None, torch.device("meta")])
def test_a_weight_that_is_no_number_is_named(model, value, device):
    """Also where no weight is kept in memory, as when a study imports a checkpoint."""
    weights = load_file(model / "model.safetensors")
    name = sorted(weights)[3]
    weights[name].view(-1)[5] = value
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    said = refusal(open_model, model, read_config(model), torch.float32, device)
    assert said.startswith(f"{model}: the weight {name} holds NaN or infinity")
