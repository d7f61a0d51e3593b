"""Adapters (LoRA and its kin) that PEFT has trained: checked against their model, and merged into it in memory."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ConfigError, ContractError, first_line
from cocal.models.weights import ADAPTER, check_finite
from cocal.store import read_document
from cocal.store.damage import fetched

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_WEIGHTS = "adapter_model.safetensors"


def adapter_files(adapter: Path) -> list[Path]:
    """The settings and the weights of an adapter; a missing file or a pointer of git-lfs raises a ContractError."""
    for file in (adapter / ADAPTER, adapter / _WEIGHTS):
        if not file.is_file():
            raise ContractError(f"{file}: there is no such file of an adapter; give a folder that PEFT has saved")
    return [fetched(adapter / ADAPTER), fetched(adapter / _WEIGHTS)]


def check_base(adapter: Path, name: str, folder: Path) -> None:
    """Log a warning if an adapter was trained on another model than that of this name and folder. Raises a
    ContractError if its settings are not readable, or make it change nothing."""
    settings, _ = adapter_files(adapter)
    stated = read_document(settings)
    if stated.get("lora_alpha") == 0:  # verl's model_merger does not know it, and writes 0
        raise ContractError(
            f"{settings}: lora_alpha is 0, with which the adapter changes nothing; put the value of the training there "
            "(verl: actor_rollout_ref.model.lora_alpha)"
        )
    base = stated.get("base_model_name_or_path") or name
    if Path(base).name != Path(name).name and base.replace("/", "--") not in str(folder.resolve()):
        logging.warning(
            "%s: the adapter was trained on %s; if %s is another model, the confidences mean nothing",
            *(settings, base, name),
        )


def merged(model: "PreTrainedModel", adapter: Path) -> "PreTrainedModel":
    """Merge an adapter into the weights of a model, in memory. Raises a ConfigError if PEFT is not installed, and a
    ContractError if the adapter does not fit the model or cannot be merged."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError:
        raise ConfigError("--adapter needs PEFT, which is not installed: pip install peft") from None
    adapter_files(adapter)
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
    return combined
