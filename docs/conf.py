"""Sphinx builds the documentation from this folder: `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reference import write_reference

project = "CoCal"
html_title = "CoCal"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
default_role = "code"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
html_theme = "furo"
html_static_path = []
html_show_copyright = False


def setup(app):
    """Write the pages of the reference before the pages are read."""
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir) / "reference"))
