"""Loading of policies, tokenizers and vocabularies from checkpoints, and the number format of their weights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cocal.errors import ConfigError, ContractError, first_line
from cocal.models.text import BY_FILE, of_its_file, template_fault, turn_end
from cocal.models.weights import check_files, check_finite, check_read, check_whole, kind_of, stored
from cocal.runtime.machine_errors import of_memory
from cocal.runtime.numerics import half_precision
from cocal.store import check_folder, read_document
from cocal.store.damage import fetched, remedy

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


_VOCABULARIES = ("tokenizer.json", "*.model", "*.tiktoken", "tekken.json", "vocab*", "merges.txt")
"""Files of which a tokenizer has at least one."""


def text_config(config: "PretrainedConfig") -> "PretrainedConfig":
    """The part of a model's configuration that describes its decoder of text: `num_hidden_layers`, `hidden_size` and
    `vocab_size`, which transformers gives by these names for GPT-2's `n_layer`, `n_embd` and the like, too."""
    return config.get_text_config(decoder=True)


def decoder_of(model: "PreTrainedModel") -> tuple["nn.Module", "nn.ModuleList"]:
    """The decoder of a causal language model, without output layer, vision and audio, and the list of its blocks: the
    only list of modules as long as the number of layers, or else a ContractError. The output of the last block is the
    state before the final norm, which the decoder applies afterwards."""
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


@contextmanager
def evaluating(model: "nn.Module") -> Iterator[None]:
    """Put a model into evaluation mode within the context, and restore the mode of each module afterwards. Raises
    ConfigError if it is no model, but a tokenizer or a name, for instance."""
    if not hasattr(model, "modules"):
        raise ConfigError(
            f"the model is a {type(model).__name__}, and must be a loaded language model, such as "
            "AutoModelForCausalLM.from_pretrained gives; the tokenizer comes after it"
        )
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class Policy(NamedTuple):
    """A loaded checkpoint."""

    model: "PreTrainedModel"
    """Causal language model in evaluation mode."""
    tokenizer: "PreTrainedTokenizerBase"
    """The checkpoint's tokenizer, which has a chat template, unless it was loaded to do without one."""

    @property
    def pad(self) -> int:
        """Id of the padding token; any other id where the model has none, since no token attends to padding."""
        pad = self.tokenizer.pad_token_id
        return pad if pad is not None and pad < self.vocabulary else 0

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end a response."""
        return end_tokens(self.tokenizer, self.model.generation_config, self.model.config)

    @property
    def context(self) -> int | None:
        """Number of tokens that the model reads at once, prompt and response together; None if unknown."""
        return getattr(self.config, "max_position_embeddings", None)

    @property
    def config(self) -> "PretrainedConfig":
        """See `text_config`."""
        return text_config(self.model.config)

    @property
    def blocks(self) -> int:
        """Number of transformer blocks."""
        return self.config.num_hidden_layers

    @property
    def hidden(self) -> int:
        """Width of a hidden state."""
        return self.config.hidden_size

    @property
    def vocabulary(self) -> int:
        """Number of rows of the embedding."""
        return self.config.vocab_size


def load_policy(
    path: str | Path,
    training: bool = False,
    plain: bool = False,
    sharded: bool = False,
    dtype: "torch.dtype | None" = None,
    adapted: bool = False,
) -> Policy:
    """Load the policy of a Hugging Face checkpoint, whose own code is never run. Its weights are bfloat16 on a GPU and
    in studies with `numerics: bfloat16`, and float32 elsewhere.

    Args:
        training: If true, the weights are float32 everywhere, because bfloat16 weights lose updates with a learning
            rate of 1e-6; autocast then computes the passes in bfloat16.
        plain: If true, a tokenizer without a chat template will do.
        sharded: If true, accelerate will shard the weights, and makes them float32 when it does; until then they are in
            the format of the checkpoint on a GPU, because each GPU holds all of them beside vLLM.
        dtype: Number format of the weights in place of these defaults.
        adapted: If true, an adapter, which may lie in a folder below, will be merged into the weights.

    Raises:
        ContractError: if the folder lacks files, or a file is truncated, does not fit, or has changed since it was
            written, or if the model is no causal language model of transformers.
    """
    import torch
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = load_tokenizer(path, plain)
    cuda = torch.cuda.is_available()
    check_folder(path)
    generation_settings(path)  # transformers would take a file that it cannot read for a missing one
    config = read_config(path)
    usual = torch.bfloat16 if (cuda or half_precision()) and not training else torch.float32
    if cuda and sharded:
        usual = config.dtype or usual
    # straight onto the GPU, because otherwise every process of a node would hold a float32 model in its memory
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else None
    return Policy(open_model(path, config, dtype or usual, device, adapted).eval(), tokenizer)


def open_model(
    path: str | Path,
    config: "PretrainedConfig",
    dtype: "torch.dtype",
    device: "torch.device | None",
    adapted: bool = False,
) -> "PreTrainedModel":
    """Load a checkpoint's model, whose files must hold every weight; on the device "meta", none is kept in memory.
    Raises a ContractError if a file is missing or truncated, or a weight missing, unused, misshapen or not finite."""
    import torch
    from transformers import AutoModelForCausalLM

    with _complete(path):
        attention = _attention(path, config, torch.cuda.is_available())
        config._attn_implementation = attention  # config.json may name one, even code on the hub that would be run
        check_files(Path(path), config, adapted)
        check_whole(Path(path))
        model, info = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            trust_remote_code=False,
            dtype=dtype,
            attn_implementation=attention,
            use_safetensors=True,
            device_map=device,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are named
        )
        check_read(path, text_config(config), info)
        check_finite(path, stored(Path(path)) if model.device.type == "meta" else model.named_parameters())
    return model


def _attention(path: str | Path, config: "PretrainedConfig", cuda: bool) -> str:
    """The fastest attention that equals the model's own; some models lack `sdpa`, and it ignores soft caps."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    from cocal.models.attention import GROUPED

    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ContractError(
            f"{path}: transformers has no causal language model of type {config.model_type}, and no other is read; "
            "give a model that writes text from left to right"
        )
    supported = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]._supports_sdpa
    if not supported or getattr(text_config(config), "attn_logit_softcapping", None):
        return "eager"
    return "sdpa" if cuda else GROUPED


