"""The page on which the report opens: the verdict, links to the tables, and every figure with its caption."""

import base64
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

import pandas as pd

from cocal.drawing.style import TEXT_WIDTH
from cocal.settings.base import Model, Name
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import CHAPTERS, Chapter, Exhibit, TableExhibit, origin
from cocal_study.exhibits.base.ledger import pretrained_here
from cocal_study.exhibits.typesetting.verdict import LEGEND, WORDS, answer, headlines, heads
from cocal_study.planning.results import table_file

_STYLE = """\
.prose:has(.cocal) { max-width: 60rem; }
div:has(> div > .prose .cocal) { flex-direction: column; max-width: 100%; }
div:has(> div > div > .prose .cocal) { align-items: flex-start; justify-content: flex-start; }
.cocal h1 { font-size: 1.8em; margin: 0 0 0.6em; }
.cocal .verdict { border-left: 4px solid #1b6e53; padding-left: 1em; }
.cocal .verdict p:first-child { font-size: 1.2em; font-weight: 600; margin-top: 0; }
.cocal .verdict td, .cocal .verdict th { padding: 0.3em 0.8em 0.3em 0; text-align: left; vertical-align: top; }
.cocal figure { margin: 2.5em 0; }
.cocal img { margin: 0.5em 0; }"""
"""The report has a narrow column for its text, centres it, and sets the graph of the rules beside it. This page is
taller than the window and needs its width, so it starts at the top, and the graph follows."""
WITHOUT = "The study has no CoCal, about which the claims are."
_SHOW = "app.setView({{content:'html',contentPath:results['{0}'].data_uri,resultPath:'{0}'}})"
"""Shows a table as the report's own button does. Outside of the report there is no `app`, and the link is followed."""


class Entry(Model):
    """A table or figure of the page."""

    name: str
    title: str
    chapter: Chapter
    caption: str


class Landing(Model):
    """What the page shows: the study with the sentence that says what was measured, the size of its policies in words,
    and its tables and figures."""

    study: Name
    caption: str
    scale: str
    tables: tuple[Entry, ...]
    figures: tuple[Entry, ...]


def landing_of(study: Study, exhibits: Sequence[Exhibit]) -> Landing:
    """The page of a study's tables and figures, which are in their order."""

    def entries(tables: bool) -> tuple[Entry, ...]:
        shown = (exhibit for exhibit in exhibits if isinstance(exhibit, TableExhibit) == tables)
        return tuple(
            Entry(name=exhibit.name, title=exhibit.title, chapter=exhibit.chapter, caption=exhibit.caption)
            for exhibit in shown
        )

    return Landing(**origin(study), scale=scale_of(study), tables=entries(True), figures=entries(False))


def scale_of(study: Study) -> str:
    """The size of a study's policies in words."""
    label = study.backbones[study.main_backbone].label
    return "policies of less than a million parameters" if pretrained_here(study) else label


def landing_page(landing: Landing, numbers: pd.DataFrame | None, figures: Sequence[Path]) -> str:
    """The page as HTML for the report's text, with the numbers of tables/verdict, if the study has CoCal; it embeds the
    figures, given as PNG files."""
    lines = [
        f"<style>\n{_STYLE}\n</style>",
        '<div class="cocal">',
        f"<h1>CoCal: the {escape(landing.study)} study</h1>",
        '<div class="verdict">',
        *_verdict(numbers, landing.scale),
        "</div>",
        f"<p>{escape(landing.caption)} The figures follow; the tables open with a click:</p>",
        "<ul>",
    ]
    tables = sorted(landing.tables, key=lambda table: CHAPTERS.index(table.chapter))
    for chapter, of_chapter in groupby(tables, key=lambda table: table.chapter):
        links = []
        for table in of_chapter:
            shown = f"if (typeof app != 'undefined') {{ {_SHOW.format(table_file(table.name, 'html'))}; return false }}"
            links.append(f'<a href="tables/{table.name}.html" onclick="{shown}">{escape(table.title)}</a>')
        lines.append(f"<li>{chapter}: {'; '.join(links)}</li>")
    lines.append("</ul>")
    for figure, file in zip(landing.figures, figures, strict=True):
        content = file.read_bytes()
        share = int.from_bytes(content[16:20]) / (300 * TEXT_WIDTH)  # a PNG begins with its width, in pixels
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        image = f'<img alt="{escape(figure.title)}" src="{source}" style="width: {share:.0%}">'
        lines.append(f"<figure><h2>{escape(figure.title)}</h2>{image}")
        lines.append(f"<figcaption>{escape(figure.caption)}</figcaption></figure>")
    return "\n".join([*lines, "</div>", ""])


def _verdict(numbers: pd.DataFrame | None, scale: str) -> list[str]:
    if numbers is None:
        return [f"<p>{WITHOUT}</p>"]
    rows = [
        f"<tr>{''.join(f'<{cell}>{escape(text, quote=False)}</{cell}>' for text in row)}</tr>"
        for cell, row in [("th", heads(numbers)), *(("td", row) for row in headlines(numbers))]
    ]
    legend = f"<p>{escape(f'{LEGEND} {WORDS}', quote=False)}</p>"
    return [f"<p>{escape(answer(numbers, scale), quote=False)}</p>", "<table>", *rows, "</table>", legend]
