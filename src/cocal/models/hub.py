"""Checkpoints of the Hugging Face hub at a pinned commit."""

from pathlib import Path

from cocal.errors import ContractError, first_line
from cocal.models.importing import FILES


def download(name: str, revision: str) -> Path:
    """Folder of a hub checkpoint in the hub's own cache. An interrupted download resumes; a finished one is reused.

    Args:
        name: Name on the hub, as owner/name.
        revision: Commit on the hub.

    Raises:
        ContractError: if the hub cannot be reached or does not have the checkpoint.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    where = f"{name} at {revision[:12]}"
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except GatedRepoError:
        raise ContractError(f"{where}: the hub requires consent: give it there, then run `hf auth login`") from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise ContractError(f"{where}: the hub has no such checkpoint; check path and revision") from None
    except OSError as error:  # the hub's other errors are of this kind
        raise ContractError(
            f"{where}: cannot be downloaded ({first_line(error)}). Run this rule where the hub can be reached, or "
            f"fetch it there (`hf download {name} --revision {revision}`) into the cache that HF_HOME names, or name a "
            "folder instead"
        ) from None
