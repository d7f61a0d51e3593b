r"""The verbalised confidence of a response: `CONFIDENCE: c` (formats of Verbal, RLCR and DCPO, appendix B).

A statement is the upper-case word CONFIDENCE with a colon (ASCII or full-width). The last one counts, as the last
`\boxed{}` does for the answer; DCPO's confidence tokens run from it to the end of the response. It must come after
the answer and the uncertainty reasoning: if a `\boxed` or a `</reason>` follows, there is no statement.

Its value is valid if it is a plain decimal number in [0, 1], alone on its line. Spaces, line breaks and Markdown
asterisks may precede it, asterisks and a full stop may follow it, and text on later lines is ignored. Otherwise the
response has no valid confidence. Nothing is clipped, rescaled or taken from an earlier statement, because the paper
drops responses without a valid score in [0, 1] from the confidence metrics (appendix A.2).

| text after CONFIDENCE:                   | value |                                             |
|------------------------------------------|-------|---------------------------------------------|
| `0.9`, `.9`, `0.90`, `0.9.`, `**0.9**`   | 0.9   | one decimal number                          |
| `1`, `1.0`, `0`                          | 1, 0  |                                             |
| `1.`, `0.`                               | none  | a full stop or a number cut short: `0.` 85  |
| `1e-3`, `+0.5`, `-0.1`                   | none  | not a plain decimal number                  |
| `85%`, `0.5%`, `85`, `10.5`, `1.01`      | none  | a percentage, or outside [0, 1]             |
| `0.9/1`, `0.9 or 0.8`, `0.9 (sure)`      | none  | more on the same line                       |
| `high`, nothing                          | none  | no number                                   |
"""

import re

_STATEMENT = re.compile(r"(?<![A-Za-z])CONFIDENCE[\s*]*+[:：]")
_VALUE = re.compile(r"[\s*]*+(\d*\.\d+|\d+(?!\.))\**+\.?\**+[^\S\n]*+(?:\n|\Z)", re.ASCII)


def parse_confidence(text: str) -> float | None:
    """The stated confidence in [0, 1]; None if it is missing or invalid (see the table of the module's docstring)."""
    statement = _last_statement(text)
    value = _VALUE.match(text, statement.end()) if statement else None
    if value is None:
        return None
    confidence = float(value[1])
    return confidence if confidence <= 1.0 else None


def confidence_span(text: str) -> tuple[int, int] | None:
    """Characters [start, end) of the confidence part, from the word CONFIDENCE to the end of the text.

    The value need not be valid: DCPO treats a malformed confidence as confidence text, too.
    """
    statement = _last_statement(text)
    return (statement.start(), len(text)) if statement else None


def _last_statement(text: str) -> re.Match[str] | None:
    last = None
    for statement in _STATEMENT.finditer(text):
        last = statement
    if last is None or max(text.rfind("\\boxed"), text.rfind("</reason>")) > last.start():
        return None
    return last
