"""Graphics cards on which a study may run, and the settings that depend on their memory."""

from collections.abc import Mapping
from typing import Any

from cocal.config.base import Model, Positive


class CardSettings(Model):
    """A kind of graphics card, and the settings of a study that fit it."""

    label: str
    """Name of the card, or of several with as much memory."""
    memory: Positive
    """Memory of one card in GiB, as `nvidia-smi` counts it: 24 for an RTX 4090, 80 for an A100 or H100."""
    settings: dict[str, Any] = {}
    """Keys of the study that this card decides, in the study's own nesting."""


def with_card(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a study with those that its card decides.

    Args:
        content: Keys of a study, not yet validated. Without the key `card` they stay as they are.

    Raises:
        ValueError: if the card is not in `cards`, or decides a key to which the study itself gives another value.
    """
    chosen, cards = content.get("card"), content.get("cards") or {}
    if chosen is None or not isinstance(cards, Mapping):
        return dict(content)
    if chosen not in cards:
        raise ValueError(f"card = {chosen!r} is not in cards, which has {', '.join(map(repr, cards)) or 'none'}")
    card = cards[chosen]
    settings = card.settings if isinstance(card, CardSettings) else card.get("settings", {})
    return _added(content, settings, chosen, "")


def _added(content: Mapping[str, Any], settings: Mapping[str, Any], card: str, before: str) -> dict[str, Any]:
    merged = dict(content)
    for key, value in settings.items():
        given = merged.get(key, value)
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            merged[key] = _added(merged.get(key, {}), value, card, f"{before}{key}.")
        elif given != value and not (isinstance(given, tuple) and list(given) == value):
            raise ValueError(
                f"{before}{key} = {given!r}, but the card {card!r} sets it to {value!r}: change it in "
                f"cards.{card}.settings, where values that depend on the card belong"
            )
        else:
            merged[key] = value
    return merged
