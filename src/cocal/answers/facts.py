"""The form by which factual answers are compared."""

import re
import unicodedata

_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_DASHES = {ord(dash): "-" for dash in "‐‑‒–—―−﹣－"} | {ord(quote): "'" for quote in "‘’ʼ′`´"}
_MARKS = re.compile(r"(?<=[a-zA-Z])[\u0300-\u036f]+")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_KEPT = r"(?<=\d)[^\w\s](?=\d)|(?<![\w)])-(?=[$€£]?\d)|(?<=[a-z])(?:\+\+|#)(?!\w)"
"""Signs that tell values apart: between digits, a minus, and those of C++ and C#."""
_SIGNS = re.compile(rf"({_KEPT})|[^\w\s]|_")
_SPACES = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


def normalise_text(text: str) -> str:
    r"""A factual answer without case, accents, punctuation, English articles and white space.

    SQuAD's exact match drops case, ASCII punctuation and articles. Beyond it, Unicode is folded first, so that
    `O’Brien`, `Röntgen` and `1990–91` equal what is typed on a plain keyboard; LaTeX text commands are unwrapped, and
    words may be joined by a hyphen, a space or nothing. Signs between digits, a minus and the signs of `C++` and `C#`
    stay, since `3.5`, `-5` and `9/11` are not 35, 5 and 911; commas may group thousands. White space stays between two
    digits. A text of articles alone keeps its last word, and one of punctuation alone keeps it.
    """
    plain = unicodedata.normalize("NFKC", text.translate(_DASHES)).translate(_DASHES)
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", _COMMAND.sub(r"\1", plain))))
    words = _SIGNS.sub(lambda found: found[1] or (" " if found[0] in "-/" else ""), _GROUPS.sub("", plain.lower()))
    bare = _ARTICLE.sub(" ", words).split() or words.split()[-1:] or plain.split()
    return _SPACES.sub("", " ".join(bare))
