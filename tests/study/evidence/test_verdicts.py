"""Verdicts on the claims by the paper, a study and its replicates, and where readers see them."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from claims_study import BY_ID, LEDGER, NUMBERS, OF_PAPER, SCOPE, study_files, study_frame
from cocal.drawing.style import paper_style
from cocal_study.evidence.predicates import FAILS, FAVOUR, HOLDS, OBSERVED, OPEN
from cocal_study.evidence.published import read_published
from cocal_study.evidence.sources import StudySource
from cocal_study.evidence.verdicts import (
    AGREES,
    CONTRADICTS,
    LANGUAGE_MODEL,
    NOT_ASSESSABLE,
    NOT_GATHERED,
    PAPER,
    REPLICATES,
    STUDY,
    UNDER_SPECIFIED,
    UNITS,
    is_measured,
    judge_all,
    of_claims,
    of_families,
)
from cocal_study.exhibits import claims, claims_forest
from cocal_study.exhibits.typesetting.html import page
from cocal_study.exhibits.typesetting.wording import SMOLLM2
from golden import assert_golden
from started import ROOT, script


@pytest.fixture(scope="module")
def files() -> dict:
    return study_files(study_frame())


@pytest.fixture(scope="module")
def judged(files) -> pd.DataFrame:
    return judge_all(LEDGER, OF_PAPER, StudySource(SCOPE, **files))


def test_every_claim_has_a_verdict_or_a_reason_from_every_source(judged):
    whole = of_claims(judged)
    assert len(whole) == 3 * len(LEDGER)
    silent = whole["verdict"].isin([UNDER_SPECIFIED, NOT_ASSESSABLE, NOT_GATHERED])
    assert (whole.loc[silent, "reason"] != "").all()
    words = {PAPER: {AGREES, CONTRADICTS}, STUDY: set(FAVOUR), REPLICATES: set()}
    for source, rows in whole[~silent].groupby("source"):
        assert set(rows["verdict"]) <= words[source], "one word for each kind of evidence"
    of_paper = whole[whole["source"] == PAPER].set_index("claim")
    assert "below 0.01" in of_paper.loc["lowest-ece-of-concurrent", "reason"]
    assert of_paper.loc["coupled-trail-in-accuracy", "reason"] == ""
    scored = {claim.id for claim in LEDGER if claim.scored_by("brier")}
    assert {*of_claims(judged, "brier")["claim"]} == {*of_claims(judged, "log_loss")["claim"]} == scored
    assert BY_ID["selfconsis-higher-ece"].scored_by("brier").predicate.metrics == ("brier",)
    of_study = whole[whole["source"] == STUDY].set_index("claim")
    assert {HOLDS, FAILS, OPEN} <= set(of_study["verdict"])
    for claim in LEDGER:
        if is_measured(claim):
            assert np.isnan(of_study.loc[claim.id, "value"]), "times differ from run to run"
    for name in ("negligible-overhead", "sampling-outweighs-training", "more-errors-in-training"):
        assert of_study.loc[name, "verdict"] == OBSERVED, "a number without an interval never holds"
    assert of_study.loc["more-errors-in-training", "value"] == pytest.approx(0.2)
    assert of_study.loc["leaves-learning-unchanged", "verdict"] == NOT_ASSESSABLE


def test_the_papers_margin_stands_beside_the_same_margin_of_the_study(judged):
    rows = judged[(judged["source"] == STUDY) & (judged["case"] > 0) & (judged["score"] == "")]
    stated = {claim: part.set_index("margin")["published"] for claim, part in rows.groupby("claim")}
    ece, auroc = stated["lowest-ece-of-concurrent"], stated["auroc-above-coupled"]
    assert ece.filter(like="cocal-binary and rlcr, ece").item() == pytest.approx(0.105 - 0.096)
    assert ece.filter(like="cocal-binary and cocal-group, ece").item() == pytest.approx(0.103 - 0.096)
    assert auroc.filter(like="cocal-binary and dcpo, auroc").item() == pytest.approx(0.896 - 0.831)


@pytest.fixture(scope="module")
def layout():
    return claims.Layout(study="embedded", caption="Made up.", labels=("Tiny A",), scope=SCOPE)


def arguments(files: dict) -> dict:
    return {"published": read_published(NUMBERS), "ledger": LEDGER, **files}


def test_the_table_shows_every_claim_and_its_words(layout, files, judged):
    numbers = claims.prepare(layout, **arguments(files))
    pd.testing.assert_frame_equal(numbers, judged)
    made = claims.grid(numbers, layout, source="", **arguments(files))
    html = page(made)
    margins = numbers[(numbers["case"] > 0) & (numbers["score"] == "")]["margin"]
    assert all(html.count(f">{label}<") for label in margins)
    titles = [title for block in made.blocks for _, lines in block.groups for title, _ in lines]
    assert sorted(titles) == sorted(claim.title for claim in LEDGER)


def test_the_verdicts_of_a_language_model_stand_beside_those_of_the_study(layout, files, judged):
    """They are that study's own, whatever this one has found, and a claim that it has not judged says so."""
    there = judged[judged["claim"] != "pre-generation-informative"].copy()
    own = (there["source"] == STUDY) & (there["case"] == 0) & (there["score"] == "")
    assert "pre-generation-informative" in set(judged["claim"])
    there.loc[own & (there["claim"] == "beats-postcal"), ["value", "verdict"]] = [0.123, HOLDS]
    numbers = claims.prepare(layout, **arguments(files), language_model=there)
    found = of_claims(numbers)[of_claims(numbers)["source"] == LANGUAGE_MODEL].set_index("claim")
    assert found.loc["beats-postcal", ["value", "verdict"]].tolist() == [0.123, HOLDS]
    assert found.loc["pre-generation-informative", "verdict"] == NOT_GATHERED
    pd.testing.assert_frame_equal(
        numbers[numbers["source"] != LANGUAGE_MODEL].reset_index(drop=True), judged, check_dtype=False
    )
    made = claims.grid(numbers, layout, source="", **arguments(files))
    assert made.blocks[0].heads[0][-1] == SMOLLM2


