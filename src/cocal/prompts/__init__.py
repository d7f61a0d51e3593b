"""Prompt texts, one file a format and set: `{set}/{prompt_format}.txt` with ${question} and ${response}.

A set may have words of its own for a domain, in `{set}/{prompt_format}-{domain}.txt`. `tiny` serves the embedded
policies, whose corpus is written in the same words; `qwen` the paper's, with its sources in `qwen/README.md`. The
formats are those of appendix B.1 (confidence-reporting format, P(True)) and B.2 (RLCR's output format). `judge` holds
what a judge is asked (cocal.judging.prompts).
"""

from importlib.resources import files
from string import Template

from cocal.errors import ConfigError
from cocal.store.provenance import digest

PROMPT_FORMATS = ("answer", "verbal", "rlcr", "dcpo", "p_true")


class Prompts:
    """The user messages of a prompt set.

    Args:
        name: folder of this package.

    Raises:
        ConfigError: if there is no such set.
    """

    def __init__(self, name: str):
        known = sorted(entry.name for entry in files(__name__).iterdir() if (entry / "answer.txt").is_file())
        if name not in known:
            raise ConfigError(f"prompts: no set {name!r}; there are {', '.join(known)}")
        folder = files(__name__) / name
        self.name = name
        self._texts = {
            file.name.removesuffix(".txt"): Template(file.read_text(encoding="utf-8").removesuffix("\n"))
            for file in folder.iterdir()
            if file.name.endswith(".txt")
        }

    def digest(self, *prompt_formats: str, domain: str = "mathematics") -> str:
        """Digest of the texts of these formats in a domain; of all texts of the set if no format is named."""
        names = [self._named(prompt_format, domain) for prompt_format in prompt_formats] or sorted(self._texts)
        return digest({name: self._texts[name].template for name in names})

    def identity(self, *prompt_formats: str, domain: str = "mathematics") -> dict[str, str]:
        """What a result depends on: the set's name and the digest of those texts."""
        return {"set": self.name, "texts": self.digest(*prompt_formats, domain=domain)}

    def message(self, prompt_format: str, question: str, response: str = "", domain: str = "mathematics") -> str:
        """The user message of a prompt_format; `response` is the answer that P(True) asks about."""
        text = self._texts[self._named(prompt_format, domain)]
        return text.substitute(question=inert(question), response=inert(response))

    def _named(self, prompt_format: str, domain: str) -> str:
        return own if (own := f"{prompt_format}-{domain}") in self._texts else prompt_format


def inert(text: str) -> str:
    """Text from elsewhere that cannot end the user's turn: `<|im_end|>`, spelled out, would become that token."""
    return text.replace("<|", "< |")
