"""The LaTeX document of all tables."""

import os
from collections.abc import Sequence
from pathlib import Path

from cocal.errors import ContractError


def document(tables: Sequence[Path], output: Path) -> str:
    r"""Return a document that \inputs the tables in order, each by its path from the folder of `output`.

    Raises:
        ContractError: if a table is missing.
    """
    for table in tables:
        if not table.is_file():
            raise ContractError(f"{table}: no such table; build it first")
    inputs = [Path(os.path.relpath(table, output.parent)).as_posix() for table in tables]
    return "\n".join(
        [
            "% needs pdflatex and these packages (Debian: texlive-latex-recommended, texlive-latex-extra)",
            r"\documentclass{article}",
            r"\usepackage[letterpaper,textwidth=5.5in,textheight=9in]{geometry}",
            r"\usepackage{booktabs,multirow,graphicx}",
            r"\begin{document}",
            *(rf"\input{{{path}}}" for path in inputs),
            r"\end{document}",
            "",
        ]
    )
