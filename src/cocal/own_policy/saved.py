"""The files of a saved companion, in the Hub's convention: weights, settings and model card."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cocal.companion.companions import Companions, with_weights
from cocal.errors import ContractError
from cocal.own_policy.about import About
from cocal.store.atomic import atomic_path, usual_mode, write_text
from cocal.store.damage import remedy, unreadable
from cocal.store.files import read_document, read_provenance, stated_seal, write_document
from cocal.store.provenance import file_digest

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
"""Files of a saved companion."""
_DIGEST = "weights"
"""Name of the attribute of the settings' provenance that holds the SHA-256 of the weights' file."""


def read(name: str, options: Mapping[str, Any]) -> tuple[Companions, About]:
    """Read a companion from a folder, or from the Hub.

    Args:
        name: Folder, or name on the Hub (`owner/name`).
        options: Those of `huggingface_hub.hf_hub_download`.

    Raises:
        ContractError: if there is no such companion, or a file is missing, has changed since it was saved, or is
            not a companion's.
    """
    config, weights = (_file(name, file, options) for file in (CONFIG, WEIGHTS))
    for file in (config, weights):
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; is {name} a companion's folder (cocal fit)?")
    content = read_document(config, maker="`cocal fit`")
    _check_digests(config, weights)
    try:
        about = About.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise ContractError(f"{config}: not a companion's settings ({place}: {first['msg']})") from None
    try:
        tensors = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise ContractError(unreadable(weights, "safetensors file", error)) from None
    return with_weights(about.spec, tensors, weights), about


def _file(name: str, file: str, options: Mapping[str, Any]) -> Path:
    from huggingface_hub import errors, hf_hub_download

    if Path(name).is_dir():
        return Path(name) / file
    try:
        return Path(hf_hub_download(name, file, **options))
    except errors.HFValidationError:
        reason = "there is no such folder, and it is no name on the Hub (owner/name)"
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        reason = f"neither a folder nor a companion that the Hub gives ({str(error).strip().splitlines()[0]})"
    raise ContractError(f"{name}: {reason}; make one by `cocal fit`, or check the name")


def _check_digests(config: Path, weights: Path) -> None:
    """Compare the weights with the digest that the settings state; companions of older versions state none."""
    written = read_provenance(config).get(_DIGEST)
    if written is None:
        logging.warning("%s: an older companion without digests, so damage would go unnoticed; save it again", config)
        return
    for file, whole, why in (
        (config, stated_seal(config) is not None, "it has lost its seal"),
        (weights, file_digest(weights) == written, f"its digest is not the one in {CONFIG}"),
    ):
        if not whole:
            raise ContractError(f"{file}: the file has changed since it was saved ({why}); {remedy(file)}")


def write(folder: Path, companions: Companions, about: About) -> None:
    """Write the three files into a folder, which is made if need be.

    Raises:
        ContractError: if the folder holds such files of something else than a companion.
    """
    from huggingface_hub import ModelCard

    found = [name for name in (CONFIG, WEIGHTS, CARD) if (folder / name).exists()]
    if found and not is_companion(folder):
        raise ContractError(f"{folder}: its {found[0]} is not a companion's; save in a folder of its own")
    with atomic_path(folder / WEIGHTS) as partial:
        weights = {name: tensor.cpu().contiguous() for name, tensor in companions.model.state_dict().items()}
        save_file(weights, partial, {"format": "pt"})
        usual_mode(partial)
    written = {_DIGEST: file_digest(folder / WEIGHTS)}
    write_document(folder / CONFIG, about.model_dump(mode="json"), written)
    write_text(folder / CARD, str(ModelCard(about.card())))


def is_companion(folder: Path) -> bool:
    """True if a folder says that it is a saved companion."""
    try:
        found = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("model_type") == About.model_fields["model_type"].default
