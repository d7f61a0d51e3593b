"""slime's dumps (`--save-debug-rollout-data`): `{rollout_id}.pt`, a dict of plain data."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Strict

from cocal.errors import ContractError
from cocal.integrations.sample import Name, Said, Sample, TokenIds
from cocal.store.rows import in_bytes, listed, numbered, reading, regular


class _Status(BaseModel):
    status: Literal["completed", "truncated", "pending", "aborted", "failed"]


class _Metadata(BaseModel):
    question_id: Name | None = None


class _Finished(_Status):
    """The fields of slime's finished `Sample.to_dict` that our `Sample` does not check itself."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    group_index: Name
    prompt: Said
    tokens: TokenIds
    response_length: Annotated[int, Strict()]
    loss_mask: list[bool] | None = None
    metadata: _Metadata | None = None


def files(folder: Path) -> dict[int, Path]:
    """Dumps by rollout step: rollout id 0 is step 1. Dumps of evaluations (`eval_*.pt`) are left out."""
    return {number + 1: path for number, path in numbered(folder, r"(\d+)\.pt", "0.pt").items()}


def read(path: Path, reward_key: str) -> list[Sample]:
    """The samples of a dump; those that never finished, or that hold the words of a tool, say that they are left out.

    Where a reward is a dict, `reward_key` is its key of correctness.

    Raises:
        ContractError: if the dump or a sample is invalid; the message names file, sample, field and remedy.
    """
    content = _content(regular(path, "slime's dumps"))
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list) or not samples:
        raise ContractError(f"{path}: field 'samples' is missing or empty; expected a dump of slime's rollouts")
    if content.get("rollout_id") not in (None, int(path.stem)):
        raise ContractError(f"{path}: it holds another rollout_id; the name must be the id")
    return [_sample(entry, f"{path}: sample {place}", reward_key) for place, entry in enumerate(samples)]


def _content(path: Path) -> Any:
    import torch

    try:
        _check_size(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except (ContractError, MemoryError):
        raise
    except Exception as error:  # damaged bytes make the unpickler raise errors of any kind
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ContractError(
            f"{path}: not a readable dump of plain data ({first}); objects of other kinds are never loaded"
        ) from None


def _check_size(path: Path) -> None:
    """PyTorch does not compress what it saves. An archive that grows was not written by it, and may grow endlessly."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked, bound = sum(one.file_size for one in archive.infolist()), path.stat().st_size
        if unpacked > bound:
            raise ContractError(
                f"{path}: its content takes {in_bytes(unpacked)}, more than the {in_bytes(bound)} of the file; "
                "torch.save does not compress: load it in a safe place and save it again"
            )


def _sample(entry: Any, where: str, reward_key: str) -> Sample:
    with reading(where):
        status = _Status.model_validate(entry).status
        if status not in ("completed", "truncated"):
            return Sample.read(where, left_out=f"its status is {status!r}")
        found = _Finished.model_validate(entry)
    tokens, length, mask = found.tokens, found.response_length, found.loss_mask
    if not 0 < length < len(tokens):
        raise ContractError(
            f"{where}: response_length is {length} of {len(tokens)} tokens; neither prompt nor response may be "
            "empty: correct or delete the sample"
        )
    if mask is not None and len(mask) != length:
        raise ContractError(f"{where}: loss_mask has {len(mask)} values for {length} response tokens")
    return Sample.read(
        where,
        {"logprobs": "rollout_log_probs"},
        group=found.group_index,
        prompt=found.prompt,
        question_id=found.metadata and found.metadata.question_id,
        prompt_ids=tokens[:-length],
        response_ids=tokens[-length:],
        truncated=status == "truncated",
        logprobs=entry.get("rollout_log_probs"),
        reward=_reward(entry.get("reward"), where, reward_key),
        left_out="its loss_mask excludes tokens that the policy did not write" if mask and len({*mask}) > 1 else None,
    )


def _reward(reward: Any, where: str, key: str) -> Any:
    if not isinstance(reward, Mapping):
        return reward
    if reward.get(key) is None:
        raise ContractError(
            f"{where}: the reward has several parts ({listed(reward)}); name the one that tells whether a response is "
            "correct by --field reward=KEY (of `cocal import-rollouts`: --reward-key KEY)"
        )
    return reward[key]
