r"""The final answer of a response: the content of its last `\boxed{...}`."""

import re

_BOX = re.compile(r"(?P<confidence>CONFIDENCE\s*[:：][\s*$]*+)?\\boxed\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def extract_answer(text: str) -> str | None:
    r"""Content of the last `\boxed{...}`, stripped; None if there is none, it is empty or it never closes.

    The task response ends where RLCR's uncertainty reasoning begins, at the first `<reason>` (appendix B.2): a box
    that the reasoning mentions is not the answer. Nor is a box around the confidence, `CONFIDENCE: \boxed{0.9}`.
    An unclosed last box (a truncated response) gives None, not an earlier box. Escaped braces (`\{`) are content.
    Time is linear in the length of the text.
    """
    response = text.partition("<reason>")[0]
    start = None
    for box in _BOX.finditer(response):
        if box["confidence"] is None:
            start = box.end()
    if start is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(response, start):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth == 0:
                return response[start : brace.start()].strip() or None
    return None
