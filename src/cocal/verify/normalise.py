"""Text forms in which equal answers are equal strings."""

import re
import string
import unicodedata

_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_INTEGER = re.compile(r"[+-]?[0-9]+")


def normalise_text(text: str) -> str:
    r"""Factual answer without case, ASCII punctuation, English articles and extra white space, as SQuAD scores it.

    Beyond SQuAD: NFKC, LaTeX text commands are unwrapped (`\text{Paris}`), and a text of nothing but articles or
    punctuation stays as it is, so that two such answers are not equal for being empty.
    """
    plain = _COMMAND.sub(r"\1", unicodedata.normalize("NFKC", text)).lower()
    bare = _ARTICLE.sub(" ", plain.translate(_PUNCTUATION))
    return " ".join(bare.split()) or " ".join(plain.split())


def canonical_integer(text: str) -> str | None:
    """`025`, `+25` and `25` as "25": the digits of a plain integer without leading zeros, or None."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        return None
    digits = trimmed.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and trimmed[0] == "-" else digits or "0"