def load_tokenizer(path: str | Path, plain: bool = False) -> "PreTrainedTokenizerBase":
    """Tokenizer of a Hugging Face checkpoint.

    Args:
        plain: If true, a tokenizer without a chat template will do.

    Raises:
        ContractError: if the folder lacks files, a file has changed since it was written, the tokenizer is not the one
            of `tokenizer.json` or changes texts, or it has no chat template or a broken one.
    """
    from transformers import AutoTokenizer

    check_folder(path, weights=False)
    with _complete(path, "tokenizer"):
        if not any(next(Path(path).glob(name), None) for name in _VOCABULARIES):
            raise FileNotFoundError("there is no file of one")
        tokenizer = of_its_file(AutoTokenizer.from_pretrained(path, trust_remote_code=False), Path(path))
        older = Path(path) / "chat_template.json"  # older processors write it, and no tokenizer reads it
        if tokenizer.chat_template is None and older.exists():
            tokenizer.chat_template = read_document(older).get("chat_template")
    if tokenizer.chat_template is not None:
        if reason := template_fault(tokenizer):
            raise ContractError(f"{path}: the tokenizer's chat template is broken ({reason}); {remedy(path)}")
    elif not plain:
        raise ContractError(f"{path}: the tokenizer has no chat template; put one into the folder, chat_template.jinja")
    return tokenizer


def require_complete(path: str | Path) -> None:
    """Check the configuration, the index and the header of each weight file of a checkpoint for another program. Raises
    a ContractError if the folder lacks files, or one is truncated or has changed since it was written."""
    check_folder(path)
    read_config(path)
    with _complete(path):
        check_whole(Path(path))


