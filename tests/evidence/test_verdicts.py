"""Verdicts on the claims by the paper, a study and its replicates, and where readers see them."""

import importlib.util
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from claims_study import SCOPE, study_files, study_frame
from cocal.config import load_study
from cocal.evidence.claims import OF_THE_PAPER, read_claims
from cocal.evidence.estimates import Estimate
from cocal.evidence.predicates import FAILS, HOLDS, OPEN, Margin, Reader
from cocal.evidence.published import read_published
from cocal.evidence.sources import PublishedSource, StudyFiles, StudySource
from cocal.evidence.verdicts import (
    NOT_ASSESSABLE,
    PAPER,
    REPLICATES,
    STUDY,
    UNDER_SPECIFIED,
    is_measured,
    judge_all,
)
from cocal.exhibits import claims, claims_forest
from cocal.exhibits.base.ledger import claims_inputs, claims_layout
from cocal.exhibits.drawing.style import paper_style
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from paper_tex import NUMBERS, ROOT

LEDGER = read_claims(NUMBERS / "claims.yaml")
BY_ID = {claim.id: claim for claim in LEDGER}
OF_PAPER = PublishedSource(read_published(NUMBERS)).reader


@pytest.fixture(scope="module")
def files() -> StudyFiles:
    return study_files(study_frame())


@pytest.fixture(scope="module")
def judged(files) -> pd.DataFrame:
    return judge_all(LEDGER, OF_PAPER, StudySource(SCOPE, files).reader, False)


def test_every_claim_has_a_verdict_or_a_reason_from_every_source(judged):
    assert len(judged) == 3 * len(LEDGER)
    said = judged["verdict"].isin([HOLDS, FAILS, OPEN])
    assert (said != (judged["reason"] != "")).all()
    assert judged.loc[~said, "verdict"].isin([UNDER_SPECIFIED, NOT_ASSESSABLE]).all()
    of_study = judged[judged["source"] == STUDY].set_index("claim")
    assert (of_study["verdict"] == HOLDS).sum() >= 5
    assert FAILS in set(of_study["verdict"])
    for claim in LEDGER:
        if claim.kind in OF_THE_PAPER:
            assert "only the paper study" in of_study.loc[claim.id, "reason"]
        if is_measured(claim):
            assert np.isnan(of_study.loc[claim.id, "value"]), "times differ from run to run"
    assert of_study.loc["negligible-overhead", "verdict"] == HOLDS
    assert of_study.loc["sampling-outweighs-training", "verdict"] == HOLDS
    assert of_study.loc["more-errors-in-training", "value"] == pytest.approx(0.2)


def test_verdicts_follow_from_the_margins(judged):
    """A planted wrong verdict is found: each is computed once more from the numbers of its row."""
    for row in judged[judged["value"].notna() & (judged["source"] != REPLICATES)].itertuples():
        claim = BY_ID[row.claim]
        if claim.predicate.predicate in ("value", "between"):
            continue
        assert row.lower <= row.value <= row.upper
        assert row.verdict == Margin(row.value, row.lower, row.upper).verdict, row.claim


def test_the_paper_study_judges_values(files):
    found = judge_all([BY_ID["ece-0.096"]], OF_PAPER, StudySource(SCOPE, files).reader, True)
    assert found.loc[found["source"] == STUDY, "verdict"].item() in (HOLDS, FAILS)


def test_replicates_that_say_nothing_are_a_reason(judged, files):
    rows = judged[["claim", "source", "value"]].assign(replicate_1=0.1, replicate_2=np.nan)
    paper, study = OF_PAPER, StudySource(SCOPE, files).reader
    found = judge_all([BY_ID["selfconsis-costs-more"]], paper, study, False, rows).set_index("source")
    assert found.loc[REPLICATES, "reason"] == "measured times are not gathered"
    found = judge_all([BY_ID["both-scales"]], paper, study, False, rows[rows["claim"] != "both-scales"])
    (reason,) = found.loc[found["source"] == REPLICATES, "reason"]
    assert reason.startswith("the replicates were gathered without this claim")


def test_a_claim_counts_its_own_replicates_of_the_study(files):
    """Rows of other claims and sources have other numbers and another order."""
    wanted = [claim for claim in LEDGER if claim.id in ("beats-coupled-and-post-hoc", "group-conservative")]
    reader = Reader(lambda one: Estimate(0.5), lambda name, case: [name])
    rows = [
        ("group-conservative", "paper", -1.0, -2.0, -3.0, -4.0),
        ("group-conservative", STUDY, 0.01, 0.02, 0.03, 0.5),
        ("beats-coupled-and-post-hoc", "paper", 1.0, 2.0, 3.0, 4.0),
        ("beats-coupled-and-post-hoc", STUDY, -0.3, 0.05, -0.2, -0.1),
    ]
    columns = ["claim", "source", *(f"replicate_{number}" for number in (1, 2, 3, 4))]
    found = judge_all(wanted, reader, reader, False, pd.DataFrame(rows, columns=columns))
    found = found[found["source"] == "replicates"].set_index("claim")
    assert found["verdict"].to_dict() == {"beats-coupled-and-post-hoc": "in 1 of 4", "group-conservative": "in 4 of 4"}
    expected = [[-0.1375, -0.3, 0.05], [0.14, 0.01, 0.5]]
    np.testing.assert_allclose(found[["value", "lower", "upper"]].astype(float), expected)


