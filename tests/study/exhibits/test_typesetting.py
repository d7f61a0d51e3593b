"""A grid as LaTeX and as a web page."""

from pathlib import Path

from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import escape, latex
from golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"

BLOCK = Block(
    corner="Method",
    heads=[("A_1", "A_1", "B"), ("ECE↓", "AUROC↑", "Post (s)")],
    groups=[
        ("First", [("One & only", [Cell("0.100", "best"), "0.900", "–"])]),
        ("", [("Two", [Cell("0.200", "second"), "<0.1", "4 × 10⁻¹²"])]),
        ("", [(Cell("Three", "best"), ["0.3", "5%", Cell("12×", "best")])]),
    ],
)
NARROW = Block("Set", [["Pre (ms)", "Post/Pre"]], [("", [("A", ["1", "2"])])], align="r", width=0.5)
"""Scaled to its share of the width, with values to the right."""
BROKEN = Block("", [["A"]], [("", [("r", ["1"])])], align="l", names=0.6, width=1)
"""Long names are broken."""


def grid(*blocks: Block, **changes) -> Grid:
    words = {"title": "T & t", "caption": "Cost of 5% <x>.", "label": "t", "source": "study s"}
    return Grid(**(words | changes), blocks=blocks)


def test_the_whole_latex_of_grids_and_the_whole_bodies_of_their_pages():
    small = {"size": "footnotesize", "gap": "2.6pt"}
    grids = grid(BLOCK), grid(NARROW, BROKEN, **small), grid(NARROW, BROKEN, apart=True)
    pages = [page(one).split("<body>\n") for one in grids]
    assert_golden(GOLDEN / "typeset.tex.txt", [line for one in grids for line in latex(one).splitlines()])
    assert_golden(GOLDEN / "typeset.html.txt", [line for _, rest in pages for line in rest.splitlines()])
    for head, rest in pages:
        assert head.startswith('<!DOCTYPE html>\n<html lang="en">\n')
        assert "<title>T &amp; t</title>" in head
        assert "http" not in head + rest  # nothing is fetched


def test_escape():
    assert escape(r"50% of a_b & {c} #1 $x$ ~^\ ") == (
        r"50\% of a\_b \& \{c\} \#1 \$x\$ \textasciitilde{}\textasciicircum{}\textbackslash{} "
    )
    assert escape('of "a b" and "c"') == "of ``a b'' and ``c''"
    assert escape("a < b | 10⁻⁶ 2 × 3⁴ – µs") == (r"a \textless{} b \textbar{} 10$^{-6}$ 2 $\times$ 3$^{4}$ -- $\mu$s")
