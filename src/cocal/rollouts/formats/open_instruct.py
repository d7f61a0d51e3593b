"""open-instruct's traces (`--save_traces`), which have exact ids, and number the prompts of a step as `prompt_idx`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from cocal.rollouts import lines
from cocal.rollouts.format import Format


def _useless(entry: Mapping[str, Any]) -> str | None:
    info = entry.get("request_info")
    return "it called a tool" if isinstance(info, dict) and info.get("tool_calleds") is True else None


FORMAT = Format(
    name="open-instruct's JSON lines",
    version="e6c3044",
    files="`RUN_rollouts_000000.jsonl`, ... (`save_traces`)",
    about="exact ids; a reward of a right answer is usually 10, so `cocal fit --correct-above 0`",
    example=(
        "run_rollouts_000000.jsonl",
        {
            **{"prompt_tokens": [5, 6], "response_tokens": [7, 2], "reward": 10.0, "step": 1, "prompt_idx": 0},
            **{"finish_reason": "stop", "request_info": {"tool_calleds": False}},
        },
    ),
    recognises=lambda path, fields: path.suffix == ".jsonl" and {"prompt_tokens", "response_tokens"} <= {*fields},
    read=partial(lines.read, useless=_useless),
)