def replicated(judged, shifts):
    """What `cocal spread` gathers of studies with these margins."""
    frame = judged.drop(columns=["value", "lower", "upper", "p", "verdict"])
    values = {f"replicate_{number}": judged["value"] + shift for number, shift in shifts.items()}
    verdicts = {f"verdict_{number}": judged["verdict"] for number in shifts}
    return frame.assign(**values, **verdicts)


@pytest.mark.parametrize("shifts", [{}, {2: -0.06, 7: 0.01}, {1: 0.0, 3: 0.02, 4: 0.03}])
def test_the_figure_draws_each_unit_in_its_panel_with_every_replicate(layout, files, judged, shifts):
    """The files were compared with the verdicts of claims of one unit, and with means and shifts of the replicates."""
    replicates = replicated(judged, shifts) if shifts else None
    numbers = claims_forest.prepare(layout, **arguments(files), replicates=replicates)
    assert [*numbers.columns] == [*judged.columns[:9], "verdict", "title", "family"]
    said = numbers.drop(columns=["title", "family"]).to_csv(index=False, float_format="%.6g").splitlines()
    assert_golden(Path(__file__).parent / f"margins/{len(shifts)}_replicates.txt", said)
    with paper_style():
        figure = claims_forest.draw(numbers, layout)
    assert len(figure.axes[0].get_yticklabels()) == numbers["claim"].nunique()
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [label.get_window_extent(renderer) for label in figure.axes[0].get_yticklabels()]
    assert all(box.x0 >= 0 for box in boxes)
    assert not any(above.overlaps(below) for above, below in pairwise(boxes))
    assert figure.get_figheight() <= claims_forest.PAGE_HEIGHT
    points = numbers[numbers["source"] != REPLICATES]
    for unit, ax in zip([unit for unit in UNITS if unit in set(numbers["margin"])], figure.axes, strict=True):
        assert points.loc[points["margin"] == unit, "value"].abs().max() < ax.get_xlim()[1] == -ax.get_xlim()[0]


def test_the_documentation_tells_the_verdicts_in_plain_words(judged):
    page = (ROOT / "docs/what-holds.md").read_text(encoding="utf-8")
    contradicted = ("declining-accuracy", "cocal-stable")
    said = "contradict: " + "; ".join(f'"{BY_ID[name].title}"' for name in contradicted)
    pages = script("docs/gallery.py")
    made = pages.with_section(page, "ledger", pages.what_holds(judged))
    assert said in " ".join(page.split())
    assert said in " ".join(made.split())
    families = of_families(judged)
    failing = [(families[source] == FAILS).sum() for source in (REPLICATES, STUDY)]
    assert f"Verdicts on the {len(families)} families" in made
    assert f"|{FAILS}|{failing[0]}|{failing[1]}|" in made
    assert pages.with_section(made, "ledger", pages.what_holds(judged)) == made


def test_the_pages_have_the_numbers_of_the_studies():
    made = list(script("docs/gallery.py").of_studies(ROOT))
    assert {file for file, _, _ in made} == {
        "README.md",
        "docs/fitting.md",
        "docs/laptop-study.md",
        "docs/what-holds.md",
    }
    for file, name, section in made:
        page = (ROOT / file).read_text(encoding="utf-8")
        assert f"<!--{name}-->\n{section}\n<!--/{name}-->" in page, f"`make gallery` renews {file}"
