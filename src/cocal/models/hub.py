"""Checkpoints on the Hugging Face hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cocal.errors import ContractError, first_line
from cocal.models.weights import ADAPTER, BELOW

FILES = (
    *("config.json", "generation_config.json", "*.safetensors", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("added_tokens.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json"),
)
"""Files of a checkpoint that are imported: safetensors weights, tokenizer and settings, but no code and no pickles."""


def may_be_on_hub(name: str) -> bool:
    """True if a name that is no folder has the form of a name on the Hub (owner/name), and not of a mistyped path."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))


def folder_of(name: str, what: str, patterns: Sequence[str] = (*FILES, ADAPTER, BELOW), **options: Any) -> Path:
    """The folder at this path, or of this name on the Hub (`download`). Raises a ContractError if there is none.

    Args:
        what: What it holds, such as "model".
    """
    if Path(name).is_dir():
        return Path(name)
    if Path(name).exists() or not may_be_on_hub(name):
        raise ContractError(
            f"{name}: is neither a folder of a {what} in the format of Hugging Face nor a name on the Hub (owner/name)"
        )
    return download(name, patterns=patterns, **options)


def download(
    name: str, revision: str | None = None, patterns: Sequence[str] = (*FILES, ADAPTER, BELOW), **options: Any
) -> Path:
    """Folder of a Hub repository in the Hub's own cache. An interrupted download resumes; a finished one is reused.
    Raises a ContractError if it cannot be downloaded.

    Args:
        revision: Commit, branch or tag; by default the branch main.
        patterns: The files that are taken; by default those of a checkpoint.
        options: Further ones of `huggingface_hub.snapshot_download`.
    """
    from huggingface_hub import errors, snapshot_download

    revision = revision or "main"
    where = f"{name} at {revision[:12]}"
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*patterns], **options))
    except (OSError, errors.HFValidationError) as error:
        raise ContractError(
            f"{where}: cannot be downloaded ({first_line(error)}); check name and revision, consent on the hub and "
            "log in (`hf auth login`), or fetch it where the hub can be reached (`hf download "
            f"{name} --revision {revision}`) into the cache that HF_HOME names, or name a folder instead"
        ) from None
