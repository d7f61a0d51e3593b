"""Checkpoints from elsewhere: downloaded from the hub, checked, and put among the policies of a study."""

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.models.hub import FILES, download
from cocal.models.loading import load_tokenizer, open_model, read_config, read_vocabulary
from cocal.store import atomic_path, label_folder
from cocal.store.run_folder import link_file
from cocal_study.backbones.packaged import unpack_model

if TYPE_CHECKING:
    from cocal_study.config.backbone import CheckpointSettings, PackageSettings


def import_checkpoint(
    source: Path, output: Path, *, depth: int, width: int, attributes: Mapping[str, str], base: Path | None = None
) -> None:
    """Check a checkpoint and put it atomically at `output`; files are linked, or copied across file systems. It must
    have `depth` transformer blocks, hidden states of size `width`, and the vocabulary of `base`. Raises ContractError
    if a check fails; the message names the folder, the file and the reason."""
    import torch

    config = _settings(source, "config.json")
    _check_shape(source, config, depth, width)
    spoken = _settings(source, "tokenizer_config.json") if (source / "tokenizer_config.json").exists() else {}
    if "auto_map" in config or "auto_map" in spoken:  # slime runs such code unasked
        raise ContractError(
            f"{source}: the checkpoint brings code of its own (auto_map in config.json or tokenizer_config.json), "
            "which is never run; give one that transformers loads without"
        )
    open_model(source, read_config(source), torch.float32, torch.device("meta"))
    vocabulary, rows = read_vocabulary(source), config.get("vocab_size", 0)
    tokenizer = vocabulary.tokenizer
    if len(tokenizer) > rows:
        raise ContractError(f"{source}: the tokenizer has {len(tokenizer)} tokens, but the embedding has {rows} rows")
    if not vocabulary.ends:
        raise ContractError(
            f"{source}: neither generation_config.json nor the tokenizer names a token that ends a response; add "
            "eos_token_id to generation_config.json"
        )
    if base is not None:
        expected = _settings(base, "config.json")["vocab_size"]
        if rows != expected:
            raise ContractError(f"{source}: the embedding has {rows} rows, but that of {base} has {expected}")
        ours, theirs = tokenizer.get_vocab(), load_tokenizer(base).get_vocab()
        if ours != theirs:
            other = min(ours.items() ^ theirs.items())[0]
            raise ContractError(f"{source}: the vocabulary differs from that of {base} in token {other!r}")
    files = sorted({file for pattern in FILES for file in source.glob(pattern)})
    with atomic_path(output) as partial:
        partial.mkdir()
        for file in files:
            link_file(file, partial / file.name)
        label_folder(partial, attributes)
    logging.info("%s: %d files of %s", output, len(files), source)


def _check_shape(source: Path, config: Mapping[str, Any], depth: int, width: int) -> None:
    """Compare the config.json of a checkpoint with the shape that a study states."""
    for key, name, wanted in (("num_hidden_layers", "depth", depth), ("hidden_size", "width", width)):
        if config.get(key) != wanted:
            raise ContractError(f"{source}: {key} is {config.get(key)}, the backbone's {name} is {wanted}")


@contextmanager
def existing(settings: "CheckpointSettings | PackageSettings") -> Iterator[Path]:
    """Yield the folder of an existing checkpoint from the source that its settings name, once it has the shape that
    they state. The model of a package is unpacked into a temporary folder, which is deleted when the context ends.
    Raises ContractError if the checkpoint cannot be downloaded or is not what the settings state.
    """
    with tempfile.TemporaryDirectory() as place:
        if settings.source == "package":
            folder = Path(place) / settings.package
            folder.mkdir()
            unpack_model(settings, folder)
        else:
            folder = download(settings.path, settings.revision or "") if settings.on_hub else Path(settings.path)
        _check_shape(folder, _settings(folder, "config.json"), settings.depth, settings.width)
        yield folder


def _settings(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        reason = f"{name} is missing" if folder.is_dir() else "no such checkpoint folder"
        raise ContractError(f"{folder}: {reason}") from None
    except ValueError as error:
        raise ContractError(f"{folder / name}: the file is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ContractError(f"{folder / name}: the file holds no settings")
    return content
