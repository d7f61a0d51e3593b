"""Prompt texts, with one file for each format and set: `{set}/{prompt_format}.txt` with ${question} and ${response}.

A set may word a format differently for a domain, in `{set}/{prompt_format}-{domain}.txt`. The set `tiny` is for the
embedded policies, whose corpus uses the same words, and `qwen` for the paper's policies; `qwen/README.md` names its
sources. The formats are those of appendix B.1 (confidence-reporting format, P(True)) and B.2 (RLCR's output format).
`judge` holds the messages to a judge (cocal_study.generation.judge_prompts).
"""

from importlib.resources import files
from string import Template

from cocal.errors import ConfigError
from cocal.store.provenance import digest

PROMPT_FORMATS = ("answer", "verbal", "rlcr", "dcpo", "p_true")


class Prompts:
    """The user messages of a prompt set, which is a folder of this package. Raises ConfigError if there is no such
    set."""

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
        """Digest of the texts of these formats in a domain, or of all texts of the set if no format is named."""
        names = [self._named(prompt_format, domain) for prompt_format in prompt_formats] or sorted(self._texts)
        return digest({name: self._texts[name].template for name in names})

    def identity(self, *prompt_formats: str, domain: str = "mathematics") -> dict[str, str]:
        """The set's name and the digest of those texts, on which a result depends."""
        return {"set": self.name, "texts": self.digest(*prompt_formats, domain=domain)}

    def message(self, prompt_format: str, question: str, response: str = "", domain: str = "mathematics") -> str:
        """The user message in a prompt format; `response` is the answer that P(True) asks about."""
        text = self._texts[self._named(prompt_format, domain)]
        return text.substitute(question=inert(question), response=inert(response))

    def _named(self, prompt_format: str, domain: str) -> str:
        return own if (own := f"{prompt_format}-{domain}") in self._texts else prompt_format


def inert(text: str) -> str:
    """The text, changed so that it cannot end the user's turn: `<|im_end|>` would become that special token."""
    return text.replace("<|", "< |")
