"""A grid as LaTeX and as a web page."""

from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.latex import escape, latex

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


TEX = r"""% study s
% needs \usepackage{booktabs,multirow,graphicx}
\begin{table}[tbp]
\centering
\caption{Cost of 5\% \textless{}x\textgreater{}.}
\label{tab:t}
\vspace{3pt}
\setlength{\tabcolsep}{6pt}
\renewcommand{\arraystretch}{1.08}
\begin{tabular}{l*{3}{c}}
\toprule
\multirow{2}{*}{Method}
& \multicolumn{2}{c}{A\_1}
& \multicolumn{1}{c}{B}
\\
\cmidrule(lr){2-3}\cmidrule(lr){4-4}
& ECE$\downarrow$ & AUROC$\uparrow$ & Post (s) \\
\midrule
\multicolumn{4}{l}{\textit{First}} \\
One \& only & \textbf{0.100} & 0.900 & -- \\
\midrule
Two & \underline{0.200} & \textless{}0.1 & 4 $\times$ 10$^{-12}$ \\
\midrule
\textbf{Three} & 0.3 & 5\% & \textbf{12$\times$} \\
\bottomrule
\end{tabular}
\end{table}
"""

BODY = """\
<h1>T &amp; t</h1>
<p>Cost of 5% &lt;x&gt;.</p>
<div><table>
<colgroup></colgroup><colgroup span="2"></colgroup><colgroup span="1"></colgroup>
<thead>
<tr><th class="corner" rowspan="2">Method</th><th colspan="2">A_1</th><th>B</th></tr>
<tr><th>ECE↓</th><th>AUROC↑</th><th>Post (s)</th></tr>
</thead>
<tbody>
<tr><th scope="rowgroup" colspan="4"><span>First</span></th></tr>
<tr><th scope="row"><span>One &amp; only</span></th><td><b>0.100</b></td><td>0.900</td><td>–</td></tr>
</tbody>
<tbody>
<tr><th scope="row"><span>Two</span></th><td><u>0.200</u></td><td>&lt;0.1</td><td>4 × 10⁻¹²</td></tr>
</tbody>
<tbody>
<tr><th scope="row"><span><b>Three</b></span></th><td>0.3</td><td>5%</td><td><b>12×</b></td></tr>
</tbody>
</table></div>
<p class="source">study s</p>
"""


def test_the_whole_latex_of_a_grid():
    assert latex(grid(BLOCK)) == TEX


def test_the_whole_body_of_its_page():
    text = page(grid(BLOCK))
    head, rest = text.split("<body>\n")
    assert rest == BODY + "</body>\n</html>\n"
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


def test_escape():
    assert escape(r"50% of a_b & {c} #1 $x$ ~^\ ") == (
        r"50\% of a\_b \& \{c\} \#1 \$x\$ \textasciitilde{}\textasciicircum{}\textbackslash{} "
    )
    assert escape('of "a b" and "c"') == "of ``a b'' and ``c''"
    assert escape("a < b | 10⁻⁶ 2 × 3⁴ – µs") == (r"a \textless{} b \textbar{} 10$^{-6}$ 2 $\times$ 3$^{4}$ -- $\mu$s")
