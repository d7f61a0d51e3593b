"""The page of the verifier shows its rules as they are."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_rules_in_their_order():
    found = importlib.util.spec_from_file_location("verifier_page", ROOT / "docs/verifier.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    said = "run python docs/verifier.py, which writes them"
    assert "\n".join(module.rules()) in (ROOT / "docs/verifier.md").read_text(encoding="utf-8"), said
