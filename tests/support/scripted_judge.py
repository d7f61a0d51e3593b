"""A judge whose replies a test writes: an engine that reads the message it is given, token ids and all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cocal.engines.engine import Completion
from cocal_study.config.evaluation import LlmJudgeSettings
from cocal_study.generation.judge import Judgements, LlmJudge, asking
from cocal_study.generation.judge_prompts import JudgePrompts

IDENTITY = {"checkpoint": "scripted", "revision": "1"}


class ScriptedEngine:
    """Replies to each message with what `script` says; keeps the batches that it was asked."""

    label = "script 1.0"

    def __init__(self, tokenizer, script: Callable[[str], str]):
        self._tokenizer, self._script = tokenizer, script
        self.batches: list[list[str]] = []

    def generate(self, prompts, sampling, seeds):
        assert (sampling.top_k, sampling.samples, len(seeds)) == (1, 1, len(prompts))
        self.batches.append([self._tokenizer.decode(ids) for ids in prompts])
        replies = [self._tokenizer(self._script(text))["input_ids"] for text in self.batches[-1]]
        end = self._tokenizer.eos_token_id
        return [[Completion([*ids, end], np.zeros(len(ids) + 1, np.float32), "stop")] for ids in replies]

    @property
    def asked(self) -> list[str]:
        """All messages, in order."""
        return [message for batch in self.batches for message in batch]


class ScriptedJudge:
    """An `LlmJudge` over a scripted engine; `opened` counts how often the engine was loaded."""

    def __init__(self, tokenizer, cache: Path, script: Callable[[str], str], identity=None, **settings):
        self.engine = ScriptedEngine(tokenizer, script)
        self.opened = 0
        self.settings = LlmJudgeSettings(kind="llm", checkpoint="/scripted", **settings)
        self._ask = asking(self.engine, tokenizer, self.settings.max_tokens)
        self.judgements = Judgements(self._open, identity or IDENTITY, cache)
        self.judge = LlmJudge(self.settings, self.judgements, JudgePrompts())

    @contextmanager
    def _open(self) -> Iterator:
        self.opened += 1
        yield self._ask, self.engine.label


def named(message: str, *fields: str) -> list[str]:
    """The texts of a message after `Generated answer: ` and the like."""
    lines = dict(line.split(": ", 1) for line in message.splitlines() if ": " in line)
    return [lines[field] for field in fields]
