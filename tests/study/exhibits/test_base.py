"""Every exhibit is one module that says everything about it; its command refuses what it cannot take."""

import inspect
import re
from dataclasses import replace

import pytest
from docutils.core import publish_parts

from cocal.cli import main
from cocal_study.exhibits.base.exhibit import CHAPTERS, GATHERED, FigureExhibit, TableExhibit, needed
from cocal_study.exhibits.base.registry import MODULES, exhibit_parameters, exhibits_of, module_of, report_entry
from planned_jobs import study_of
from sample_tables import curves_layout

STUDIES = ("config", "smoke", "paper", "rehearsal")


@pytest.fixture(scope="module", params=STUDIES)
def shown(request):
    """The exhibits of a study."""
    return exhibits_of(study_of(request.param), {})


def test_every_module_is_shown_by_the_paper_study_or_by_one_with_regimes():
    shown = {one.module for one in exhibits_of(study_of("paper"), {})}
    assert shown == {*MODULES} - {"regimes", "regimes_forest", "experience", "fits", "prefixes", "sampling"}, (
        "they have tests of their own"
    )


def test_what_was_gathered_elsewhere_is_shown_where_it_lies(tmp_path):
    study = study_of("config")
    modules = [module for module in map(module_of, MODULES) if {*needed(module)} & {*GATHERED}]
    gathered = [one for module in modules for one in module.of_study(study, {})]

    def shown():
        return {one.title for one in exhibits_of(study, {}, str(tmp_path))} & {one.title for one in gathered}

    assert not shown()
    for file in (file for one in gathered for kind in {*one.inputs} & {*GATHERED} for file in one.inputs[kind]):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert len(shown()) == 5


def test_a_declaration_fits_its_module(shown):
    for one in shown:
        module = module_of(one.module)
        assert isinstance(one, TableExhibit if hasattr(module, "grid") else FigureExhibit), one.name
        assert isinstance(one.layout, getattr(module, "Layout", type(None))), one.name
        parameters = inspect.signature(module.prepare).parameters if one.layout else {}
        needed = {name for name, given in parameters.items() if given.default is inspect.Parameter.empty}
        assert {"layout", *needed} <= {"layout", *one.inputs} <= {"layout", *parameters}, one.name
        assert ("checks" in one.waits_for) == bool(one.inputs), (
            f"{one.name} shows measured numbers only after the checks"
        )


def test_names_positions_and_titles_are_distinct(shown):
    files = [(type(one), one.name) for one in shown]  # tables/claims and figures/claims
    for values in (files, [one.position for one in shown], [one.title for one in shown]):
        assert len(set(values)) == len(values)
    assert [one.position for one in shown] == sorted(one.position for one in shown)


def test_a_caption_is_of_whole_sentences_and_without_markup(shown):
    for one in shown:
        assert one.chapter in CHAPTERS, one.name
        assert one.caption.endswith("."), one.name
        assert exhibit_parameters(one) != exhibit_parameters(replace(one, caption="Another.")), "what is printed reruns"
        for sentence in re.split(r"(?<=\w[.)])\s+(?=[A-Z])", one.caption):
            assert sentence[0].isupper(), (one.name, sentence)
            assert " " in sentence, (one.name, sentence)
        # the report reads it as reStructuredText, and shows what it cannot read as an error
        page = publish_parts(one.caption, writer="html", settings_overrides={"report_level": 1})["body"]
        assert "system-message" not in page, one.name


def test_entries_are_numbered_so_that_more_than_nine_sort_too():
    study = study_of("config")
    stages = (10, 20, 30, 40, 50, 60)
    changes = {"policy": {"stages": stages}, "reports": {"early_steps": (2, 5, 10)}}
    study = study.model_copy(update={key: getattr(study, key).model_copy(update=one) for key, one in changes.items()})

    def listed(reports) -> dict[str, list[str]]:
        shown = exhibits_of(study.model_copy(update={"reports": reports}), {})
        entries = [report_entry(exhibit, shown) for exhibit in shown]
        assert {len(labels) for _, labels in entries} == {1}, "a second label that halves a chapter would hide one half"
        return {
            chapter: sorted(label for one, labels in entries if one == chapter for label in labels.values())
            for chapter in sorted({chapter for chapter, _ in entries})
        }

    chapters = listed(study.reports)
    assert list(chapters) == [f"{place} {chapter}" for place, chapter in enumerate(CHAPTERS, start=1)]
    found = chapters["2 Main results"]
    assert [entry[:4] for entry in found] == [f"2.{place:02d}" for place in range(1, 16)]
    assert [entry for entry in found if "step" in entry][1:] == [
        f"2.{place:02d} Main table, step {step}" for place, step in enumerate(stages[:-1], start=10)
    ]
    found = listed(study.reports.model_copy(update={"reliability_methods": ()}))["2 Main results"]
    assert [entry.split(" ")[0] for entry in found] == [f"2.{place:02d}" for place in range(1, 14)], "without a gap"
    assert not any("Reliability" in entry for entry in found)


LAYOUT = curves_layout(["cocal-binary"], [20, 60]).model_dump_json()
ITERATIONS, COMPOSITION = (f"{name} --output x.pdf --layout LAYOUT" for name in ("cross_iteration", "composition"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "cross_iteration --output x.pdf",
            "--layout: cross_iteration needs one; `snakemake --printshellcmds` prints",
        ),
        ("overview --output x.pdf --layout {}", "--layout: overview is a diagram and shows no numbers; leave it out"),
        (
            "overview --output x.pdf --input metrics m.nc",
            "--input metrics: overview reads no files, and 1 of",
        ),
        (ITERATIONS, "--input metrics: cross_iteration reads metrics, and 0 of this kind are given"),
        (
            f"{COMPOSITION} --input metrics m.nc --input companions",
            "--input companions: composition reads metrics, companions (one or more), replicates_figure, "
            "and 0 of this kind are given",
        ),
        ("main --output x.pdf", "--output: x.pdf must end in .tex; the other files are written beside it"),
        (f"{ITERATIONS} --input metrics m.nc", "m.nc: no such file"),
    ],
)
def test_what_an_exhibit_cannot_take_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["exhibit", *(LAYOUT if word == "LAYOUT" else word for word in words.split())]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cocal exhibit: error: ")
    assert message in line
    assert not list(tmp_path.iterdir())


def test_a_name_that_no_exhibit_has_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["exhibit", "mian", "--output", "x.tex"])
    assert stopped.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "'mian'" in message
    assert all(name in message for name in MODULES)
