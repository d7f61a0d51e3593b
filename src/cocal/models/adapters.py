"""Adapters (LoRA and its kin) that PEFT has trained: checked against their model, and merged into it in memory."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ConfigError, ContractError, first_line
from cocal.models.weights import ADAPTER, check_finite
from cocal.store.folders import file_digest
from cocal.store.rows import fetched

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_WEIGHTS = "adapter_model.safetensors"


def adapter_files(adapter: Path) -> list[Path]:
    """The settings and the weights of an adapter, or a ContractError if one is missing, or a pointer of git-lfs."""
    for file in (adapter / ADAPTER, adapter / _WEIGHTS):
        if not file.is_file():
            raise ContractError(f"{file}: there is no such file of an adapter; give a folder that PEFT has saved")
    return [fetched(adapter / ADAPTER), fetched(adapter / _WEIGHTS)]


def check_base(adapter: Path, name: str, folder: Path) -> None:
    """Refuse an adapter of another model than that of this name (as it was given) and folder, and warn where it cannot
    be known. A ContractError says that its settings are not readable, name another model, or make it change nothing."""
    settings, weights = adapter_files(adapter)
    try:
        stated = json.loads(settings.read_text(encoding="utf-8"))
        base, alpha = stated.get("base_model_name_or_path") or name, stated.get("lora_alpha")
    except (ValueError, AttributeError) as error:
        raise ContractError(f"{settings}: not settings of an adapter ({first_line(error)}); give another") from None
    if alpha == 0:  # verl's model_merger does not know it, and writes 0
        raise ContractError(
            f"{settings}: lora_alpha is 0, with which the adapter changes nothing; put the value of the training there "
            "(verl: actor_rollout_ref.model.lora_alpha)"
        )
    there = Path(base)
    if base == name or there.name == Path(name).name or base.replace("/", "--") in str(folder.resolve()):
        return
    if there.is_dir():
        ours, theirs = ([file_digest(file) for file in sorted(of.glob("*.safetensors"))] for of in (folder, there))
        if ours == theirs:
            return
    elif there.is_absolute() or Path(name).is_dir():
        logging.warning(
            "%s: was trained on %s, and whether %s is that model cannot be known here; if it is another one, the "
            "confidences mean nothing",
            *(weights.parent, base, name),
        )
        return
    raise ContractError(
        f"{settings}: the adapter was trained on {base}, not on {name}; give that model (--model), or correct "
        "base_model_name_or_path if it is the same"
    )


def merged(model: "PreTrainedModel", adapter: Path) -> "PreTrainedModel":
    """A model with an adapter merged into its weights, in memory. A ConfigError says that PEFT is not installed, a
    ContractError that the adapter does not fit the model, changes none of its weights, or cannot be merged."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError:
        raise ConfigError("--adapter needs PEFT, which is not installed: pip install peft") from None
    _, weights = adapter_files(adapter)
    before = _sums(model)
    try:
        settings = PeftConfig.from_pretrained(str(adapter))
        wrapped = PeftModel(model, settings)
        read = wrapped.load_adapter(str(adapter), "default")
        combined = wrapped.merge_and_unload()
    except Exception as error:  # PEFT raises errors of many kinds about adapters that do not fit
        raise ContractError(
            f"{adapter}: the adapter cannot be merged into this model ({first_line(error)}); give the model that it "
            "was trained on, or merge them where it was trained (merge_and_unload of PEFT)"
        ) from None
    if lost := [*read.missing_keys, *read.unexpected_keys]:
        raise ContractError(
            f"{adapter}: {len(lost):,} weights of the adapter and of this model do not go together, such as {lost[0]}; "
            "give the model that it was trained on"
        )
    check_finite(adapter, combined.named_parameters())
    if _sums(combined) == before:
        raise ContractError(
            f"{weights}: merging the adapter changes no weight of the model, as if it had never been trained (a lora_B "
            "of zeros); give one that was trained, or the model without it"
        )
    return combined


def _sums(model: "PreTrainedModel") -> dict[str, float]:
    """The sum of each weight, by which a change is found without a second model in memory."""
    import torch

    return {name: weight.sum(dtype=torch.float64).item() for name, weight in model.named_parameters()}
