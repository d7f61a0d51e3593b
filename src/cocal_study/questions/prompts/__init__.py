"""Prompt texts, with one file for each format and set: `{set}/{prompt_format}.txt` with ${question} and ${response}.

A set may word a format differently for a domain, in `{set}/{prompt_format}-{domain}.txt`. The set `tiny` is for the
embedded policies, whose corpus uses the same words, and `qwen` for the paper's policies; `qwen/README.md` names its
sources. The formats are those of appendix B.1 (confidence-reporting format, P(True)) and B.2 (RLCR's output format).
`judge` holds the messages to a judging language model (`judge_prompts`).
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from cocal.errors import ConfigError
from cocal.store.provenance import digest

JUDGE_FORMATS = ("correctness", "equivalence")


class Prompts:
    """The user messages of a prompt set, which is a folder of this package, or of another `folder`, from which only
    these `formats` are read. Raises ConfigError if there is no such set."""

    def __init__(self, name: str, folder: Traversable | None = None, formats: tuple[str, ...] | None = None):
        known = sorted(entry.name for entry in files(__name__).iterdir() if (entry / "answer.txt").is_file())
        if folder is None and name not in known:
            raise ConfigError(f"prompts: no set {name!r}; there are {', '.join(known)}")
        folder = folder or files(__name__) / name
        self.name = name
        self._texts = {
            file.name.removesuffix(".txt"): Template(file.read_text(encoding="utf-8").removesuffix("\n"))
            for file in folder.iterdir()
            if file.name.endswith(".txt") and (formats is None or file.name.removesuffix(".txt") in formats)
        }

    def digest(self, *prompt_formats: str, domain: str = "mathematics") -> str:
        """Digest of the texts of these formats in a domain, or of all texts of the set if no format is named."""
        names = [self._named(prompt_format, domain) for prompt_format in prompt_formats] or sorted(self._texts)
        return digest({name: self._texts[name].template for name in names})

    def identity(self, *prompt_formats: str, domain: str = "mathematics") -> dict[str, str]:
        """The set's name and the `digest` of its texts, on which a result depends."""
        return {"set": self.name, "texts": self.digest(*prompt_formats, domain=domain)}

    def message(self, prompt_format: str, question: str, domain: str = "mathematics", **others: str) -> str:
        """The user message in a prompt format; `others` are the values of its further placeholders, such as the
        response that P(True) asks about."""
        text = self._texts[self._named(prompt_format, domain)]
        # a text that holds `<|im_end|>` must not end the user's turn
        inert = {name: value.replace("<|", "< |") for name, value in {"question": question, **others}.items()}
        return text.substitute(inert)

    def placeholders(self, prompt_format: str) -> list[str]:
        """Names of the placeholders of a text, sorted; none if it is missing or no template."""
        text = self._texts.get(prompt_format)
        return sorted(text.get_identifiers()) if text and text.is_valid() else []

    def _named(self, prompt_format: str, domain: str) -> str:
        return own if (own := f"{prompt_format}-{domain}") in self._texts else prompt_format


def judge_prompts(folder: str | Path | None) -> Prompts:
    """The user messages to a judge, those of this package or of a user's folder. Raises ConfigError if a text is
    missing, cannot be read, or has other placeholders than that of this package."""
    ours = Prompts("judge", files(__name__) / "judge")
    if folder is None:
        return ours
    try:
        own = Prompts("judge", Path(folder), JUDGE_FORMATS)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"judge.prompts: {folder} cannot be read ({error})") from None
    for name in JUDGE_FORMATS:
        if own.placeholders(name) != ours.placeholders(name):
            wanted = ", ".join(f"${{{field}}}" for field in ours.placeholders(name))
            raise ConfigError(f"judge.prompts: {folder}/{name}.txt must hold {wanted} and no other placeholder")
    return own
