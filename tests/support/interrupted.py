"""Commands that are killed on the way, and what may have changed when they are started again."""

import json
from pathlib import Path

from safetensors.numpy import load_file, save_file

from own_rollouts import read_lines

_THOUGHT = (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)


def _other_weights(model: Path, source: Path) -> None:
    weights = load_file(model / "model.safetensors")
    save_file({name: 1.01 * array for name, array in weights.items()}, model / "model.safetensors", {"format": "pt"})


def _other_template(model: Path, source: Path) -> None:
    file = model / "chat_template.jinja"
    file.write_text(file.read_text() + _THOUGHT)


def _other_rows(model: Path, source: Path) -> None:
    rows = read_lines(source)
    rows[3]["prompt_ids"] = rows[4]["prompt_ids"]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))


CHANGES = {"weights": _other_weights, "template": _other_template, "rows": _other_rows}
"""Functions that change the files of a model, or the lines of a source."""


def killed_at(monkeypatch, owner, name: str, number: int, size: int) -> list[int]:
    """A function is killed at its call with that number; the list gets the size of one argument of every call."""
    real, seen = getattr(owner, name), []

    def killed(*given, **options):
        seen.append(len(given[size]))
        if len(seen) == number:
            raise KeyboardInterrupt
        return real(*given, **options)

    monkeypatch.setattr(owner, name, killed)
    return seen
