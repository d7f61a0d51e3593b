"""Weight files of a checkpoint: whether they are a policy's, what a folder without them is, and if all were read."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cocal.errors import ContractError, first_line

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

SINGLE, INDEX, ADAPTER = "model.safetensors", "model.safetensors.index.json", "adapter_config.json"
"""Files of a checkpoint: the weights, the index of weights in several files, and the settings of an adapter (PEFT)."""
BELOW = f"lora_adapter/{ADAPTER}"
"""Where verl's model_merger puts an adapter whose base model it saves."""
_SAMPLED = 256
"""Least number of values of a parameter that are sampled, if it has so many."""
_SPARE = re.compile(
    r"(^|\.)((attn|attention)\.(masked_)?bias|rotary_emb\.\w+|position_ids|(v_head|value_head|mtp|visual|"
    r"vision_tower|vision_model|audio_tower|multi_modal_projector)\..*)$"
)
"""Names of weights that a file may have beside the decoder's: constants of older versions, value heads, layers that
predict several tokens ahead, and encoders of images and sounds."""


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
    """Raise a ContractError if transformers would load wrong weights: a critic's or reward model's, or those of a
    folder that also holds others or an adapter (below the model, unless an adapter was given: `adapted`)."""
    if re.search("Classification|Reward|Critic|ValueModel", str(config.architectures)):
        raise ContractError(
            f"{folder}: architectures in config.json is {config.architectures}, that of a critic or reward model; give "
            "the policy's checkpoint"
        )
    if not adapted and (folder / BELOW).exists():
        raise ContractError(
            f"{folder}: an adapter lies below the model, and is not read with it (verl's model_merger saves them so); "
            f"give it to cocal fit and cocal score (--adapter {(folder / BELOW).parent}), or move it away if the "
            "model is enough"
        )
    others = {SINGLE, ADAPTER, "adapter_model.safetensors"}
    if not (folder / INDEX).exists():  # it names the shards that are read, and those of an older save may lie there
        others |= {file.name for file in folder.glob("model-*-of-*.safetensors")}
    left = sorted(name for name in others - {*files_of(folder)} if (folder / name).exists())
    if left and kind_of(folder) is None:
        raise ContractError(
            f"{folder}: {left[0]} lies beside the model, and is not read with it; delete what is older or was merged, "
            "or move it to a folder of its own (an adapter's is given by --adapter)"
        )


def files_of(folder: Path) -> list[str]:
    """Names of the files of weights that are read."""
    if not (folder / INDEX).exists():
        return [SINGLE]
    return sorted({*json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()})


def check_whole(folder: Path) -> None:
    """Raise an OSError that names a file of weights which is missing or truncated."""
    from safetensors import safe_open

    for name in files_of(folder):
        try:
            with safe_open(folder / name, framework="numpy"):
                pass
        except Exception as error:  # safetensors raises errors of its own
            raise OSError(f"{name}: {first_line(error)}") from error


def stored(folder: Path) -> Iterator[tuple[str, "torch.Tensor"]]:
    """The weights of a checkpoint by their names, one at a time."""
    from safetensors import safe_open

    for name in files_of(folder):
        with safe_open(folder / name, framework="pt") as file:
            yield from ((key, file.get_tensor(key)) for key in file.keys())  # noqa: SIM118 (it is no mapping)


def check_finite(folder: str | Path, weights: Iterable[tuple[str, "torch.Tensor"]]) -> None:
    """Raise a ContractError if a weight is NaN or infinite, as every state would then be; a sum tells."""
    import torch

    for name, weight in weights:
        if weight.is_floating_point() and weight.itemsize > 1 and not weight.sum(dtype=torch.float32).isfinite():
            raise ContractError(
                f"{folder}: the weight {name} holds NaN or infinity; the training has diverged or the file is damaged: "
                "give an earlier checkpoint, or the file again"
            )


def check_read(folder: str | Path, config: "PretrainedConfig", info: Mapping[str, Any]) -> None:
    """Check that a model's weights are those of its files, since missing ones would be drawn at random. Raises a
    ContractError if the names or shapes differ, which has one example of each kind.

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
        raise ContractError(
            f"{folder}: {' and '.join(said)}; give the policy alone, as save_pretrained writes it, with its own "
            f"config.json, which states {config.num_hidden_layers} blocks: no critic, nothing that wraps it, adapters "
            'merged (merge_and_unload of PEFT), not quantised; "tie_word_embeddings": true if only lm_head.weight lacks'
        )


def sample_digest(model: "torch.nn.Module") -> str:
    """Digest of some values of every parameter, rounded to bfloat16: a training step changes at least a few of them,
    and loading in another precision none."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        some = parameter.detach().flatten()[:: max(1, parameter.numel() // _SAMPLED)]
        digest.update(name.encode() + some.to(torch.bfloat16).cpu().view(torch.int16).numpy().tobytes())
    return digest.hexdigest()
