"""Parses a judge's reply."""

import re

_REPLY = re.compile(r"[\s\"'`*“”]*(?P<verdict>certain|uncertain)[\s\"'`*“”.]*", re.IGNORECASE)


def parse_reply(reply: str) -> bool | None:
    """Return True for "certain", False for "uncertain" and None for any other reply.

    Case and any quotes, emphasis or full stop around the word are ignored. A longer reply is no verdict even if it
    contains the word: "not certain" is not "certain".
    """
    match = _REPLY.fullmatch(reply)
    return None if match is None else match["verdict"].lower() == "certain"