@contextmanager
def _complete(path: str | Path, part: str = "weights") -> Iterator[None]:
    """Turn a broken checkpoint's errors into a ContractError; refuse later transformers' files and git-lfs pointers."""
    _check_version(Path(path))
    for file in Path(path).glob("*"):
        if file.is_file():
            fetched(file)
    try:
        yield
    except ContractError:
        raise
    except Exception as error:  # tokenizers raise plain Exceptions about files that they cannot read
        if of_memory(error):
            raise  # the machine is too small, the checkpoint may be whole
        said, advice = f"not a complete checkpoint, or none that can be read here ({first_line(error)})", remedy(path)
        if kind := kind_of(Path(path)):
            raise ContractError(f"{path}: {kind}") from None
        if "trust_remote_code" in str(error):
            said = "the model brings code of its own (auto_map), which is never run"
            advice = "give a model of an architecture that the installed transformers has"
        elif part == "tokenizer" and (Path(path) / "config.json").exists():
            said = f"its tokenizer cannot be read ({first_line(error).partition('. ')[0]})"
            advice = (
                "put tokenizer.json and tokenizer_config.json into the folder, as the training's first model has them, "
                f"or {BY_FILE}"
            )
        raise ContractError(f"{path}: {said}; {advice}") from None


def _check_version(folder: Path) -> None:
    """Refuse a checkpoint of a later major version, whose setting names the installed version may ignore."""
    import transformers

    try:
        saved = str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["transformers_version"])
    except (OSError, ValueError, LookupError, TypeError):
        return  # other checks say what is wrong with it
    major = saved.partition(".")[0]
    if major.isdecimal() and int(major) > int(transformers.__version__.partition(".")[0]):
        raise ContractError(
            f"{folder}: transformers {saved} saved this checkpoint, and the installed {transformers.__version__} would "
            f"misread its settings, such as the base of rotary positions; install transformers {major}"
        )


class Vocabulary(NamedTuple):
    """The parts of a checkpoint that need no weights: tokenizer, number of embedding rows, end tokens and context
    length, under the names that `Policy` uses."""

    tokenizer: "PreTrainedTokenizerBase"
    vocabulary: int
    ends: frozenset[int]
    context: int | None = None


def read_vocabulary(path: str | Path, plain: bool = False) -> Vocabulary:
    """Tokenizer, vocabulary and end tokens of a checkpoint, without its weights; see `load_tokenizer`."""
    tokenizer = load_tokenizer(path, plain)
    config = read_config(path)
    text, ends = text_config(config), end_tokens(tokenizer, generation_settings(path), config)
    return Vocabulary(tokenizer, text.vocab_size, ends, getattr(text, "max_position_embeddings", None))


def read_config(path: str | Path) -> "PretrainedConfig":
    """The configuration of a checkpoint, without its weights. Raises a ContractError if the folder lacks it."""
    from transformers import AutoConfig

    with _complete(path):
        return AutoConfig.from_pretrained(path, trust_remote_code=False)


def generation_settings(path: str | Path) -> "GenerationConfig":
    """The generation settings of a checkpoint, whose file is optional."""
    from transformers import GenerationConfig

    file = Path(path) / "generation_config.json"
    try:
        return GenerationConfig.from_pretrained(path) if file.exists() else GenerationConfig()
    except OSError as error:
        raise ContractError(f"{file}: not readable ({first_line(error)}); {remedy(path)}") from None


def end_tokens(
    tokenizer: "PreTrainedTokenizerBase", settings: "GenerationConfig", config: "PretrainedConfig"
) -> frozenset[int]:
    """Token ids that end a response: those of the generation settings, whose file gets lost in some engines, of the
    model's settings and of the tokenizer, and the one that ends a turn in the chat template. Qwen3 has two. Raises a
    ContractError if the tokenizer has lost one of them and reads its name as words."""
    given = (getattr(named, "eos_token_id", None) for named in (settings, config, text_config(config), tokenizer))
    ends = {end for named in given for end in (named if isinstance(named, list) else [named]) if end is not None}
    for end in sorted(ends):
        name = tokenizer.decode(end)  # of a byte it is no name
        named = name == tokenizer.convert_ids_to_tokens(end)
        if named and len(tokenizer(name, add_special_tokens=False)["input_ids"]) > 1:
            raise ContractError(
                f"{tokenizer.name_or_path}: the tokenizer reads the end token {name} as words; put tokenizer.json and "
                "tokenizer_config.json into the folder, as the model has them that the training began with"
            )
    return frozenset({*ends, turn_end(tokenizer, ends)} - {None})
