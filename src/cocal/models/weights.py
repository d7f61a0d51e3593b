"""Weight files of a checkpoint: whether they are a policy's, what a folder without them is, and if all were read."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cocal.errors import ContractError

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

SINGLE, INDEX, ADAPTER = "model.safetensors", "model.safetensors.index.json", "adapter_config.json"
"""Files of a checkpoint: the weights, the index of weights in several files, and the settings of an adapter (PEFT)."""
BELOW = f"lora_adapter/{ADAPTER}"
"""Where verl's model_merger puts an adapter whose base model it saves."""
_SAMPLED = 256
"""Numbers of a parameter that are compared, at least, if it has as many."""
_SPARE = re.compile(
    r"(^|\.)((attn|attention)\.(masked_)?bias|rotary_emb\.\w+|position_ids|(v_head|value_head|mtp|visual|"
    r"vision_tower|vision_model|audio_tower|multi_modal_projector)\..*)$"
)
"""Names that a file may have beside the decoder's: constants of older versions, heads of values, layers that guess
several tokens ahead, and what reads images and sounds."""
_JUDGE = "that of a critic or reward model; give the policy's checkpoint, not the critic's or reward model's"
_WRAPPED = "save the model without what wraps it (merge_and_unload of PEFT, model._orig_mod of torch.compile, "


def kind_of(folder: Path) -> str | None:
    """The kind of a folder without a whole model, and what to give instead; None if it has one or nobody knows."""
    if folder.is_file():
        return "is a file; give the folder of a model in the format of Hugging Face"
    if any(b'"cocal-companion"' in file.read_bytes() for file in folder.glob("config.json")):
        return "is a companion and no language model; are --companion and --model swapped?"
    if (folder / SINGLE).exists() or (folder / INDEX).exists():
        return None
    places = (folder, folder.parent) if folder.name == "huggingface" else (folder,)  # verl puts settings there
    kinds = yaml.safe_load((package_files("cocal.models") / "kinds.yaml").read_text(encoding="utf-8"))
    for place in places:
        for kind in kinds:
            if any(next(place.glob(pattern), None) for pattern in kind["files"]):
                return f"{kind['what']}; {kind['instead'].format(place)}"
    return None


