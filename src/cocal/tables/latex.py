"""Small pieces of LaTeX that the tables share. They need the packages booktabs, multirow and graphicx."""

from collections.abc import Sequence

from cocal.tables.rank import Mark

_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)
_MARKUP = {"best": r"\textbf", "second": r"\underline"}
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def escape(text: str) -> str:
    """Plain text as LaTeX."""
    return text.translate(_SPECIAL)


def count_word(count: int) -> str:
    """A count in running text: a word up to ten, figures above."""
    return _WORDS[count] if count < len(_WORDS) else str(count)


def marked(text: str, mark: Mark | None) -> str:
    """A number in bold, underlined or plain."""
    return f"{_MARKUP[mark]}{{{text}}}" if mark else text


def row(cells: Sequence[str]) -> str:
    """One line of a tabular."""
    return " & ".join(cells) + r" \\"
