"""The verdict in words, and the page on which the report opens."""

import base64
import re

import pytest

from cocal.cli import main
from cocal.metrics.shown import csv_text
from cocal_study.config import load_study
from cocal_study.evidence.predicates import FAILS, HOLDS, OPEN
from cocal_study.evidence.verdicts import CONTRADICTS, COST, NOT_ASSESSABLE, STUDY
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.exhibits.typesetting.landing import landing_of
from cocal_study.exhibits.typesetting.verdict import verdict
from judged_claims import judged


@pytest.mark.parametrize(
    ("central", "n", "first"),
    [
        (
            HOLDS,
            5,
            "Does it reproduce. Yes: that CoCal beats PostCal .* experience holds, by five replicates together.",
        ),
        (FAILS, 2, "Does it reproduce. No: .* does not hold, by two replicates together."),
        (OPEN, 3, "Does it reproduce. Undecided: .* is not separable from chance, by three replicates together."),
        (NOT_ASSESSABLE, 0, "Does it reproduce. Undecided: .* is not assessable, by the smoke study alone."),
        (HOLDS, 0, "Does it reproduce. Yes: .* holds, by the smoke study alone."),
    ],
)
def test_the_first_line_answers_by_the_replicates_together_where_there_are_any(central, n, first):
    assert re.fullmatch(first, verdict(judged(central, n=n), "smoke")[0])


def test_families_are_counted_by_the_replicates_first_and_named_where_they_are_few():
    found = judged(OPEN, of_replicates=[HOLDS, FAILS, *[OPEN] * 7], of_study=[HOLDS] * 9)
    said = verdict(found, "smoke")[4]
    assert said.startswith(
        "Of 10 families of claims that restate one another, 1 holds (Claim c0), 1 does not (Claim c1) and 8 are not "
        "separable by five replicates together; by the smoke study alone 9 hold, none does not and 1 is not separable; "
        "the others"
    )
    said = verdict(judged(FAILS, of_replicates=[FAILS] * 9), "smoke")[4]
    assert "none holds, 10 do not and none is not separable by five replicates together" in said


def test_each_margin_of_the_central_claim_is_said_with_what_its_interval_excludes():
    """Of two margins each has its line, and none stands for the other."""
    said = [line.replace("−", "-") for line in verdict(judged(OPEN, 0.1214, positive=2), "smoke")]
    assert said[1] == (
        "CoCal (binary) over PostCal (binary), ECE: margin +0.121 (95 % +0.021 to +0.221), positive in 2 of 5; zero is "
        "excluded, the paper's margin, +0.070, is not excluded."
    )
    assert "AUROC: margin +0.081 (95 % -0.019 to +0.181), positive in 2 of 5; zero is not excluded" in said[2]
    assert said[3] == (
        "Five replicates find a margin of 0.031 in ECE and 0.050 in AUROC in four of five cases, if it is there."
    )
    alone = [line for line in verdict(judged(OPEN, n=0), "smoke") if ": margin" in line]
    assert len(alone) == 2
    assert not any("positive" in line for line in alone)
    found = judged(OPEN)
    found.loc[found["margin"].str.contains("auroc"), "at_chance"] = "postcal-binary"
    assert verdict(found, "smoke")[2].endswith("; constant or at chance: PostCal (binary).")


def test_costs_are_counted_apart():
    found = judged(OPEN, of_study=[HOLDS, FAILS, *[OPEN] * 7], n=0)
    before = verdict(found, "smoke")
    assert not any("costs" in line for line in before)
    found.loc[found["claim"].isin(["c0", "c1", "c2"]), "kind"] = COST
    found.loc[(found["claim"] == "c2") & (found["source"] == STUDY), "verdict"] = NOT_ASSESSABLE
    said = verdict(found, "smoke")
    assert said[3].startswith("Of 7 families")
    assert said[4].endswith("counted apart: 1 holds, 1 does not and none is not separable.")


def test_what_the_papers_own_numbers_contradict_is_named():
    assert not any("contradict" in line for line in verdict(judged(OPEN), "smoke"))
    assert verdict(judged(OPEN, paper=CONTRADICTS), "smoke")[-1].count('"') == 2 * 10


def test_the_page_shows_the_verdict_all_figures_and_a_link_to_each_table(tmp_path, repository):
    shown = exhibits_of(load_study(repository / "config/smoke.yaml"), {})
    landing = landing_of(load_study(repository / "config/smoke.yaml"), shown)
    pictures = [tmp_path / f"{one.name}.png" for one in landing.figures]
    for number, picture in enumerate(pictures):
        picture.write_bytes(bytes([number]) * 16 + (1650 // (1 + number % 2)).to_bytes(4) + b"...")
    found = judged(FAILS, paper=CONTRADICTS)
    (tmp_path / "claims.csv").write_text(csv_text(found))
    words = ["landing", "--layout", landing.model_dump_json(), "--figures", *map(str, pictures)]
    made = []
    for name in ("a", "b"):
        output = tmp_path / f"{name}.html"
        assert main([*words, "--claims", str(tmp_path / "claims.csv"), "--output", str(output)]) == 0
        made.append(output.read_text())
    assert made[0] == made[1]
    page, lines = made[0], output.with_suffix(".txt").read_text().splitlines()
    assert lines == verdict(found, "smoke")
    assert page.index(f"<p>{lines[0]}</p>") < page.index("<ul>") < page.index("<figure>")
    images = re.findall(r"<h2>(.+?)</h2><img alt=.+? src=\"data:image/png;base64,(.+?)\" style", page)
    assert images == [
        (one.title, base64.b64encode(file.read_bytes()).decode())
        for one, file in zip(landing.figures, pictures, strict=True)
    ]
    widths = re.findall(r'style="width: (.+?)"', page)
    assert widths == [("100%", "50%")[number % 2] for number in range(len(images))]
    tables = {f"results/tables/{one.name}.html" for one in shown if isinstance(one, TableExhibit)}
    assert set(re.findall(r"resultPath:'(.+?)'", page)) == tables
    assert len(tables) > 10 < len(images)
    assert main([*words, "--output", str(tmp_path / "none.html")]) == 0
    assert "no CoCal" in (tmp_path / "none.txt").read_text()
