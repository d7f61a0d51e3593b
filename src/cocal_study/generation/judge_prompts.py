"""The messages to a judging language model, from the templates `correctness.txt` and `equivalence.txt`, and the
verdicts in its replies."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from cocal.errors import ConfigError
from cocal.store import digest
from cocal_study.questions.prompts import inert

_REPLY = re.compile(r"[\s\"'`*“”]*(?P<verdict>certain|uncertain)[\s\"'`*“”.]*", re.IGNORECASE)
_FIELDS = {"correctness": {"question", "accepted", "answer"}, "equivalence": {"question", "first", "second"}}


class JudgePrompts:
    """User messages to a judge, by default from cocal_study/questions/prompts/judge, whose README names their
    sources. Raises ConfigError if a file is missing or lacks a placeholder."""

    def __init__(self, folder: str | Path | None = None):
        place = files("cocal_study.questions.prompts") / "judge" if folder is None else Path(folder)
        self._texts = {}
        for name, fields in _FIELDS.items():
            try:
                text = Template((place / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n"))
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"judge.prompts: {place}/{name}.txt cannot be read ({error})") from None
            if not text.is_valid() or set(text.get_identifiers()) != fields:
                wanted = ", ".join(f"${{{field}}}" for field in sorted(fields))
                raise ConfigError(f"judge.prompts: {place}/{name}.txt must hold {wanted} and no other placeholder")
            self._texts[name] = text

    @property
    def digest(self) -> str:
        """Digest of both templates."""
        return digest({name: text.template for name, text in self._texts.items()})

    def correctness(self, question: str, accepted: Sequence[str], answer: str) -> str:
        """The message that asks whether an answer is right; it lists the accepted answers once each, as JSON."""
        listed = json.dumps(list(dict.fromkeys(accepted)), ensure_ascii=False)
        return self._message("correctness", question=question, accepted=listed, answer=answer)

    def equivalence(self, question: str, first: str, second: str) -> str:
        """The message that asks whether two answers are equivalent."""
        return self._message("equivalence", question=question, first=first, second=second)

    def _message(self, name: str, **values: str) -> str:
        return self._texts[name].substitute({key: inert(value) for key, value in values.items()})


def parse_reply(reply: str) -> bool | None:
    """Return True for "certain", False for "uncertain" and None for any other reply.

    Case and any quotes, emphasis or full stop around the word are ignored. A longer reply is no verdict even if it
    contains the word: "not certain" is not "certain".
    """
    match = _REPLY.fullmatch(reply)
    return None if match is None else match["verdict"].lower() == "certain"
