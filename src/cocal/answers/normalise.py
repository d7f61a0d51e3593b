"""Normal forms of answers: equivalent answers should become equal strings."""

import re
import string
import unicodedata
from itertools import accumulate

from cocal.answers.extraction import extract_answer

_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[A-Za-z]{4,}")
_MATH = re.compile(r"\$\$?((?:[^$\\]|\\.)+)\$\$?|\\\(((?:(?!\\[()]).)+)\\\)|\\\[((?:(?!\\[\[\]]).)+)\\\]", re.DOTALL)
_BOLD = re.compile(r"\\(?:mathbf|boldsymbol|bm)\s*\{(.+)\}", re.DOTALL)
_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_ESCAPED = re.compile(r"\\[{}]")
_TRAILING = re.compile(r"(?:\s|\\[,;:!]|(?<![.\\])(?<!\\right)(?<!\\left)[.,;](?!\.))+$")
_GROUPS = re.compile(r"(?<=\d)(?:,\\!\s*|\{,\}|\\,)(?=\d{3}(?!\d))")


def normalise_text(text: str) -> str:
    r"""A factual answer without case, ASCII punctuation, English articles and extra white space, as SQuAD scores it.

    Unlike SQuAD, it applies NFKC and unwraps LaTeX text commands (`\text{Paris}`). It keeps a text that consists only
    of articles or punctuation, so that two such answers do not become equal by being empty.
    """
    plain = _COMMAND.sub(r"\1", unicodedata.normalize("NFKC", text)).lower()
    bare = _ARTICLE.sub(" ", plain.translate(_PUNCTUATION))
    return " ".join(bare.split()) or " ".join(plain.split())


def plain_answer(text: str) -> str:
    r"""A mathematical answer without the typesetting that math-verify misreads; its meaning is left to math-verify.

    If the text contains a box, as some gold answers do, the content of the box is the answer. Math delimiters, bold
    type and punctuation around the whole are removed (`$\mathbf{p - q}$.` becomes `p - q`), and so are spaces in long
    numbers (`11,\! 111` and `11\,111` become `11111`) and a single dollar sign. White space becomes one space, missing
    closing braces at the end, as in two answers of DeepScaleR, are added, and a bare `pi` becomes `\pi`.
    """
    plain, before = " ".join((extract_answer(text) or text).split()), None
    plain += "}" * _depths(plain)[1]
    if len(_DOLLAR.findall(plain)) == 1:
        plain = _DOLLAR.sub("", plain).strip()
    while plain != before:
        before = plain
        plain = _TRAILING.sub("", plain) or plain
        for wrapping in (_MATH, _BOLD):
            wrapped = wrapping.fullmatch(plain)
            if wrapped and _depths(inner := wrapped[wrapped.lastindex].strip())[0] == 0:
                plain = inner or plain
    return _PI.sub(r"\\pi", _GROUPS.sub("", plain))


def _depths(text: str) -> tuple[int, int]:
    """The lowest depth of braces in a text and the depth at its end; it starts at 0. Escaped braces do not count."""
    depths = list(accumulate((brace == "{") - (brace == "}") for brace in _ESCAPED.sub("", text)))
    return min([0, *depths]), depths[-1] if depths else 0


def canonical_integer(text: str) -> str | None:
    """A plain integer without plus sign and leading zeros, such as "25" for `025` and `+25`; None for other texts."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        return None
    digits = trimmed.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and trimmed[0] == "-" else digits or "0"


def is_word(text: str) -> bool:
    """True if a mathematical answer is a bare word of at least four letters, which math-verify would multiply."""
    return _WORD.fullmatch(text) is not None


def nesting(text: str) -> int:
    """Largest depth of nested brackets of all kinds."""
    return max(accumulate((char in "{([") - (char in "})]") for char in text), default=0)
