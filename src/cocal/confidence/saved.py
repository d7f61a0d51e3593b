"""The files of a saved companion, in the Hub's convention."""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cocal.companion.companions import Companions, with_weights
from cocal.errors import ContractError
from cocal.fitting.about import About
from cocal.models.hub import download, may_be_on_hub
from cocal.runtime.places import plain
from cocal.store.atomic import atomic_path, together, usual_mode, write_text
from cocal.store.damage import unreadable
from cocal.store.files import read_document, write_document
from cocal.store.origin import read_provenance
from cocal.store.provenance import file_digest
from cocal.store.seals import stated_seal

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
"""Files of a saved companion."""
ALONE = "states-alone"
"""Folder within that of a companion which reads token probabilities: the best one that reads states alone."""
_DIGEST = "weights"
"""Name of the attribute of the settings' provenance that holds the SHA-256 of the weights' file."""


def folder_of(name: str, options: Mapping[str, Any] = {}) -> Path:
    """The folder of a companion with this path or name on the Hub (`owner/name`), of whose cache it is then; its files
    are downloaded if need be (options of `huggingface_hub.snapshot_download`). A ContractError says that there is none.
    """
    if Path(name).is_dir():
        return Path(name)
    if not may_be_on_hub(name):
        raise ContractError(
            f"{name}: there is no such folder, and it is no name on the Hub (owner/name); make one by `cocal fit`, or "
            "check the name"
        )
    files = [part + file for part in ("", f"{ALONE}/") for file in (CONFIG, WEIGHTS)]
    try:
        return download(name, patterns=files, **options)
    except ContractError as error:
        raise ContractError(f"{name}: there is no such folder, and on the Hub: {error}") from None


def read(folder: Path) -> tuple[Companions, About]:
    """Read a companion from its folder; see `cocal.Companion.from_pretrained` about errors."""
    config, weights = folder / CONFIG, folder / WEIGHTS
    for file in (config, weights):
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; is {folder} a companion's folder (cocal fit)?")
    content, written = read_document(config), read_provenance(config).get(_DIGEST)
    if (kind := content.get("model_type")) and kind != About.model_fields["model_type"].default:
        raise ContractError(
            f"{config}: belongs to a language model ({kind}) and not to a companion; are --companion and --model "
            "swapped?"
        )
    if written is None:
        logging.warning("%s: an older companion without digests, so damage would go unnoticed; save it again", config)
    elif stated_seal(config) is None:
        raise _changed(config, "it has lost its seal")
    elif file_digest(weights) != written:
        raise _changed(weights, f"its digest is not the one in {CONFIG}")
    try:
        about = About.model_validate(content)
        return with_weights(about.spec, load_file(weights), weights), about
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise ContractError(f"{config}: not a companion's settings ({place}: {first['msg']})") from None
    except (SafetensorError, OSError) as error:
        raise ContractError(unreadable(weights, "safetensors file", error)) from None


def _changed(file: Path, why: str) -> ContractError:
    again = "copy the companion again from where it was saved, or fit it again (cocal fit)"
    return ContractError(f"{file}: the file has changed since it was saved ({why}); {again}")


def write(folder: Path, companions: Companions, about: About, alone: tuple[Companions, About] | None = None) -> None:
    """Write the three files into a folder, which is made if need be, and those of a companion of states alone into a
    folder in it; one of an earlier companion there is removed. Files take their places when all of them are written, so
    that a full disk leaves the folder as it was. A ContractError refuses a folder with such files of something else."""
    check_place(folder)
    with together(plain(folder)) as new:
        _write(new, companions, about)
        if alone is not None:
            _write(new / ALONE, *alone)
        elif is_companion(folder / ALONE):
            shutil.rmtree(folder / ALONE)


def check_place(folder: Path) -> None:
    """Refuse a folder with such files of something else, by a ContractError."""
    for place in (folder, folder / ALONE):
        found = [name for name in (CONFIG, WEIGHTS, CARD) if (place / name).exists()]
        if found and not is_companion(place):
            raise ContractError(f"{place}: its {found[0]} is not a companion's; save in a folder of its own")


def _write(folder: Path, companions: Companions, about: About) -> None:
    from huggingface_hub import ModelCard

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
