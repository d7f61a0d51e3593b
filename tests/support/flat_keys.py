"""Nested settings as a flat mapping."""


def flat(content, before=""):
    """A nested mapping with dotted keys."""
    found = {}
    for key, value in content.items():
        found |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found
