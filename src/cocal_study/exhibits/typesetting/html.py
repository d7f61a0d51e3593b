"""Turns a grid into a small web page that needs no other file."""

from collections.abc import Iterator
from html import escape

from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, cell_of
from cocal_study.exhibits.typesetting.wording import DEGENERATE, DOUBTFUL

_STYLE = """\
body { margin: 1.2em; background: #fff; color: #1a1a1a; font: 14px/1.45 system-ui, sans-serif; }
h1 { margin: 0 0 0.3em; font-size: 1.2em; }
p { max-width: 60em; margin: 0 0 1em; }
div { overflow-x: auto; }
table { border-collapse: collapse; margin: 0 0 1.2em; font-variant-numeric: tabular-nums; }
table { border-top: 2px solid #1a1a1a; border-bottom: 2px solid #1a1a1a; }
th, td { padding: 0.2em 0.5em; white-space: nowrap; text-align: center; font-weight: normal; }
tbody { border-top: 1px solid #8a8a8a; }
th[scope="row"], th.corner, th[scope="rowgroup"] { text-align: left; }
th[scope="row"], th.corner { position: sticky; left: 0; background: #fff; }
th[scope="row"] span { display: block; width: max-content; max-width: 38vw; white-space: normal; }
th[scope="rowgroup"] span { position: sticky; left: 0.5em; }
colgroup + colgroup { border-left: 1px solid #c4c4c4; }
th[scope="rowgroup"] { font-style: italic; }
thead th[colspan] { border-bottom: 1px solid #c4c4c4; }
table.left td { text-align: left; white-space: normal; min-width: 8em; max-width: 40em; vertical-align: top; }
table.left thead th { text-align: left; }
table.right td, table.right thead th:not(.corner) { text-align: right; }
b { font-weight: 700; }
u { text-underline-offset: 0.2em; }
sup { line-height: 0; }
.source { color: #5a5a5a; font-size: 0.85em; }"""
_CLASSES = {"c": "", "r": ' class="right"', "l": ' class="left"'}
_WIDE = ' colspan="{}"'
_TAGS = {"best": "b", "second": "u"}


def page(grid: Grid) -> str:
    """Return a document with title, caption and table; the best values are bold, the second best underlined."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f"<title>{escape(grid.title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            "</head>",
            "<body>",
            f"<h1>{escape(grid.title)}</h1>",
            f"<p>{escape(grid.caption)}</p>",
            *(line for block in (*(grid.page_blocks or grid.blocks), *grid.details) for line in _table(block)),
            f'<p class="source">{escape(grid.source)}</p>',
            "</body>",
            "</html>",
            "",
        ]
    )


def _table(block: Block) -> Iterator[str]:
    kind = _CLASSES[block.align]
    yield f"<div><table{kind}>"
    above, *_ = spans = block.spans()
    if any(span > 1 for _, span in above):
        yield "<colgroup></colgroup>" + "".join(f'<colgroup span="{span}"></colgroup>' for _, span in above)
    yield "<thead>"
    corner = f'<th class="corner" rowspan="{len(spans)}">{escape(block.corner)}</th>'
    for line in spans:
        heads = (f"<th{_WIDE.format(span) * (span > 1)}>{escape(title)}</th>" for title, span in line)
        yield f"<tr>{corner}{''.join(heads)}</tr>"
        corner = ""
    yield "</thead>"
    columns = 1 + len(block.heads[-1])
    for title, rows in block.groups:
        yield "<tbody>"
        if title:
            yield f'<tr><th scope="rowgroup" colspan="{columns}"><span>{escape(title)}</span></th></tr>'
        for label, cells in rows:
            values = "".join(f"<td>{_marked(cell)}</td>" for cell in cells)
            yield f'<tr><th scope="row"><span>{_marked(label)}</span></th>{values}</tr>'
        yield "</tbody>"
    yield "</table></div>"


def _marked(value: str | Cell) -> str:
    cell = cell_of(value)
    text = escape(cell.text)
    if cell.mark:
        text = f"<{_TAGS[cell.mark]}>{text}</{_TAGS[cell.mark]}>"
    return text + f"<sup>{DOUBTFUL}</sup>" * cell.doubtful + f"<sup>{DEGENERATE}</sup>" * cell.degenerate
