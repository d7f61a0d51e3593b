"""Rows by hand in the forms that are read, and what is said of a row that is not."""

import json
from collections import Counter
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.rollouts.files import find
from cocal.rollouts.format import Reading

IDS = {"question_id": "q7", "prompt_ids": [5, 6, 7], "response_ids": [8, 9], "truncated": True, "group": 11}
LINE = IDS | {"prompt": "What is 2 + 3?", "correct": True, "step": 4}
TEXT = {
    "messages": [{"role": "user", "content": "What is 4 + 9?"}],
    "response": "It is 13.",
    "reward": -1.0,
    "finish_reason": "length",
}
FIXED = IDS | {"question": "What is 6 + 8?", "logprobs": [-0.5, -0.25], "reward": 1}
SLIME = {
    "group_index": 6,
    "prompt": "What is 7 + 10?",
    "tokens": [3, 4, 5, 6, 7],
    "response_length": 2,
    "loss_mask": [1, 1],
    "rollout_log_probs": [-0.125, -0.75],
    "reward": {"acc": 1.0},
    "status": "truncated",
    "metadata": {"question_id": "q5"},
}


def lines(path: Path, *given) -> Path:
    """A file of JSON lines; bytes stand in it as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in given))
    return path


def dump(folder: Path, *given) -> Path:
    """slime's dump of the first step."""
    import torch  # most rows need none

    torch.save({"rollout_id": 0, "samples": list(given)}, folder / "0.pt")
    return folder / "0.pt"


def samples(*places: Path, **mapping) -> list:
    """The responses of files whose format is guessed."""
    return list(find(places).samples(Reading(fields=mapping), Counter()))


def noted(*places: Path, **mapping) -> tuple[list, list[str]]:
    """The same, and what is noted beside the fields."""
    notes: Counter = Counter()
    found = list(find(places).samples(Reading(fields=mapping), notes))
    return found, [note for note in notes if not note.startswith("fields")]


def sentence(read, *given) -> str | None:
    """What is said about something that cannot be read; None if it can. Any other error is raised."""
    try:
        read(*given)
    except (ContractError, ConfigError) as error:
        return str(error)
    return None
