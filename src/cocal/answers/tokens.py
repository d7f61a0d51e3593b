"""Search for the token that a character of a decoded text belongs to."""

from bisect import bisect_left
from collections.abc import Callable, Sequence


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
