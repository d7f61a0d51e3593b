r"""The statements of a response: its final answer, its verbalised confidence, and the tokens that hold them.

A statement of the confidence is the upper-case word CONFIDENCE with a colon (ASCII or full-width; formats of Verbal,
RLCR and DCPO, appendix B). The last one counts, as the last `\boxed{}` does for the answer; DCPO's confidence tokens
run from it to the end of the response. It must come after the answer and the uncertainty reasoning: if a `\boxed` or a
`</reason>` follows, there is no statement.

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

The word must stand by itself: `andCONFIDENCE: 0.8` and `OVERCONFIDENCE: 0.8` are no statements.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

_BOX = re.compile(r"(?P<confidence>CONFIDENCE[\s*]*+[:：](?:[\s*$]|\\[(\[])*+)?\\boxed\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_STATEMENT = re.compile(r"(?<![A-Za-z])CONFIDENCE[\s*]*+[:：]")
_VALUE = re.compile(r"[\s*]*+(\d*\.\d+|\d+(?!\.))\**+\.?\**+[^\S\n]*+(?:\n|\Z)", re.ASCII)


def extract_answer(text: str) -> str | None:
    r"""Content of the last `\boxed{...}`, stripped; None if there is no box, it is empty or it never closes.

    The task response ends at the first `<reason>`, where RLCR's uncertainty reasoning begins (appendix B.2), so a box
    in the reasoning is not the answer. A box around the confidence, as in `CONFIDENCE: \boxed{0.9}`, is not the answer,
    either. If the last box is unclosed, as in a truncated response, the result is None and not an earlier box. Escaped
    braces (`\{`) are content. The running time is linear in the length of the text.
    """
    response = text.partition("<reason>")[0]
    starts = [box.end() for box in _BOX.finditer(response) if box["confidence"] is None]
    if not starts:
        return None
    start, depth = starts[-1], 1
    for brace in _BRACE.finditer(response, start):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth == 0:
                return response[start : brace.start()].strip() or None
    return None


def parse_confidence(text: str) -> float | None:
    """The stated confidence in [0, 1]; None if it is missing or invalid (see the table of the module's docstring)."""
    statement = _last_statement(text)
    value = _VALUE.match(text, statement.end()) if statement else None
    if value is None:
        return None
    confidence = float(value[1])
    return confidence if confidence <= 1.0 else None


def confidence_span(text: str) -> tuple[int, int] | None:
    """Characters [start, end) of the confidence part, from the word CONFIDENCE to the end of the text; its value need
    not be valid, since DCPO treats a malformed confidence as confidence text, too."""
    statement = _last_statement(text)
    return (statement.start(), len(text)) if statement else None


def _last_statement(text: str) -> re.Match[str] | None:
    *_, last = None, *_STATEMENT.finditer(text)
    if last is None or max(text.rfind("\\boxed"), text.rfind("</reason>")) > last.start():
        return None
    return last


def token_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str], character: int) -> int:
    """Index of the token that holds a character of the decoded text.

    It is the last token such that the text of this token and all later ones ends with the text from the character on.
    The text is not tokenised again, and tokens that begin in the middle of a character do no harm.

    Args:
        ids: Token ids.
        decode: Function that returns the text of token ids.
        character: Index of the character in `decode(ids)`.
    """
    rest = decode(ids)[character:]
    return bisect_left(range(len(ids)), True, key=lambda start: not decode(ids[start:]).endswith(rest)) - 1
