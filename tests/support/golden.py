"""Golden files: what is printed, drawn, planned or counted, as it was when somebody last read or compared it.

After a change that is meant, `COCAL_RENEW=1 pytest` with the file of the test writes them anew; read the diff.
"""

import os
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cocal_study.exhibits.typesetting.grid import Block


def assert_golden(path: Path, lines: Iterable[str]) -> None:
    """That the lines are those of a file."""
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get("COCAL_RENEW"):
        path.write_text(text, encoding="utf-8")
        raise AssertionError(
            f"{path} is written anew (COCAL_RENEW); read its diff, and run the test without the variable"
        )
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != known:
        changes = list(unified_diff(known.splitlines(), text.splitlines(), path.name, "now", lineterm="", n=0))
        raise AssertionError(
            f"{path} says otherwise; if the change is meant, COCAL_RENEW=1 pytest with this test writes it anew, and "
            f"its diff is to be read. It has {len(changes):,} lines, beginning with\n" + "\n".join(changes[:20])
        )


def printed(blocks: Iterable[Block]) -> Iterator[str]:
    """A line for every value: the words that lead to it, the value, and its mark."""
    for block in blocks:
        heads = zip(*([head.text for head in line for _ in range(head.span)] for line in block.heads), strict=True)
        columns = [" ".join(words) for words in heads]
        for group in block.groups:
            for row in group.rows:
                for cell, head in zip(row.cells, columns, strict=True):
                    words = (block.corner, group.title, row.label, head)
                    yield f"{' | '.join(words)}: {cell.text} {cell.mark or ''}".rstrip()


def drawn(figure: Figure) -> Iterator[str]:
    """A line for every text, curve, band, whisker and bar of a figure.

    Curves are named by the legend's entry that looks alike.
    """
    legends = [
        pair for legend in figure.legends for pair in zip(legend.legend_handles, legend.get_texts(), strict=True)
    ]
    entries = {_look(handle): text.get_text() for handle, text in legends if isinstance(handle, Line2D)}
    assert len(entries) == sum(isinstance(handle, Line2D) for handle, _ in legends), "entries look different"
    yield from (f"legend: {text.get_text()}" for _, text in legends)
    yield from (f"text: {text.get_text()!r}" for text in figure.texts)
    for place, ax in enumerate(figure.axes):
        yield f"panel {place}: {ax.get_title()!r}, {ax.get_xlabel()!r}, {ax.get_ylabel()!r}"
        for axis, labels in (("x", ax.get_xticklabels()), ("y", ax.get_yticklabels())):
            yield f"{axis} ticks: {' | '.join(label.get_text() for label in labels)}"
        for line in ax.lines:
            points = " ".join(f"{x:.5g},{y:.5g}" for x, y in line.get_xydata())
            yield f"{entries.get(_look(line), 'line')}: {points}"
        for shape in ax.patches:
            corners = shape.get_path().transformed(shape.get_patch_transform()).get_extents().bounds
            said = f"{to_hex(shape.get_facecolor(), keep_alpha=True)} {shape.get_hatch() or ''}"
            yield f"shape {said}: {' '.join(f'{number:.4f}' for number in corners)}"
        for mark in ax.collections:  # bands, whiskers and cells
            corners = [path.vertices.ravel() for path in mark.get_paths()]
            values = np.concatenate([[], *corners]) if mark.get_array() is None else mark.get_array().ravel()
            yield f"{type(mark).__name__}: {' '.join(f'{value:.5g}' for value in values)}"
        for text in ax.texts:
            yield f"text at {text.get_position()[0]:.5g},{text.get_position()[1]:.5g}: {text.get_text()!r}"


def seen(figure: Figure) -> Iterator[str]:
    """What a reader sees of a figure: its legend and texts, and of each panel the words and how much is drawn."""
    yield from (f"legend: {text.get_text()}" for legend in figure.legends for text in legend.get_texts())
    yield from (f"text: {text.get_text()!r}" for text in figure.texts)
    for ax in figure.axes:
        words = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)]
        counts = f"{len(ax.lines)} lines, {len(ax.patches)} shapes, {len(ax.collections)} other marks"
        yield f"panel: {' | '.join(filter(None, words))!r}; {counts}"


def _look(line: Line2D) -> tuple:
    """The features that tell a curve from the others."""
    filled = line.get_marker() not in ("None", None, "")
    face = to_hex(line.get_markerfacecolor()) if filled else ""
    width = line.get_linewidth() if line.get_linestyle() != "None" else 0
    return to_hex(line.get_color()), line.get_marker(), face, line.get_linestyle(), width
