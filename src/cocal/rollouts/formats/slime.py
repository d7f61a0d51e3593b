"""The dumps of slime, the paper's engine (`--save-debug-rollout-data`): `{rollout_id}.pt` or `rollout_{rollout_id}.pt`,
a dict of plain data. Nothing here imports slime."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Strict

from cocal.errors import ContractError, first_line
from cocal.rollouts.exclusions import MEDIA, other_words, several_versions
from cocal.rollouts.format import Format
from cocal.rollouts.sample import Sample
from cocal.rollouts.values import Name, TokenIds
from cocal.store.damage import regular
from cocal.store.rows import listed, numbered, reading

_MEDIA = "multimodal_inputs", "multimodal_train_inputs"
_NAME = r"(?!.*eval_)\D*(\d+)\.pt"


class _Finished(BaseModel):
    """The fields of slime's finished `Sample.to_dict` that our `Sample` does not check itself."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    status: Literal["completed", "truncated"]
    group_index: Name
    prompt: Any
    tokens: TokenIds
    response_length: Annotated[int, Strict()]
    remove_sample: bool = False
    metadata: dict[str, Any] | None = None


def files(folder: Path) -> dict[int, Path]:
    """Dumps by rollout step: rollout id 0 is step 1. Dumps of evaluations (`eval_0.pt`) are left out."""
    return {number + 1: path for number, path in numbered(folder, _NAME, "0.pt").items()}


def read(path: Path, reward_key: str = "", ignored: Collection[str] = ()) -> list[Sample]:
    """The samples of a dump; those that cannot be learnt from say why they are left out.

    If a reward is a dict, `reward_key` is the key of its correctness; without a key no reward is read. Masks are not
    read if `loss_mask` is ignored. Raises a ContractError that names file, sample, field and remedy if the dump or a
    sample is invalid.
    """
    import torch

    regular(path, "slime's dumps")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # damaged bytes make the unpickler raise errors of any kind
        raise ContractError(
            f"{path}: not a readable dump of plain data ({first_line(error)}); objects of other kinds are never loaded"
        ) from None
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list) or not samples:
        raise ContractError(
            f"{path}: field 'samples' is missing or empty; expected a dump of slime's rollouts; if "
            "other files are the rollouts, name them"
        )
    return [_sample(entry, f"{path}: sample {place}", reward_key, ignored) for place, entry in enumerate(samples)]


def _sample(entry: Any, where: str, reward_key: str, ignored: Collection[str]) -> Sample:
    if isinstance(entry, Mapping):
        entry = {name: _plain(value) for name, value in entry.items()}
        if (status := entry.get("status")) in ("pending", "aborted", "failed"):  # which lacks the rest
            return Sample.read(where, left_out=f"its status is {status!r}")
    with reading(where):
        finished = _Finished.model_validate(entry)
    tokens, length = finished.tokens, finished.response_length
    if not 0 <= length < len(tokens):
        raise ContractError(
            f"{where}: response_length is {length} of {len(tokens)} tokens; the prompt may not be empty: correct or "
            "delete the sample"
        )
    said = entry.get("response") if isinstance(entry.get("response"), str) else None
    why = None
    if finished.remove_sample:
        why = "slime removed it from training (remove_sample)"
    elif any(isinstance(entry.get(name), dict) and entry[name] for name in _MEDIA):
        why = MEDIA
    elif said is not None:
        why = other_words(said, raw=False)
    return Sample.read(
        where,
        {"logprobs": "rollout_log_probs", "mask": "loss_mask", "question_id": "metadata.question_id"},
        group=finished.group_index,
        prompt=finished.prompt,
        question_id=(finished.metadata or {}).get("question_id"),
        prompt_ids=tokens[: len(tokens) - length],
        response_ids=tokens[len(tokens) - length :],
        response_beside=said,
        truncated=finished.status == "truncated",
        logprobs=entry.get("rollout_log_probs"),
        mask=None if {"mask", "loss_mask"} & {*ignored} else entry.get("loss_mask"),
        reward=_reward(entry.get("reward"), where, reward_key) if reward_key else None,
        left_out=why,
        doubt=several_versions(entry),
    )


def _reward(reward: Any, where: str, key: str) -> Any:
    if not isinstance(reward, Mapping):
        return reward
    if reward.get(key) is None:
        raise ContractError(
            f"{where}: the reward has several parts ({listed(reward)}); name the one that tells whether a response is "
            "correct by --field reward=KEY"
        )
    return _plain(reward[key])


def _plain(value: Any) -> Any:
    """The numbers of a tensor; any other value as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


FORMAT = Format(
    name="slime's dumps",
    recognises=lambda path, _: path.suffix == ".pt",
    read=lambda path, reading, _: read(path, reading.label("slime's dumps") or "reward", reading.ignored),
    steps=files,
)
