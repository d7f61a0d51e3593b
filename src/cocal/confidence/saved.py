"""The files of a saved companion, in the Hub's convention."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cocal import __version__
from cocal.companion.companions import Companions, with_weights
from cocal.errors import ContractError
from cocal.fitting.config import CompanionConfig
from cocal.models.hub import folder_of
from cocal.store.atomic import atomic_path, together, usual_mode, write_text
from cocal.store.damage import unreadable
from cocal.store.files import read_labelled, write_document
from cocal.store.folders import file_digest
from cocal.store.origin import SEAL

if TYPE_CHECKING:
    from huggingface_hub import HfApi

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
"""Files of a saved companion."""
ALONE = "states-alone"
"""Folder of the best companion of states alone, within that of a companion that also reads token probabilities."""
_DIGEST = "weights"
"""Name of the config's provenance attribute that holds the SHA-256 of the file of weights."""


def read(
    name: str | Path, **options: Any
) -> tuple[Companions, CompanionConfig, tuple[Companions, CompanionConfig] | None]:
    """Read a companion, and the one of states alone that is saved with it, if any, from a folder or the Hub. See
    `cocal.Companion.from_pretrained` for options and errors."""
    files = [part + file for part in ("", f"{ALONE}/") for file in (CONFIG, WEIGHTS)]
    folder = folder_of(str(name), "companion (`cocal fit` makes one)", files, **options)
    companions, config = _read(folder)
    beside = config.token_probability and (folder / ALONE / CONFIG).exists()
    return companions, config, _read(folder / ALONE) if beside else None


def _read(folder: Path) -> tuple[Companions, CompanionConfig]:
    settings, weights = folder / CONFIG, folder / WEIGHTS
    for file in (settings, weights):
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; is {folder} a companion's folder (cocal fit)?")
    content, attributes = read_labelled(settings)
    if (kind := content.get("model_type")) and kind != CompanionConfig.model_fields["model_type"].default:
        raise ContractError(
            f"{settings}: belongs to a language model ({kind}) and not to a companion; are --companion and --model "
            "swapped?"
        )
    if _DIGEST not in attributes:
        logging.warning("%s: an older companion without digests, so damage would go unnoticed; save it again", settings)
    elif SEAL not in attributes:
        raise _changed(settings, "it has lost its seal")
    elif file_digest(weights) != attributes[_DIGEST]:
        raise _changed(weights, f"its digest is not the one in {CONFIG}")
    try:
        config = CompanionConfig.model_validate(content)
        return with_weights(config.spec, load_file(weights), weights), config
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        saved_by = content.get("cocal_version")
        newer = "" if saved_by in (None, __version__) else f"; CoCal {saved_by} has saved it, and this is {__version__}"
        raise ContractError(f"{settings}: not a companion's settings ({place}: {first['msg']}){newer}") from None
    except (SafetensorError, OSError) as error:
        raise ContractError(unreadable(weights, "safetensors file", error)) from None


def _changed(file: Path, why: str) -> ContractError:
    again = "copy the companion again from where it was saved, or fit it again (cocal fit)"
    return ContractError(f"{file}: the file has changed since it was saved ({why}); {again}")


def write(
    folder: Path,
    companions: Companions,
    config: CompanionConfig,
    alone: tuple[Companions, CompanionConfig] | None = None,
) -> None:
    """Write the three files into a folder, which is created if needed, and those of a companion of states alone into
    its sub-folder; without one, that of an earlier companion is removed. Files are moved into place once all are
    written, so that a full disk leaves the folder as it was. Raises a ContractError as `check_place` does."""
    check_place(folder)
    with together(folder) as new:
        _write(new, companions, config)
        if alone is not None:
            _write(new / ALONE, *alone)
        elif is_companion(folder / ALONE):
            for name in (WEIGHTS, CONFIG, CARD):
                (folder / ALONE / name).unlink(missing_ok=True)
            with suppress(OSError):  # others have put something there
                (folder / ALONE).rmdir()


def check_place(folder: Path) -> None:
    """Raise a ContractError if the place is a file, or a folder with such files that are not a companion's."""
    if folder.exists() and not folder.is_dir():
        raise ContractError(f"{folder}: is a file, and a companion is a folder; name another place")
    for place in (folder, folder / ALONE):
        names = [name for name in (CONFIG, WEIGHTS, CARD) if (place / name).exists()]
        if names and not is_companion(place):
            raise ContractError(f"{place}: its {names[0]} is not a companion's; save in a folder of its own")


def _write(folder: Path, companions: Companions, config: CompanionConfig) -> None:
    with atomic_path(folder / WEIGHTS) as partial:
        weights = {name: tensor.cpu().contiguous() for name, tensor in companions.model.state_dict().items()}
        save_file(weights, partial, {"format": "pt"})
        usual_mode(partial)
    written = {_DIGEST: file_digest(folder / WEIGHTS)}
    write_document(folder / CONFIG, config.model_dump(mode="json"), written)
    write_text(folder / CARD, config.card())


def may_hold(hub: "HfApi", name: str, revision: str | None) -> bool:
    """True if a repository of the Hub has none of a companion's files, or says that it is a companion."""
    held = {WEIGHTS, CONFIG} & {*hub.list_repo_files(name, revision=revision)}
    if CONFIG not in held:
        return not held
    return is_companion(Path(hub.hf_hub_download(name, CONFIG, revision=revision)).parent)


def is_companion(folder: Path) -> bool:
    """True if a folder says that it is a saved companion."""
    try:
        content = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("model_type") == CompanionConfig.model_fields["model_type"].default
