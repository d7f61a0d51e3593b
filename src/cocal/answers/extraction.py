r"""The final answer of a response: the content of its last `\boxed{...}`."""

import re

_BOX = re.compile(r"(?P<confidence>CONFIDENCE\s*[:：][\s*$]*+)?\\boxed\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def extract_answer(text: str) -> str | None:
    r"""Content of the last `\boxed{...}`, stripped; None if there is no box, it is empty or it never closes.

    The task response ends at the first `<reason>`, where RLCR's uncertainty reasoning begins (appendix B.2), so a box
    in the reasoning is not the answer. A box around the confidence, as in `CONFIDENCE: \boxed{0.9}`, is not the answer,
    either. If the last box is unclosed, as in a truncated response, the result is None and not an earlier box. Escaped
    braces (`\{`) are content. The running time is linear in the length of the text.
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
