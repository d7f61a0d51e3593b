"""Words, symbols and signs of answers: the data of `words.yaml`."""

from importlib.resources import files
from typing import Any

import yaml

DATA: dict[str, Any] = yaml.safe_load((files("cocal.answers") / "words.yaml").read_text(encoding="utf-8"))


def any_of(name: str) -> str:
    """A regular expression that matches each word of a list."""
    return "|".join(DATA[name].split())
