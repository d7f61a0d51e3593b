"""Where the blocks of a causal language model lie, and how large it is, whatever its architecture calls them."""

from typing import TYPE_CHECKING

from cocal.errors import ContractError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel


def text_config(config: "PretrainedConfig") -> "PretrainedConfig":
    """The part of a model's configuration that describes its decoder of text: `num_hidden_layers`, `hidden_size` and
    `vocab_size`, which transformers gives by these names for GPT-2's `n_layer`, `n_embd` and the like, too."""
    return config.get_text_config(decoder=True)


def decoder_of(model: "PreTrainedModel") -> "nn.Module":
    """The part of a causal language model that is neither its output layer nor anything but text.

    Raises:
        ContractError: if it has no list of blocks; the message names the architecture.
    """
    return _found(model)[0]


def blocks_of(model: "PreTrainedModel") -> "nn.ModuleList":
    """The transformer blocks, in their order: the only list of modules of the decoder with as many as it has layers.

    The output of the last one is the state before the final norm, which the decoder applies after them.

    Raises:
        ContractError: if there is no such list; the message names the architecture.
    """
    return _found(model)[1]


def _found(model: "PreTrainedModel") -> tuple["nn.Module", "nn.ModuleList"]:
    from torch import nn

    layers = getattr(text_config(model.config), "num_hidden_layers", None)
    for decoder in (model.get_decoder(), model.base_model):
        lists = [part for part in decoder.children() if isinstance(part, nn.ModuleList) and len(part) == layers]
        if len(lists) == 1:
            return decoder, lists[0]
    raise ContractError(
        f"{type(model).__name__}: the {layers} blocks of this architecture are not found, so its hidden states cannot "
        "be read; give a decoder whose blocks lie in one list, such as Llama, Qwen, Gemma, GPT-2 or Mamba"
    )
