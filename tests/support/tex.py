"""LaTeX on this machine, for the tests that set tables."""

import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = {
    "geometry": "texlive-latex-base",
    "graphicx": "texlive-latex-base",
    "booktabs": "texlive-latex-recommended",
    "multirow": "texlive-latex-extra",
}
"""The LaTeX packages that the tables name, and Debian's packages that bring them."""


def missing_of_tex() -> str:
    """The things that this machine lacks for the tables; empty if it can set them."""
    if shutil.which("pdflatex") is None:
        return "pdflatex is not installed (on Debian: texlive-latex-base)"
    known = {name: subprocess.run(["kpsewhich", f"{name}.sty"], check=False, capture_output=True) for name in PACKAGES}
    return "; ".join(
        f"LaTeX's {name} is not installed (on Debian: {PACKAGES[name]})"
        for name, one in known.items()
        if one.returncode
    )


needs_tex = pytest.mark.skipif(bool(missing_of_tex()), reason=missing_of_tex())


def assert_compiles(folder: Path) -> None:
    """Set all.tex of a folder, in which nothing may be too wide or too high."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    for complaint in ("Overfull", "Float too large", "Missing character"):
        assert complaint not in done.stdout, [line for line in done.stdout.splitlines() if complaint in line]
