"""prime-rl's rollouts: `rollouts/step_N/train/SUBSET/traces.jsonl`, each line an episode of the package verifiers.

An episode holds the traces of its agents. A trace is a tree of messages, each with the token ids that it adds and a
mask of those that the policy sampled. What is read is the trace of every trained agent that gave one response: a
companion tells how likely a response to a prompt is correct, and a conversation of several turns has no such response.

prime-rl keeps two subsets of a step: `all` has every episode that ended, and `effective` those that it trained on, from
which groups without a difference in reward may be missing. Where there are both, `all` is read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.integrations import lines
from cocal.integrations.sample import Sample, number, required, token_ids
from cocal.store.numbered import numbered

_FILE = "traces.jsonl"
_SUBSETS = ("all", "effective")
_STEP = r"step_(\d+)"
_CUT = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
"""Conditions by which verifiers stops a trace that has not ended by itself."""


def holds_steps(folder: Path) -> bool:
    """Whether a folder is prime-rl's folder of rollouts."""
    return any(folder.glob("step_*/train"))


def files(folder: Path) -> dict[int, Path]:
    """File of each training step; steps that were only evaluated are left out."""
    steps = numbered(folder, _STEP, f"step_1/train/all/{_FILE}")
    places = {step: [path / "train" / subset / _FILE for subset in _SUBSETS] for step, path in steps.items()}
    found = {step: next((file for file in of_step if file.exists()), None) for step, of_step in places.items()}
    return {step: file for step, file in found.items() if file is not None}


def step_of(file: Path) -> int | None:
    """The training step of a file by the name of its folder; None if it lies elsewhere."""
    found = (re.fullmatch(_STEP, part) for part in reversed(file.parts))
    return next((int(match[1]) for match in found if match), None)


def is_episode(entry: Mapping[str, Any]) -> bool:
    """Whether a line is an episode."""
    return {"task", "traces"} <= {*entry}


def read(path: Path, reward: str | None, left_out: Counter) -> Iterator[Sample]:
    """The responses of a file, one at a time.

    Args:
        path: File to read.
        reward: Name of the reward that tells whether a response is correct; by default the weighted sum of all.
        left_out: Numbers of the traces that were not read, by the reason, which are added to.

    Raises:
        ContractError: if a line is no episode, or a trace is invalid; the message names file, line, trace and field.
    """
    for where, _, episode in lines.entries(path):
        group = _fields(episode, "group", where).get("id")
        for place, trace in enumerate(_entries(episode, "traces", where)):
            at = f"{where}: trace {place}"
            if why := _useless(trace, at):
                left_out[why] += 1
            else:
                yield _sample(trace, group, reward, at)


def _useless(trace: Mapping[str, Any], where: str) -> str | None:
    """Why there is nothing to learn from a trace; None if there is."""
    if not _fields(trace, "agent", where).get("trainable", True):
        return "are of agents that are not trained"
    if not trace.get("ok"):
        return "ended in an error"
    if sum(bool(node.get("sampled")) for node in _entries(trace, "nodes", where)) != 1:
        return "have several turns or none"
    return None


def _sample(trace: Mapping[str, Any], group: str | None, reward: str | None, where: str) -> Sample:
    nodes = _entries(trace, "nodes", where)
    (last,) = (place for place, node in enumerate(nodes) if node.get("sampled"))
    path = [nodes[place] for place in _path(nodes, last, where)]
    ids = token_ids([one for node in path for one in _values(node, "token_ids", where)], "token_ids", where)
    mask = [one for node in path for one in _values(node, "mask", where)]
    length = mask.count(True)
    if len(mask) != len(ids) or not 0 < length < len(ids) or mask[:-length] != [False] * (len(ids) - length):
        raise ContractError(
            f"{where}: field 'mask' does not split {len(ids)} tokens into a prompt and the response that follows it"
        )
    task = _fields(trace, "task", where)
    return Sample(
        where,
        group=group,
        question_id=task.get("key") or task.get("hash"),
        prompt_ids=ids[:-length],
        response_ids=ids[-length:],
        truncated=_truncated(trace, where),
        reward=_reward(trace, reward, where),
    )


def _path(nodes: Sequence[Mapping[str, Any]], last: int, where: str) -> list[int]:
    """Places of the messages from the first one to the response."""
    path = [last]
    while (parent := nodes[path[-1]].get("parent")) is not None:
        if not isinstance(parent, int) or not 0 <= parent < path[-1]:
            raise ContractError(f"{where}: the parent of message {path[-1]} is {parent!r}, not an earlier message")
        path.append(parent)
    return path[::-1]


def _truncated(trace: Mapping[str, Any], where: str) -> bool:
    """verifiers' `Trace.is_truncated`."""
    if trace.get("stop_condition") in _CUT:
        return True
    answered = [call for call in _entries(trace, "calls", where) if call.get("error") is None]
    return bool(answered) and answered[-1].get("finish_reason") == "length"


def _reward(trace: Mapping[str, Any], name: str | None, where: str) -> float | None:
    """One reward's score, or verifiers' `Trace.reward`; None without any."""
    rewards = _fields(trace, "rewards", where)
    if name is not None:
        return _part(rewards, name, "score", where)
    given = [key for key, reward in rewards.items() if reward is not None]  # verifiers could not give the others
    weighted = [_part(rewards, key, "score", where) * _part(rewards, key, "weight", where) for key in given]
    return sum(weighted) if weighted else None


def _part(rewards: Mapping[str, Any], name: str, part: str, where: str) -> float:
    required(rewards, name, f"{where}: rewards")
    reward = _fields(rewards, name, f"{where}: rewards")
    return number(required(reward, part, f"{where}: reward {name}"), part, where)


def _fields(entry: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    """What a field holds, by name; nothing where it is missing."""
    found = entry.get(name) or {}
    if not isinstance(found, Mapping):
        raise ContractError(f"{where}: field {name!r} is not a mapping of fields")
    return found


def _values(entry: Mapping[str, Any], name: str, where: str) -> list[Any]:
    """The list that a field holds; an empty one where it is missing."""
    found = entry.get(name) or []
    if not isinstance(found, list):
        raise ContractError(f"{where}: field {name!r} is not a list")
    return found


def _entries(entry: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    """The same, of mappings."""
    found = _values(entry, name, where)
    if not all(isinstance(one, Mapping) for one in found):
        raise ContractError(f"{where}: field {name!r} holds something else than mappings of fields")
    return found
