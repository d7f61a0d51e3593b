"""Tables and figures by their commands, and all tables in one LaTeX document."""

import re
from pathlib import Path

import pandas as pd
import pytest

from cocal.cli import main
from cocal.store import write_text
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.planning.costs import write_cost
from cocal_study.provenance.lineage import Product
from cocal_study.store.datasets import write_dataset
from exhibits_by_name import exhibit_of, made_twice, make
from meant_words import made
from planned_jobs import study_of
from sample_predictions import sweep_cube
from sample_tables import aggregation_cubes, aggregation_layout, costs, times_layout
from tex import PACKAGES, assert_compiles, needs_tex

NAMES = (
    *("main", "hyperparameters", "token_aggregation", "pre_generation", "time_to_confidence", "cost"),
    *("proper_scores", "decisions"),
)


def test_a_table_is_written_as_print_page_and_numbers_with_the_digests_of_its_cubes(tmp_path):
    files = [tmp_path / f"{name}.nc" for name in ("small", "large")]
    for file, cube in zip(files, aggregation_cubes(), strict=True):
        write_dataset(file, cube, {"stage": "metrics"})
    digests = [Product(file).identity for file in files]
    written = []
    for folder in ("a", "b"):
        table = tmp_path / folder / "token_aggregation.tex"
        assert make("token_aggregation", table, aggregation_layout(), metrics=files) == 0
        written.append([table.with_suffix(suffix).read_text() for suffix in (".tex", ".html", ".csv")])
    assert written[0] == written[1]
    text, page, csv = written[0]
    assert text.startswith(f"% study embedded; metrics {', '.join(digests)}; layout ")
    assert f'<p class="source">{text.splitlines()[0].removeprefix("% ")}</p>' in page
    assert "Tiny policies of 0.4 M parameters &amp; synthetic questions." in page
    assert r"\label{tab:token_aggregation}" in text
    assert csv.count("\n") == 1 + 12
    assert set(Product(table.with_suffix(".csv")).parents.values()) == {*digests}


def test_a_figure_is_written_as_pdf_png_and_numbers(tmp_path):
    cube = sweep_cube("amc23", "amc24", methods=("cocal-group", "cocal-binary"), source_steps=(2, 5), step=20)
    write_dataset(tmp_path / "m.nc", cube, {})
    layout = exhibit_of(study_of("smoke"), "early_steps").layout
    layout = layout.model_copy(update={"backbone": "tiny-a", "steps": (2, 5), "step": 20})
    pdf, png, csv = made_twice("early_steps", tmp_path, layout, metrics=tmp_path / "m.nc")
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert b"study: smoke" in png
    assert b"; step: 20" in png
    assert len(csv.splitlines()) == 1 + 2 * 2 * 2


@pytest.mark.slow
def test_diagrams_are_the_same_bytes_again(tmp_path):
    for name in ("overview", "paradigms"):
        made_twice(name, tmp_path / name)


def test_a_record_of_another_kind_is_refused(tmp_path, capsys):
    write_cost(tmp_path / "training.json", costs()["training"], {"stage": "training"})
    output = tmp_path / "made/x.tex"
    assert make("time_to_confidence", output, times_layout(), latency=tmp_path / "training.json") == 2
    assert "training.json" in capsys.readouterr().err
    assert not output.exists()


def test_a_layout_is_read_from_a_file(tmp_path):
    study = study_of("smoke")
    (tmp_path / "layout.json").write_text(exhibit_of(study, "hyperparameters").layout.model_dump_json())
    options = ["--layout", f"{tmp_path}/layout.json", "--output", f"{tmp_path}/x.tex"]
    assert main(["exhibit", "hyperparameters", *options]) == 0
    numbers = pd.read_csv(tmp_path / "x.csv").set_index("setting")["value"]
    assert numbers["Training steps"] == "4"
    assert numbers["Judge of factual answers"] == "exact match"
    assert numbers["Input dimension (Smoke-Qwen3 / Smoke-Qwen3-Deep)"] == "128 / 128"


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """Folder of the paper study's tables."""
    folder = tmp_path_factory.mktemp("tables")
    for name in NAMES:
        write_text(folder / f"{name}.tex", latex(made(name)[1]))
    return folder


def document(tables: Path, output: Path, *names: str) -> int:
    return main(["document", "--tables", *(f"{tables}/{name}.tex" for name in names), "--output", str(output)])


def test_the_document_names_the_tables_from_its_own_folder(tables, capsys):
    assert document(tables, tables / "some.tex", "main", "cost") == 0
    text = (tables / "some.tex").read_text()
    named = ",".join(re.findall(r"^\\usepackage(?:\[.*\])?\{(.*)\}", text, re.MULTILINE))
    assert {*named.split(",")} == {*PACKAGES}
    assert all(package in text for package in {*PACKAGES.values()} - {"texlive-latex-base"})
    assert [line for line in text.splitlines() if "input" in line] == [r"\input{main.tex}", r"\input{cost.tex}"]
    elsewhere = tables.parent / "elsewhere/all.tex"
    assert document(tables, elsewhere, "main") == 0
    assert rf"\input{{../{tables.name}/main.tex}}" in elsewhere.read_text()
    assert document(tables, tables / "other.tex", "none") == 2
    assert "none.tex: no such table" in capsys.readouterr().err


@needs_tex
def test_the_document_compiles_and_nothing_is_too_wide_or_too_high(tables):
    assert document(tables, tables / "all.tex", *NAMES) == 0
    assert_compiles(tables)


@needs_tex
def test_the_hyperparameters_of_every_study_fit_a_page(tmp_path):
    for study in ("config", "paper", "rehearsal", "smoke"):
        wrong = {"aime25": 1, "amc24": 8} if study == "paper" else {}
        shown = exhibit_of(study_of(study), "hyperparameters", wrong)
        assert make("hyperparameters", tmp_path / study / "x.tex", shown.layout) == 0
        assert document(tmp_path / study, tmp_path / study / "all.tex", "x") == 0
        assert_compiles(tmp_path / study)
