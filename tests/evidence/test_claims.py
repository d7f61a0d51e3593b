"""The ledger of the paper's claims: its words, its predicates, and the verdicts of every source."""

import importlib.util
import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import paper_tex
from claims_study import SCOPE, study_files, study_frame
from cocal.config import load_study
from cocal.errors import ConfigError
from cocal.evidence.claims import OF_THE_PAPER, read_claims
from cocal.evidence.predicates import (
    FAILS,
    HOLDS,
    OPEN,
    Case,
    Margin,
    NotAssessableError,
    Quantity,
)
from cocal.evidence.published import read_published
from cocal.evidence.sources import MEASURED, PublishedSource, StudyFiles, StudySource
from cocal.evidence.verdicts import (
    NOT_ASSESSABLE,
    REPLICATES,
    STUDY,
    UNDER_SPECIFIED,
    is_measured,
    judge,
    judge_all,
)
from cocal.exhibits import claims, claims_forest
from cocal.exhibits.base.ledger import claims_inputs, claims_layout
from cocal.exhibits.drawing.style import paper_style
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from paper_tex import NUMBERS, TEX, needs_tex

LEDGER = read_claims(NUMBERS / "claims.yaml")
BY_ID = {claim.id: claim for claim in LEDGER}
PAPER_SAYS_NO = {"declining-accuracy", "pre-generation-10-2-to-10-3"}
"""The claims that the paper's own numbers contradict."""
IN_FIGURES = {
    *("errors-become-scarce", "rlcr-polarised-99", "cocal-spreads", "seven-of-eight-budgets", "cross-iteration-auroc"),
    *("cross-iteration-ece", "transfer-to-dcpo", "transfer-to-rlcr-early", "transfer-to-rlcr-late"),
    *("middle-to-late-layers", "retained-responses", "early-ece-0.090", "early-auroc-0.868"),
    *("more-errors-in-training", "lower-test-confidence", "lowest-ece-layer-30"),
}
"""The claims whose numbers no table of the paper has."""


@cache
def of_paper(folder: Path = NUMBERS) -> dict[str, str]:
    """The verdicts of the published numbers."""
    reader = PublishedSource(read_published(folder)).reader
    return {claim.id: judge(claim, reader)[1] for claim in read_claims(folder / "claims.yaml")}


# The ledger


@needs_tex
def test_every_quotation_stands_in_its_section_of_the_source():
    text = paper_tex.running_text(TEX.read_text(encoding="utf-8"))
    headings = paper_tex.headings(text)
    for claim in LEDGER:
        words = " ".join(claim.quotation.split())
        places = [found.start() for found in re.finditer(re.escape(words), text)]
        assert places, f"{claim.id}: the source does not have {words!r}"
        above = [([title for start, title in headings if start <= place] or ["Abstract"])[-1] for place in places]
        assert claim.section in above, f"{claim.id}: it stands in {above}"


def test_the_ledger_is_whole():
    assert 40 <= len(LEDGER) <= 80
    assert {claim.kind for claim in LEDGER} == {"direction", "ranking", "count", "range", "ratio", "value"}
    kinds = {claim.predicate.predicate for claim in LEDGER if claim.predicate}
    assert kinds == {"better", "greater", "changes", "widens", "alike", "value", "between"}
    assert len({claim.title for claim in LEDGER}) == len(LEDGER)
    for claim in LEDGER:
        values = claim.predicate is not None and claim.predicate.predicate == "value"
        assert not values or claim.kind == "value", claim.id


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("predicate: better,", "predicate: nicer,", "nicer"),
        ("id: both-scales", "id: generalises", "several claims have the id generalises"),
        ("    reason: no quality", "    note: no quality", "a predicate, or a reason"),
    ],
)
def test_a_wrong_ledger_is_refused(tmp_path, old, new, message):
    path = tmp_path / "claims.yaml"
    text = (NUMBERS / "claims.yaml").read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_claims(path)


