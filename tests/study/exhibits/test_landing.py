"""The verdict in words, and the page on which the report opens."""

import base64
import re
from pathlib import Path

import pytest

from cocal.cli import main
from cocal.metrics.shown import csv_text
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.exhibits.typesetting.landing import landing_of
from cocal_study.exhibits.typesetting.verdict import answer, headlines, lines
from golden import assert_golden
from headline_numbers import headline_numbers
from planned_jobs import study_of


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("yes", "yes, but RLCR is at chance"), "holds"),
        (
            ("yes", "undecided; the lead is smaller than the paper's in ECE"),
            "holds for the binary target and is undecided for the group target",
        ),
        (
            ("undecided (ECE yes, AUROC undecided)", "no (ECE no, AUROC undecided)"),
            "is undecided for the binary target and does not hold for the group target",
        ),
        (("no", "no"), "does not hold"),
        (("undecided, without intervals", "undecided, without intervals"), "is undecided"),
    ],
)
def test_the_first_sentence_answers_by_both_targets_and_names_the_scale(words, said):
    found = answer(headline_numbers(words), "Qwen3-8B")
    assert found.startswith("With Qwen3-8B, of five headline claims of the paper ")
    assert found.endswith(f" as many fresh answers (PostCal), {said}.")


def test_differences_are_said_in_words_with_their_direction_and_their_source():
    """Of replicates and of one study, with the counts of all; what nobody measured is left out."""
    said = []
    for numbers in (headline_numbers(), headline_numbers(replicates=0)):
        said += [" | ".join(row) for row in headlines(numbers)]
        said += [line for part in lines(numbers, "Qwen3-8B") for line in part.splitlines()]
    assert_golden(Path(__file__).parent / "golden/landing.txt", said)


def test_the_page_shows_the_verdict_all_figures_and_a_link_to_each_table(tmp_path):
    shown = exhibits_of(study_of("smoke"), {})
    landing = landing_of(study_of("smoke"), shown)
    pictures = [tmp_path / f"{one.name}.png" for one in landing.figures]
    for number, picture in enumerate(pictures):
        picture.write_bytes(bytes([number]) * 16 + (1650 // (1 + number % 2)).to_bytes(4) + b"...")
    found = headline_numbers()
    (tmp_path / "verdict.csv").write_text(csv_text(found))
    words = ["landing", "--layout", landing.model_dump_json(), "--figures", *map(str, pictures)]
    words += ["--verdict", str(tmp_path / "verdict.csv"), "--output"]
    made = []
    for output in (tmp_path / "a.html", tmp_path / "b.html"):
        assert main([*words, str(output)]) == 0
        made.append(output.read_text())
    assert made[0] == made[1]
    page, said = made[0], lines(found, landing.scale)
    assert output.with_suffix(".txt").read_text() == "\n".join(said) + "\n"
    cell = headlines(found)[1][3]
    parts = (f"<p>{said[0]}</p>", f"<td>{cell}</td>", "<ul>", "<figure>")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    images = re.findall(r"<h2>(.+?)</h2><img alt=.+? src=\"data:image/png;base64,(.+?)\" style", page)
    assert images == [
        (one.title, base64.b64encode(file.read_bytes()).decode())
        for one, file in zip(landing.figures, pictures, strict=True)
    ]
    widths = re.findall(r'style="width: (.+?)"', page)
    assert widths == [("100%", "50%")[number % 2] for number in range(len(images))]
    tables = {f"results/tables/{one.name}.html" for one in shown if isinstance(one, TableExhibit)}
    assert set(re.findall(r"resultPath:'(.+?)'", page)) == tables
    assert {f"results/{file}" for file in re.findall(r'<a href="(.+?)"', page)} == tables, "outside of the report"
    assert len(tables) > 10 < len(images)
    assert main([*words[: words.index("--verdict")], "--output", str(tmp_path / "none.html")]) == 0
    assert "no CoCal" in (tmp_path / "none.txt").read_text()
