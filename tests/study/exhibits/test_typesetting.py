"""A grid as LaTeX and as a web page."""

from pathlib import Path

import pytest

from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import escape, latex
from golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"

BLOCK = Block(
    corner="Method",
    heads=((Head("A_1", 2), Head("B", 1)), (Head("ECE↓"), Head("AUROC↑"), Head("Post (s)"))),
    groups=(
        Group((Row("One & only", (Cell("0.100", "best"), Cell("0.900"), Cell("–"))),), title="First"),
        Group((Row("Two", (Cell("0.200", "second"), Cell("<0.1"), Cell("4 × 10⁻¹²"))),)),
        Group((Row("Three", (Cell("0.3"), Cell("5%"), Cell("12×", "best")), bold=True),)),
    ),
)


def grid(*blocks: Block, **changes) -> Grid:
    words = {"title": "T & t", "caption": "Cost of 5% <x>.", "label": "t", "source": "study s"}
    return Grid(**(words | changes), blocks=blocks)


def test_the_whole_latex_of_a_grid_and_the_whole_body_of_its_page():
    text = page(grid(BLOCK))
    head, rest = text.split("<body>\n")
    assert_golden(GOLDEN / "typeset.tex.txt", latex(grid(BLOCK)).splitlines())
    assert_golden(GOLDEN / "typeset.html.txt", rest.splitlines())
    assert head.startswith('<!DOCTYPE html>\n<html lang="en">\n')
    assert "<title>T &amp; t</title>" in head
    assert "http" not in text  # nothing is fetched


def test_a_page_may_have_another_order_than_print():
    other = Block("Other", ((Head("A"),),), (Group((Row("r", (Cell("1"),)),)),))
    both = grid(BLOCK, page_blocks=(other, BLOCK))
    assert page(both) == page(grid(other, BLOCK))
    assert latex(both) == latex(grid(BLOCK))
    assert "colgroup" not in page(grid(other)).partition("<body>")[2]  # no groups of columns to tell apart


def test_one_row_of_heads_and_values_to_the_right():
    block = Block("Set", ((Head("Pre (ms)"), Head("Post/Pre")),), (Group((Row("A", (Cell("1"), Cell("2"))),)),), "r")
    lines = latex(grid(block)).splitlines()
    start = lines.index(r"\toprule")
    assert lines[start - 1] == r"\begin{tabular}{l*{2}{r}}"
    assert lines[start + 1 : start + 3] == [r"Set & Pre (ms) & Post/Pre \\", r"\midrule"]
    assert '<div><table class="right">' in page(grid(block))


def test_blocks_follow_each_other_scaled_to_their_share_of_the_width():
    def block(width):
        return Block("", ((Head("A"),),), (Group((Row("r", (Cell("1"),)),)),), width=width)

    text = latex(grid(block(1), block(0.5), size="footnotesize", gap="2.6pt"))
    assert "\\resizebox{\\textwidth}{!}{%\n\\begin{tabular}{l*{1}{c}}" in text
    assert "\\end{tabular}%\n}\n\n\\vspace{2pt}\n\n\\resizebox{0.500\\textwidth}{!}{%" in text
    assert "\\vspace{3pt}\n\\footnotesize\n\\setlength{\\tabcolsep}{2.6pt}" in text


def test_long_names_are_broken():
    block = Block("", ((Head("A"),),), (Group((Row("r", (Cell("1"),)),)),), names=0.6)
    text = latex(grid(block))
    assert r"\begin{tabular}{p{0.600\textwidth}*{1}{c}}" in text
    assert "\n\\raggedright r & 1 \\\\\n" in text


def test_rows_that_do_not_fill_the_columns_are_refused():
    row = Row("r", (Cell("1"),))
    with pytest.raises(ValueError, match=r"\[1, 2\] columns"):
        Block("", ((Head("A"), Head("B")),), (Group((row,)),))
    with pytest.raises(ValueError, match=r"\[1, 2\] columns"):
        Block("", ((Head("AB", 2),), (Head("A"),)), (Group((row,)),))


def test_escape():
    assert escape(r"50% of a_b & {c} #1 $x$ ~^\ ") == (
        r"50\% of a\_b \& \{c\} \#1 \$x\$ \textasciitilde{}\textasciicircum{}\textbackslash{} "
    )
    assert escape('of "a b" and "c"') == "of ``a b'' and ``c''"
    assert escape("a < b | 10⁻⁶ 2 × 3⁴ – µs") == (r"a \textless{} b \textbar{} 10$^{-6}$ 2 $\times$ 3$^{4}$ -- $\mu$s")
