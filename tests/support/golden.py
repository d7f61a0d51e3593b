"""Golden files: what is printed, drawn, planned or counted, as it was when somebody last read or compared it.

After a change that is meant, `COCAL_RENEW=1 pytest` with the file of the test writes those anew that differ, and fails;
a test of two such files is run twice. Read the diff.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cocal_study.exhibits.typesetting.grid import Block, cell_of


def assert_golden(path: Path, lines: Iterable[str]) -> None:
    """That the lines are those of a file."""
    text = "".join(f"{line}\n" for line in lines)
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != known and os.environ.get("COCAL_RENEW"):
        path.write_text(text, encoding="utf-8")
        raise AssertionError(f"{path} is written anew (COCAL_RENEW); read its diff, and run the test again")
    if text != known:
        changes = list(unified_diff(known.splitlines(), text.splitlines(), path.name, "now", lineterm="", n=0))
        raise AssertionError(
            f"{path} says otherwise; if the change is meant, COCAL_RENEW=1 pytest with this test writes it anew, and "
            f"its diff is to be read. It has {len(changes):,} lines, beginning with\n" + "\n".join(changes[:20])
        )


def printed(blocks: Iterable[Block]) -> Iterator[str]:
    """The titles of the columns of each block, and a line for each row: its name, and its values with their marks."""
    for block in blocks:
        heads = zip(*block.heads, strict=True)
        yield f"{block.corner}: {' | '.join(' '.join(filter(None, words)) for words in heads)}"
        for title, rows in block.groups:
            yield f"-- {title}".rstrip()
            for label, values in rows:
                shown = (" ".join(filter(None, (cell.text, cell.mark))) for cell in map(cell_of, values))
                yield f"{cell_of(label).text}: {' | '.join(shown)}"


def drawn(figure: Figure) -> Iterator[str]:
    """What a reader sees of a figure: its legend and texts, and of each panel its words, three points of the curves and
    marks of each entry, the tops of the bars of each colour, and the number of bands and the values of cells.

    Curves are named by the legend's entry that looks alike.
    """
    legends = [
        pair for legend in figure.legends for pair in zip(legend.legend_handles, legend.get_texts(), strict=True)
    ]
    entries = {_look(handle): text.get_text() for handle, text in legends if isinstance(handle, Line2D)}
    assert len(entries) == sum(isinstance(handle, Line2D) for handle, _ in legends), "entries look different"
    yield from (f"legend: {text.get_text()}" for _, text in legends)
    yield from (f"text: {text.get_text()!r}" for text in figure.texts)
    for ax in figure.axes:
        yield f"panel: {ax.get_title()!r}, {ax.get_xlabel()!r}, {ax.get_ylabel()!r}"
        for axis, labels in (("x", ax.get_xticklabels()), ("y", ax.get_yticklabels())):
            names = [label.get_text() for label in labels if label.get_text()[:1].isalpha()]
            yield from [f"{axis} names: {' | '.join(names)}"] * bool(names)
        points, tops, others = defaultdict(list), defaultdict(list), Counter()
        for line in ax.lines:
            points[entries.get(_look(line), "other line")] += [f"{x:.3g},{y:.3g}" for x, y in line.get_xydata()]
        for one in ax.patches:
            top = one.get_path().transformed(one.get_patch_transform()).get_extents().y1
            tops[f"{to_hex(one.get_facecolor())} {one.get_hatch() or ''}".rstrip()].append(top)
        for mark in ax.collections:
            values = np.ravel([] if mark.get_array() is None else mark.get_array())
            others[" ".join([type(mark).__name__, *(f"{value:.3g}" for value in values)])] += 1
        for name, of in points.items():
            few = dict.fromkeys([of[0], of[len(of) // 2], of[-1]]) if of else ()
            yield f"{name}: {len(of)} points {' '.join(few)}".rstrip()
        yield from (f"{len(of)} bars {colour}: {min(of):.3g} to {max(of):.3g}" for colour, of in tops.items())
        yield from (f"{count} x {what}" for what, count in others.items())
        yield from [f"words: {' | '.join(text.get_text() for text in ax.texts)!r}"] * bool(ax.texts)


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
