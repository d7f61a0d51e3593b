"""The page of the verifier shows its rules as they are."""

from started import ROOT, script


def test_the_page_has_the_rules_in_their_order():
    said = "run python docs/verifier.py, which writes them"
    assert "\n".join(script("docs/verifier.py").rules()) in (ROOT / "docs/verifier.md").read_text(encoding="utf-8"), (
        said
    )