def check_files(folder: Path, config: "PretrainedConfig", adapted: bool = False) -> None:
    """Refuse weights that transformers would load as something that they are not, by a ContractError: a critic's or
    reward model's, beside an adapter (or above one, unless one was given: `adapted`) or other weights, or quantised in
    a way that is not stated."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    if (folder / ADAPTER).exists():
        raise ContractError(
            f"{folder}: an adapter ({ADAPTER}) lies beside the model; move it to a folder of its own, which cocal fit "
            "and cocal score take as --adapter, or delete it if it was merged into this model"
        )
    if not adapted and (folder / BELOW).exists():
        raise ContractError(
            f"{folder}: an adapter lies below the model, and is not read with it (verl's model_merger saves them so); "
            f"give it to cocal fit and cocal score (--adapter {(folder / BELOW).parent}), or move it away if the "
            "model is enough"
        )
    if re.search("Classification|Reward|Critic|ValueModel", str(config.architectures)):
        raise ContractError(f"{folder}: architectures in config.json is {config.architectures}, {_JUDGE}")
    # an index names the shards that are read, and those of an older save may lie beside them
    shards = () if (folder / INDEX).exists() else folder.glob("model-*-of-*.safetensors")
    unread = [*folder.glob("adapter_model.safetensors"), *shards]
    if unread and kind_of(folder) is None:
        raise ContractError(
            f"{folder}: {unread[0].name} would not be read beside {SINGLE}, since no {ADAPTER} or {INDEX} names it; "
            "delete it, or give what it belongs to in a folder of its own"
        )
    names = _files(folder)
    if (folder / SINGLE).exists() and SINGLE not in names:
        raise ContractError(
            f"{folder}: holds {SINGLE} and {INDEX}, which names other files; delete the older of the two models"
        )
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, Mapping) else getattr(stated, "quant_method", None)
    known = {name.removesuffix("_4bit").removesuffix("_8bit") for name in AUTO_QUANTIZATION_CONFIG_MAPPING}
    if stated is not None and method not in known:
        raise ContractError(
            f"{folder}: the weights are quantised by {method!r} (quant_method of quantization_config in config.json), "
            "which transformers does not know; give the checkpoint from before it was quantised"
        )
    if stated is None and (words := next(_quantised(folder, names), None)):
        raise ContractError(
            f"{folder}: {words}, but config.json has no quantization_config, without which their scales are unknown; "
            "give the checkpoint from before it was quantised, or its config.json"
        )


def _files(folder: Path) -> list[str]:
    """Names of the files of weights that are read."""
    if not (folder / INDEX).exists():
        return [SINGLE]
    return sorted({*json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()})


def stored(folder: Path) -> Iterator[tuple[str, "torch.Tensor"]]:
    """The weights of a checkpoint by their names, one at a time."""
    from safetensors import safe_open

    for name in _files(folder):
        with safe_open(folder / name, framework="pt") as file:
            yield from ((key, file.get_tensor(key)) for key in file.keys())  # noqa: SIM118 (it is no mapping)


def check_finite(folder: str | Path, weights: Iterable[tuple[str, "torch.Tensor"]]) -> None:
    """Refuse by a ContractError weights of which one is NaN or infinite, as every state would then be; a sum tells."""
    import torch

    for name, weight in weights:
        if weight.is_floating_point() and weight.itemsize > 1 and not weight.sum(dtype=torch.float32).isfinite():
            raise ContractError(
                f"{folder}: the weight {name} holds NaN or infinity; the training has diverged or the file is damaged: "
                "give an earlier checkpoint, or the file again"
            )


def _quantised(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """The weights of a few bits, in words."""
    from safetensors import safe_open

    for name in names:
        with safe_open(folder / name, framework="np") as file:
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                kind = file.get_slice(key).get_dtype()
                if kind.startswith(("F8", "F4", "F6")) or (key.endswith("weight") and kind.startswith(("I", "U"))):
                    yield f"the values of {key} are {kind}"


def check_read(folder: str | Path, config: "PretrainedConfig", info: Mapping[str, Any]) -> None:
    """Refuse a model of which some weights were not in the files, and would be drawn at random, or the reverse. Raises
    a ContractError if the names or shapes differ; the message has one of each kind, and the remedy.

    Args:
        config: Settings of the decoder of text.
        info: What transformers tells of the loading (`output_loading_info`).
    """
    guessing = tuple(key.removesuffix("eh_proj.weight") for key in info["unexpected_keys"] if ".eh_proj." in key)
    unused = [key for key in sorted(info["unexpected_keys"]) if not (_SPARE.search(key) or key.startswith(guessing))]
    lost, said = sorted(info["missing_keys"]), []
    if lost:
        said.append(f"{len(lost):,} weights of the model are in no file, such as {lost[0]}")
    if unused:
        said.append(f"{len(unused):,} are of no use to it, such as {unused[0]}")
    for mismatch in sorted(info["mismatched_keys"])[:1]:
        if isinstance(mismatch, str):  # transformers 4 names no shapes
            said.append(f"{mismatch} has another shape than config.json states")
        else:
            said.append(f"{mismatch[0]} has shape {tuple(mismatch[1])}, but config.json states {tuple(mismatch[2])}")
    if said:
        raise ContractError(f"{folder}: {' and '.join(said)}; {_remedy(lost, unused, config)}")


def _remedy(lost: Sequence[str], unused: Sequence[str], config: "PretrainedConfig") -> str:
    if any(key.startswith("score.") for key in unused):
        return f"the score is {_JUDGE}"
    if any(".base_layer." in key or "lora_" in key for key in unused):
        return "these are the weights of an adapter that was not merged: merge it (merge_and_unload of PEFT) and save"
    ends = [f".{name}" for name in (*lost[:1], *lost[-1:])]
    prefixes = {key.removesuffix(end[1:]) for key in unused for end in ends if key.endswith(end)}
    if prefixes:
        return f"the names begin with {min(prefixes)}: {_WRAPPED}accelerator.unwrap_model)"
    if any(re.search(r"(scale|scales|scale_inv|qweight|qzeros|absmax|SCB)$", key) for key in unused):
        return "the weights are quantised, and config.json does not say how: give them from before that"
    if [*lost] == ["lm_head.weight"] and not unused:
        return 'if the output layer shares the embedding, put "tie_word_embeddings": true into config.json'
    blocks = {int(number) for key in (*lost, *unused) for number in re.findall(r"\.(\d+)\.", key)[:1]}
    stated = f"config.json states {config.num_hidden_layers} blocks (num_hidden_layers)"
    which = f", and these are of block {', '.join(map(str, sorted(blocks)[:9]))}" if blocks else ""
    return f"{stated}{which}: give all files of the model, as save_pretrained writes them, and its own config.json"


def sample_digest(model: "torch.nn.Module") -> str:
    """Digest of some numbers of every parameter, rounded to bfloat16, in which a step of training changes a few at
    least, and loading in another precision none."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        some = parameter.detach().flatten()[:: max(1, parameter.numel() // _SAMPLED)]
        digest.update(name.encode() + some.to(torch.bfloat16).cpu().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()
