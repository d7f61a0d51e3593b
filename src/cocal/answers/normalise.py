"""Text forms in which equal answers are equal strings."""

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
    r"""Factual answer without case, ASCII punctuation, English articles and extra white space, as SQuAD scores it.

    Beyond SQuAD: NFKC, LaTeX text commands are unwrapped (`\text{Paris}`), and a text of nothing but articles or
    punctuation stays as it is, so that two such answers are not equal for being empty.
    """
    plain = _COMMAND.sub(r"\1", unicodedata.normalize("NFKC", text)).lower()
    bare = _ARTICLE.sub(" ", plain.translate(_PUNCTUATION))
    return " ".join(bare.split()) or " ".join(plain.split())


def plain_answer(text: str) -> str:
    r"""Mathematical answer without the typesetting that math-verify trips over.

    A box in it (some golds have one) holds the answer. Off come math delimiters, bold type and punctuation around the
    whole (`$\mathbf{p - q}$.` is `p - q`), and spaces in long numbers (`11,\! 111` and `11\,111` are `11111`); white
    space is one space; braces that are cut off at the end, as in two answers of DeepScaleR, are closed, and half a pair
    of dollar signs goes; a bare `pi` is `\pi`. What an answer means is math-verify's to say.
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
    """The lowest depth of braces in a text, which starts at 0, and that at its end. Escaped braces are no braces."""
    depths = list(accumulate((brace == "{") - (brace == "}") for brace in _ESCAPED.sub("", text)))
    return min([0, *depths]), depths[-1] if depths else 0


def canonical_integer(text: str) -> str | None:
    """`025`, `+25` and `25` as "25": the digits of a plain integer without leading zeros, or None."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        return None
    digits = trimmed.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and trimmed[0] == "-" else digits or "0"


def is_word(text: str) -> bool:
    """Whether a mathematical answer is a bare word, four letters at least. To math-verify it were their product."""
    return _WORD.fullmatch(text) is not None


def nesting(text: str) -> int:
    """How deep brackets of all kinds lie in one another."""
    return max(accumulate((char in "{([") - (char in "})]") for char in text), default=0)