# The table and the figure


@pytest.fixture(scope="module")
def layout():
    return claims.Layout(study="embedded", caption="Made up.", label="Tiny A", scope=SCOPE)


def arguments(files: StudyFiles) -> dict:
    return {
        "resamples": files.resamples,
        "published": read_published(NUMBERS),
        "ledger": LEDGER,
        "companions": files.companions,
        "predictions": files.predictions,
        "sampling": files.costs["sampling"],
        "fit": files.costs["fit"],
        "latency": files.latency,
    }


def test_the_table_shows_every_claim_and_its_words(layout, files, judged):
    numbers = claims.prepare(layout, **arguments(files))
    pd.testing.assert_frame_equal(numbers, judged)
    made = claims.grid(numbers, layout, source="", **arguments(files))
    text, html = latex(made), page(made)
    assert text.count("does not hold") == (numbers["verdict"] == FAILS).sum()
    assert "2 do not hold" in made.caption
    for claim in LEDGER:
        assert (
            sum(row.label == claim.title for block in made.blocks for group in block.groups for row in group.rows) == 1
        )
    assert "seven of eight settings" in html
    assert "only the paper study can judge it" in html


def test_the_figure_draws_differences_of_metrics_alone(layout, files):
    numbers = claims_forest.prepare(layout, **arguments(files))
    shown = set(numbers["claim"])
    assert {"declining-accuracy", "more-errors-in-training"} <= shown
    assert not any(BY_ID[name].kind in OF_THE_PAPER or is_measured(BY_ID[name]) for name in shown)
    numbers.loc[numbers["source"] == REPLICATES, ["value", "lower", "upper"]] = [0.02, -0.01, 0.05]
    with paper_style():
        figure = claims_forest.draw(numbers, layout)
    (ax,) = figure.axes
    titles = [label.get_text() for label in ax.get_yticklabels()]
    assert titles == [BY_ID[name].title for name in dict.fromkeys(numbers["claim"])]
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [label.get_window_extent(renderer) for label in ax.get_yticklabels()]
    assert all(box.x0 >= 0 for box in boxes)
    assert not any(above.overlaps(below) for above, below in pairwise(boxes))
    assert figure.get_figheight() <= claims_forest.PAGE_HEIGHT


# The README


def gallery():
    found = importlib.util.spec_from_file_location("gallery", ROOT / "docs/gallery.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def told(readme: str) -> dict[str, str]:
    """The verdicts of the paper's numbers in the README's table, by the titles of the claims."""
    section = readme.partition("<!-- ledger -->")[2].partition("<!-- end of ledger -->")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {title: paper for title, paper, *_ in rows[1:]}


def test_the_readme_tells_the_verdicts_in_plain_words(judged):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    published = judged[judged["source"] == PAPER].set_index("title")["verdict"].to_dict()
    assert told(readme).items() <= published.items(), "`make gallery` renews the README"
    made = gallery().with_section(readme, gallery().what_holds(judged))
    assert 40 < len(told(made)) < len(LEDGER)
    assert told(made).items() <= published.items()
    assert f'contradict: "{BY_ID["declining-accuracy"].title}"; "{BY_ID["pre-generation-10-2-to-10-3"].title}".' in made
    planted = made.replace(
        "| RLCR trails by 9.9 points of accuracy | holds", "| RLCR trails by 9.9 points of accuracy | no"
    )
    assert planted != made
    assert not told(planted).items() <= published.items()
    assert gallery().with_section(made, gallery().what_holds(judged)) == made
    with pytest.raises(SystemExit, match="the marks of the ledger are missing"):
        gallery().with_section("# Another", "x")


@pytest.mark.parametrize("name", ["config", "paper", "smoke", "rehearsal"])
def test_every_study_declares_what_its_claims_need(name):
    study = load_study(ROOT / f"config/{name}.yaml")
    scope = claims_layout(study).scope
    assert scope.of_paper == (name == "paper")
    inputs = claims_inputs(study)
    assert {"resamples", "published", "ledger", "companions", "predictions", "latency"} <= set(inputs)
    assert (ROOT / inputs["ledger"]).is_file()


def test_the_readme_counts_the_claims_that_replicates_agree_on(judged):
    sentence = "Of the 3 claims that all 5 replicates can assess, 1 hold in every replicate and 1 in none."
    replicated = judged.copy()
    places = replicated.index[replicated["source"] == REPLICATES][:3]
    replicated.loc[places, "verdict"] = ["in 5 of 5", "in 0 of 5", "in 2 of 5"]
    assert sentence in gallery().what_holds(replicated).replace("\n", " ")
    assert "can assess" not in gallery().what_holds(judged)
