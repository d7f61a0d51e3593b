"""From places in a text to the tokens that the text came from."""

from bisect import bisect_left
from collections.abc import Callable, Sequence


def token_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str], character: int) -> int:
    """Index of the token that holds a character of the decoded text.

    Found on the token ids: the last token from which on the text still ends with everything from the character on.
    Text is never tokenised again, and a token that began in the middle of a character does not mislead.

    Args:
        ids: tokens.
        decode: text of token ids.
        character: index in `decode(ids)`.
    """
    rest = decode(ids)[character:]
    return bisect_left(range(len(ids)), True, key=lambda start: not decode(ids[start:]).endswith(rest)) - 1
