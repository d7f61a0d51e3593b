"""Prompt texts, one file a protocol and set: `{set}/{protocol}.txt` with ${question} and ${response}.

`tiny` serves the embedded policies, whose corpus is written in the same words. Its texts follow the paper's
formats: appendix B.1 (confidence-reporting format, P(True)) and B.2 (RLCR's output format).
"""

from importlib.resources import files
from string import Template

from cocal.errors import ConfigError

PROTOCOLS = ("answer", "verbal", "rlcr", "dcpo", "p_true")


class Prompts:
    """The user messages of a prompt set.

    Args:
        name: folder of this package.

    Raises:
        ConfigError: if there is no such set.
    """

    def __init__(self, name: str):
        folder = files(__name__) / name
        if not folder.is_dir():
            known = sorted(entry.name for entry in files(__name__).iterdir() if entry.is_dir())
            raise ConfigError(f"prompts: no set {name!r}; there are {', '.join(n for n in known if n[0] != '_')}")
        self.name = name
        self._texts = {p: Template((folder / f"{p}.txt").read_text(encoding="utf-8")) for p in PROTOCOLS}

    def message(self, protocol: str, question: str, response: str = "") -> str:
        """The user message of a protocol; `response` is the answer that P(True) asks about."""
        return self._texts[protocol].substitute(question=question, response=response)
