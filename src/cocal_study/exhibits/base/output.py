"""Writing tables and figures in all their forms."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cocal.drawing.style import paper_style, save_figure
from cocal.metrics.shown import csv_text
from cocal.store import digest, write_text
from cocal.store.origin import MADE_OF, PARENTS
from cocal_study.exhibits.base.exhibit import Layout
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.store.numbers import seal_beside

logger = logging.getLogger(__name__)


def write_table(
    module: ModuleType, layout: Layout, inputs: Mapping[str, Any], output: Path, origin: Mapping[str, str]
) -> None:
    """Write a table as LaTeX into `output` and, beside it, as a web page and as its numbers. Inputs are the contents of
    its files by kind, and `origin` says what they are (`cocal_study.exhibits.base.inputs.origin_of`)."""
    numbers = module.prepare(layout, **inputs)
    made_of = {**origin, "layout": digest(layout)}
    parents = made_of.pop(PARENTS)
    source = "; ".join([f"study {layout.study}", *(f"{name} {value}" for name, value in made_of.items())])
    grid = replace(module.grid(numbers, layout, **inputs), source=source, label=output.stem)
    write_text(output, f"{latex(grid)}{MADE_OF}{parents}\n")
    write_text(output.with_suffix(".html"), page(grid))
    write_text(output.with_suffix(".csv"), csv_text(numbers))
    seal_beside(*map(output.with_suffix, (".tex", ".html", ".csv")))
    logger.info("wrote %s, .html and .csv", output)


def write_figure(
    module: ModuleType, layout: Layout | None, inputs: Mapping[str, Any], output: Path, origin: Mapping[str, str]
) -> None:
    """Draw a figure as PDF and, beside it, as PNG; where it shows numbers, write them too. A diagram has no layout."""
    forms = [output, output.with_suffix(".png")]
    with paper_style():
        if layout is None:
            save_figure(module.draw(), output, {"diagram": output.stem})
        else:
            numbers = module.prepare(layout, **inputs)
            facts = layout.facts() | {"digest": digest(layout)}
            save_figure(module.draw(numbers, layout), output, facts, origin[PARENTS])
            forms.append(output.with_suffix(".csv"))
            write_text(forms[-1], csv_text(numbers))
    seal_beside(*forms)
    logger.info("wrote %s", ", ".join(map(str, forms)))