# Verdicts of the published numbers


def test_the_papers_own_numbers_contradict_two_claims():
    found = of_paper()
    assert {name for name, verdict in found.items() if verdict == FAILS} == PAPER_SAYS_NO
    assert {name for name, verdict in found.items() if verdict == NOT_ASSESSABLE} == IN_FIGURES
    assert {name for name, verdict in found.items() if verdict == UNDER_SPECIFIED} == {
        claim.id for claim in LEDGER if claim.predicate is None
    }
    assert OPEN not in found.values()


@pytest.mark.parametrize(
    ("file", "old", "new", "claim", "verdict"),
    [
        ("main.csv", "0.644,**0.096**", "0.644,**0.106**", "lowest-ece-of-concurrent", FAILS),
        ("main.csv", "0.644,**0.096**", "0.644,**0.097**", "ece-0.096", FAILS),
        ("main.csv", "**63.8**,0.644", "**58.8**,0.644", "coupled-trail-in-accuracy", OPEN),
        ("ood.csv", "31.1,0.353,**0.104**", "31.1,0.353,**0.204**", "group-ece-on-facts", FAILS),
        ("main_step80.csv", "_62.2_,0.846,0.220", "_62.2_,0.846,0.420", "coupled-improve-by-80", FAILS),
        ("scale.csv", "0.679,**0.082**", "0.679,**0.092**", "scale-both-beat-coupled", FAILS),
        ("cost.csv", "14.22", "12.22", "sampling-14.22-h", FAILS),
        ("time_to_confidence.csv", "1508×", "908×", "pre-generation-three-to-four-orders", FAILS),
        ("token_aggregation.csv", "**0.900**", "0.890", "last-token-best-8b", FAILS),
        ("pre_generation.csv", "0.268,0.650", "0.068,0.650", "post-generation-better", FAILS),
    ],
)
def test_a_planted_wrong_number_changes_a_verdict(tmp_path, file, old, new, claim, verdict):
    folder = shutil.copytree(NUMBERS, tmp_path / "paper")
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert of_paper()[claim] == HOLDS
    assert of_paper(folder)[claim] == verdict


def test_margins_are_those_of_the_tables():
    reader = PublishedSource(read_published(NUMBERS)).reader
    expected = {
        "coupled-trail-in-accuracy": 0.638 - 0.588,
        "both-scales": 0.090 - 0.082,
        "widens-under-transfer": (0.726 - 0.666) - (0.896 - 0.857),
        "declining-accuracy": 0.577 - 0.622,
        "selfconsis-comparable-auroc": 0.02 - (0.904 - 0.896),
        "often-above-accuracy": 0.714 - 0.589 + 0.02,
        "generally-beats-postcal": 0.896 - 0.872,
    }
    for name, value in expected.items():
        assert judge(BY_ID[name], reader)[0].value == pytest.approx(value), name


# Verdicts of a study


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return study_frame()


@pytest.fixture(scope="module")
def files(frame) -> StudyFiles:
    return study_files(frame)


def quantity(metric: str, method: str, **case) -> Quantity:
    fields = {"backbone": "first", "dataset": "macro-mathematics", "step": 120, "learnt_from": None}
    return Quantity(metric, method, Case(**(fields | {"comparison": "main"} | case)))


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (quantity("ece", "cocal-binary", backbone="second"), "one backbone"),
        (quantity("ece", "cocal-binary", comparison="budgets", learnt_from=5), "no comparison of this kind"),
        (quantity("ece", "rlcr", step=40), "does not evaluate RLCR there"),
        (quantity("ece", "rlcr", dataset="AMC24"), "no set of the study stands for AMC24"),
        (quantity("extreme_share", "p-true", dataset="AMC24"), "AMC24"),
        (quantity("error_share", "cocal-binary", comparison="sweep", learnt_from=10), "no companions"),
        (quantity("post_over_pre", "cocal-binary", dataset="AIME24"), "AIME24"),
        (quantity("training_seconds", "cocal-binary"), "not measured"),
    ],
)
def test_what_a_study_lacks_is_a_reason(files, wanted, reason):
    with pytest.raises(NotAssessableError, match=reason):
        StudySource(SCOPE, files).read(wanted)


