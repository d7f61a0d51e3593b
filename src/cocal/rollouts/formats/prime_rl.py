"""prime-rl's rollouts: `rollouts/step_N/train/SUBSET/traces.jsonl`, each line an episode of the package verifiers.

An episode holds the traces of its agents. A trace is a tree of messages, each with the token ids that it adds and a
mask of those that the policy sampled. What is read is the trace of every trained agent that gave one response: a
companion tells how likely a response to a prompt is correct, and a conversation of several turns has no such response.

prime-rl keeps two subsets of a step: `all` has every episode that ended, and `effective` those that it trained on, from
which groups without a difference in reward may be missing. Where there are both, `all` is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Strict, model_validator

from cocal.errors import ContractError
from cocal.rollouts.exclusions import MEDIA, has_media
from cocal.rollouts.format import Format
from cocal.rollouts.sample import Sample
from cocal.rollouts.values import Name, Number
from cocal.store.rows import entries, listed, reading

_CUT = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
"""Conditions by which verifiers stops a trace that has not ended by itself."""


class _Part(BaseModel):
    """A part of an episode; null counts as missing, and further fields are ignored."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        return {k: v for k, v in values.items() if v is not None} if isinstance(values, Mapping) else values


class _Group(_Part):
    id: Name | None = None


class _Agent(_Part):
    trainable: bool = True


class _Task(_Part):
    key: Name | None = None
    hash: Name | None = None


class _Node(_Part):
    parent: Annotated[int, Strict()] | None = None
    sampled: bool = False
    token_ids: list = []
    mask: list[bool] = []
    message: Any = None


class _Call(_Part):
    error: Any = None
    finish_reason: Any = None


class _Reward(_Part):
    score: Number | None = None
    weight: Number | None = None


class _Trace(_Part):
    agent: _Agent = _Agent()
    ok: bool = False
    task: _Task = _Task()
    nodes: list[_Node] = []
    calls: list[_Call] = []
    rewards: dict[str, _Reward | None] = {}
    stop_condition: str | None = None


class _Episode(_Part):
    group: _Group = _Group()
    traces: list[_Trace] = []


def read(path: Path, reward: str | None) -> Iterator[Sample]:
    """The responses of a file, one at a time; a trace that is no response of the policy says that it is left out.

    The `reward` of this name tells whether a response is correct; by default the weighted sum of all does. A
    ContractError names file, line, trace and field where a line is no episode, or a trace is invalid.
    """
    for where, _, entry in entries(path):
        with reading(where):
            episode = _Episode.model_validate(entry)
        for place, trace in enumerate(episode.traces):
            yield _sample(trace, episode.group.id, reward, f"{where}: trace {place}")


def _useless(trace: _Trace) -> str | None:
    """Why there is nothing to learn from a trace; None if there is."""
    if not trace.agent.trainable:
        return "its agent is not trained"
    if not trace.ok:
        return "it ended in an error"
    if sum(node.sampled for node in trace.nodes) != 1:
        return "it has several turns or none"
    return MEDIA if has_media([node.message for node in trace.nodes]) else None


def _sample(trace: _Trace, group: int | str | None, reward: str | None, where: str) -> Sample:
    if why := _useless(trace):
        return Sample.read(where, left_out=why)
    (last,) = (place for place, node in enumerate(trace.nodes) if node.sampled)
    path = [trace.nodes[place] for place in _path(trace.nodes, last, where)]
    ids = [one for node in path for one in node.token_ids]
    mask = [one for node in path for one in node.mask]
    length = mask.count(True)
    if ids and not length:
        return Sample.read(where, left_out="its response is empty")
    if len(mask) != len(ids) or not 0 < length < len(ids) or mask[:-length] != [False] * (len(ids) - length):
        raise ContractError(
            f"{where}: field 'mask' does not split {len(ids)} tokens into a prompt and the response that follows it"
        )
    answered = [call for call in trace.calls if call.error is None]  # as in verifiers' `Trace.is_truncated`
    cut = trace.stop_condition in _CUT or bool(answered and answered[-1].finish_reason == "length")
    message = trace.nodes[last].message
    said = message.get("content") if isinstance(message, Mapping) else None
    return Sample.read(
        where,
        {"prompt_ids": "token_ids", "response_ids": "token_ids"},
        group=group,
        question_id=trace.task.key or trace.task.hash,
        prompt_ids=ids[:-length],
        response_ids=ids[-length:],
        response_beside=said if isinstance(said, str) else None,
        truncated=cut,
        reward=_reward(trace, reward, where),
    )


def _path(nodes: Sequence[_Node], last: int, where: str) -> list[int]:
    """Places of the messages from the first one to the response."""
    path = [last]
    while (parent := nodes[path[-1]].parent) is not None:
        if not 0 <= parent < path[-1]:
            raise ContractError(f"{where}: the parent of message {path[-1]} is {parent!r}, not an earlier message")
        path.append(parent)
    return path[::-1]


def _reward(trace: _Trace, name: str | None, where: str) -> float | None:
    """One reward's score, or verifiers' `Trace.reward`; None without any."""
    if name is not None:
        return _part(trace, name, "score", where)
    given = [key for key, reward in trace.rewards.items() if reward is not None]  # verifiers could not give the others
    weighted = [_part(trace, key, "score", where) * _part(trace, key, "weight", where) for key in given]
    return sum(weighted) if weighted else None


def _part(trace: _Trace, name: str, part: str, where: str) -> float:
    found = getattr(trace.rewards.get(name), part, None)
    if found is None:
        raise ContractError(
            f"{where}: reward {name!r} has no {part}; the rewards are {listed(trace.rewards)}: name one by --field "
            "reward=NAME, or delete the trace"
        )
    return found


FORMAT = Format(
    name="prime-rl's traces",
    version="559b447, verifiers at a60a606",
    files="`rollouts/step_1/train/all/traces.jsonl`, ... (`FileMonitor`)",
    about="exact ids; `cocal fit --field reward=NAME` where one of several rewards is correctness",
    example=(
        "step_1/train/all/traces.jsonl",
        {
            **{"task": {}, "group": {"id": "g"}},
            "traces": [
                {
                    **{"ok": True, "rewards": {"correct": {"score": 1.0, "weight": 1.0}}},
                    "nodes": [
                        {"token_ids": [5, 6], "mask": [False, False]},
                        {"parent": 0, "sampled": True, "token_ids": [7, 2], "mask": [True, True]},
                    ],
                }
            ],
        },
    ),
    recognises=lambda path, fields: path.suffix == ".jsonl" and {"task", "traces"} <= {*fields},
    read=lambda path, reading, _: read(path, reading.label("prime-rl's traces")),
)
