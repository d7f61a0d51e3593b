"""Tables and figures of a study carry their digests beside them, which those who read or copy them compare."""

import pytest

from cocal.cli import main
from cocal.errors import ContractError
from cocal.metrics.shown import csv_text
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.exhibits.typesetting.landing import landing_of
from cocal_study.store.datasets import write_dataset
from cocal_study.store.numbers import check_beside, read_numbers, seal_beside
from exhibits_by_name import make
from headline_numbers import headline_numbers
from planned_jobs import study_of
from sample_tables import aggregation_cubes, aggregation_layout


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/tables").mkdir(parents=True)
    (tmp_path / "results/figures").mkdir()
    return tmp_path / "results"


@pytest.fixture
def landing(results):
    """`cocal landing` of a study with its table of headline claims and its figures; its status."""
    layout = landing_of(study := study_of("smoke"), exhibits_of(study, {}))
    (results / "tables/verdict.csv").write_text(csv_text(headline_numbers()))
    seal_beside(results / "tables/verdict.csv")
    figures = [results / f"figures/{one.name}.png" for one in layout.figures]
    for file in figures:
        file.write_bytes(b"\x89PNG" + file.name.ljust(40).encode())
        seal_beside(file)
    words = ["landing", "--layout", layout.model_dump_json(), "--verdict", "results/tables/verdict.csv", "--figures"]
    return lambda: main([*words, *map(str, figures), "--output", "results/verdict.html"])


@pytest.mark.parametrize("content", [b"", b"\x89PNG" + b"\0" * 40, None], ids=["empty", "zeros", "missing"])
def test_a_changed_figure_reaches_no_page(results, landing, capsys, content):
    file = next((results / "figures").glob("*.png"))
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert landing() == 2
    assert f"{file.name}: " in capsys.readouterr().err
    assert not (results / "verdict.html").exists()


def test_a_table_without_a_digest_that_is_none_is_refused_in_a_sentence(results, landing, capsys):
    (results / "tables/.verdict.sha256").unlink()
    (results / "tables/verdict.csv").write_text("a,b\n1,2,3\n4\n")
    assert landing() == 2
    assert "results/tables/verdict.csv: not a readable CSV file (" in capsys.readouterr().err


def test_all_forms_of_an_exhibit_are_sealed_and_one_is_not_taken_for_another(results, tmp_path):
    for file, cube in zip(("small.nc", "large.nc"), aggregation_cubes(), strict=True):
        write_dataset(results / file, cube, {"stage": "metrics"})
    cubes = [results / "small.nc", results / "large.nc"]
    table = results / "tables/token_aggregation.tex"
    assert make("token_aggregation", table, aggregation_layout(), metrics=cubes) == 0
    forms = [table.with_suffix(ending) for ending in (".tex", ".html", ".csv")]
    for form in forms:
        check_beside(form)
        content = form.read_bytes()
        other = next(one for one in forms if one != form).read_bytes()
        for changed in (content.replace(b"e", b"a", 1), content[:-1], other):
            form.write_bytes(changed)
            with pytest.raises(ContractError, match=f"{form.name}: the file has changed since it was written"):
                check_beside(form)
        form.write_bytes(content)
    forms[2].write_bytes(content + b"\n")
    with pytest.raises(ContractError, match=r"aggregation\.csv: the file has changed since it was written"):
        read_numbers(forms[2])
    own = tmp_path / "elsewhere/token_aggregation.tex"
    assert make("token_aggregation", own, aggregation_layout(), metrics=cubes) == 0
    assert {file.suffix for file in own.parent.iterdir()} == {".tex", ".html", ".csv"}