def test_steps_of_other_numbers_stand_for_none(files):
    fewer = SCOPE.model_copy(update={"stages": (40, 60)})
    with pytest.raises(NotAssessableError, match="2 stages, and the paper 3"):
        StudySource(fewer, files).read(quantity("ece", "rlcr", step=80))
    assert StudySource(fewer, files).read(quantity("ece", "rlcr", step=120)).value > 0


@pytest.fixture(scope="module")
def judged(files) -> pd.DataFrame:
    return judge_all(LEDGER, PublishedSource(read_published(NUMBERS)).reader, StudySource(SCOPE, files).reader, False)


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
        if row.verdict == HOLDS:
            assert row.value > 0, row.claim
        if row.verdict == FAILS:
            assert row.value < 0, row.claim
        assert row.verdict == Margin(row.value, row.lower, row.upper).verdict, row.claim


def test_the_paper_study_judges_values(files):
    claim = BY_ID["ece-0.096"]
    reader = PublishedSource(read_published(NUMBERS)).reader
    found = judge_all([claim], reader, StudySource(SCOPE, files).reader, True)
    assert found.loc[found["source"] == STUDY, "verdict"].item() in (HOLDS, FAILS)


def test_replicates_that_say_nothing_are_a_reason(judged, files):
    rows = judged[["claim", "source", "value"]].assign(replicate_1=0.1, replicate_2=np.nan)
    paper, study = PublishedSource(read_published(NUMBERS)).reader, StudySource(SCOPE, files).reader
    found = judge_all([BY_ID["selfconsis-costs-more"]], paper, study, False, rows).set_index("source")
    assert found.loc[REPLICATES, "reason"] == "measured times are not gathered"
    found = judge_all([BY_ID["both-scales"]], paper, study, False, rows[rows["claim"] != "both-scales"])
    (reason,) = found.loc[found["source"] == REPLICATES, "reason"]
    assert reason.startswith("the replicates were gathered without this claim")


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
    made = claims.grid(numbers, layout, **arguments(files))
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
    found = importlib.util.spec_from_file_location("gallery", paper_tex.ROOT / "docs/gallery.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def told(readme: str) -> dict[str, str]:
    """The verdicts of the paper's numbers in the README's table, by the titles of the claims."""
    section = readme.partition("<!-- ledger -->")[2].partition("<!-- end of ledger -->")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {title: paper for title, paper, *_ in rows[1:]}


def test_the_readme_tells_the_verdicts_in_plain_words(judged):
    readme = (paper_tex.ROOT / "README.md").read_text(encoding="utf-8")
    published = {BY_ID[name].title: verdict for name, verdict in of_paper().items()}
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
    study = load_study(paper_tex.ROOT / f"config/{name}.yaml")
    scope = claims_layout(study).scope
    assert scope.of_paper == (name == "paper")
    inputs = claims_inputs(study)
    assert {"resamples", "published", "ledger", "companions", "predictions", "latency"} <= set(inputs)
    assert (paper_tex.ROOT / inputs["ledger"]).is_file()
    assert all(measured not in ("ece", "auroc") for measured in MEASURED)


def test_the_readme_counts_the_claims_that_replicates_agree_on(judged):
    sentence = "Of the 3 claims that all 5 replicates can assess, 1 hold in every replicate and 1 in none."
    replicated = judged.copy()
    places = replicated.index[replicated["source"] == REPLICATES][:3]
    replicated.loc[places, "verdict"] = ["in 5 of 5", "in 0 of 5", "in 2 of 5"]
    assert sentence in gallery().what_holds(replicated).replace("\n", " ")
    assert "can assess" not in gallery().what_holds(judged)
