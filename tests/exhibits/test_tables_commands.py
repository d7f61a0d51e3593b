"""Every table by its command, and all of them in one LaTeX document."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from test_tables import DATASETS, layout

from cocal.cli import main
from cocal.config import load_study
from cocal.config.evaluation import MetricSettings
from cocal.exhibits.base.layouts import Layout
from cocal.metrics.cube import metric_cube
from cocal.store import write_dataset
from cocal.store.lineage import Product
from cocal.study.costs import write_cost
from exhibits_by_name import exhibit_of, make
from sample_predictions import sample_predictions
from sample_tables import (
    aggregation_cubes,
    aggregation_layout,
    cost_layout,
    costs,
    paper_study,
    pre_generation_cube,
    pre_generation_layout,
    times_layout,
)

PACKAGES = {
    "geometry": "texlive-latex-base",
    "graphicx": "texlive-latex-base",
    "booktabs": "texlive-latex-recommended",
    "multirow": "texlive-latex-extra",
}
"""The LaTeX packages that the tables name, and Debian's packages that bring them."""


def missing_of_tex() -> str:
    """What this machine lacks for the tables; empty if it can set them."""
    if shutil.which("pdflatex") is None:
        return "pdflatex is not installed (on Debian: texlive-latex-base)"
    known = {name: subprocess.run(["kpsewhich", f"{name}.sty"], check=False, capture_output=True) for name in PACKAGES}
    return "; ".join(
        f"LaTeX's {name} is not installed (on Debian: {PACKAGES[name]})"
        for name, one in known.items()
        if one.returncode
    )


needs_tex = pytest.mark.skipif(bool(missing_of_tex()), reason=missing_of_tex())
NAMES = ("main", "one_set", "hyperparameters", "token_aggregation", "pre_generation", "time_to_confidence", "cost")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """Folder of metric cubes and cost records."""
    folder = tmp_path_factory.mktemp("inputs")
    cube = metric_cube(sample_predictions(*DATASETS), MetricSettings(resamples=0), {"macro-mathematics": DATASETS})
    write_dataset(folder / "main.nc", cube, {"digest": "aaaa"})
    for name, cube in zip(("large", "small"), aggregation_cubes(), strict=True):
        write_dataset(folder / f"{name}.nc", cube, {"digest": name})
    write_dataset(folder / "pre.nc", pre_generation_cube(), {"digest": "dddd"})
    for name, cost in costs().items():
        write_cost(folder / f"{name}.json", cost, {"stage": name})
    return folder


@pytest.fixture(scope="module")
def tables(inputs, tmp_path_factory) -> Path:
    """Folder of all tables."""
    folder = tmp_path_factory.mktemp("tables")

    def write(name: str, shown: Layout, *, exhibit: str = "", **files: Path | list[Path]) -> None:
        assert make(exhibit or name, folder / f"{name}.tex", shown, **files) == 0

    write("main", layout(*DATASETS), metrics=inputs / "main.nc")
    write("one_set", layout("math500", label="one_set"), exhibit="main", metrics=inputs / "main.nc")
    write("hyperparameters", exhibit_of(paper_study(), "hyperparameters").layout)
    write("token_aggregation", aggregation_layout(), metrics=[inputs / "small.nc", inputs / "large.nc"])
    write("pre_generation", pre_generation_layout(), metrics=inputs / "pre.nc")
    write("time_to_confidence", times_layout(), latency=inputs / "latency.json")
    write("cost", cost_layout(), **{kind: inputs / f"{kind}.json" for kind in costs()})
    return folder


@pytest.mark.parametrize(
    ("name", "line", "rows"),
    [
        ("main", r"\textbf{CoCal (binary)} & ", 6 * 6 * 4),
        ("one_set", r"\textbf{CoCal (binary)} & ", 2 * 6 * 4),
        ("hyperparameters", r"\raggedright Batch size & 256 \\", 60),
        ("token_aggregation", "Response mean & ", 12),
        ("pre_generation", "Pre-generation & ", 8),
        ("time_to_confidence", r"AIME 2025 & 41.78 & 184.56 & 4417$\times$ \\", 5),
        ("cost", r"SelfConsis & 16.67 & -- & -- & 3.225 & -- \\", 3),
    ],
)
def test_a_command_writes_print_page_and_numbers(tables, name, line, rows):
    text = (tables / f"{name}.tex").read_text()
    assert "\n" + line in text
    assert text.startswith("% study embedded; ")
    page = (tables / f"{name}.html").read_text(encoding="utf-8")
    source = text.splitlines()[0].removeprefix("% ")
    assert f'<p class="source">{source}</p>' in page
    assert "Tiny policies of 0.4 M parameters &amp; synthetic questions." in page
    assert len(pd.read_csv(tables / f"{name}.csv")) == rows


def test_the_digests_of_all_cubes_are_named(tables, inputs):
    first, second = (Product(inputs / f"{name}.nc").identity for name in ("small", "large"))
    text = (tables / "token_aggregation.tex").read_text()
    assert text.startswith(f"% study embedded; metrics {first}, {second}; layout ")
    assert set(Product(tables / "token_aggregation.csv").parents.values()) == {first, second}


def test_a_record_of_another_kind_is_refused(inputs, tmp_path, capsys):
    assert make("time_to_confidence", tmp_path / "x.tex", times_layout(), latency=inputs / "training.json") == 2
    assert "training.json" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_layout_is_read_from_a_file(repository, tmp_path):
    study = load_study(repository / "config/smoke.yaml")
    (tmp_path / "layout.json").write_text(exhibit_of(study, "hyperparameters").layout.model_dump_json())
    options = ["--layout", f"{tmp_path}/layout.json", "--output", f"{tmp_path}/x.tex"]
    assert main(["exhibit", "hyperparameters", *options]) == 0
    numbers = pd.read_csv(tmp_path / "x.csv").set_index("setting")["value"]
    assert numbers["Training steps"] == "4"
    assert numbers["Input dimension (Smoke-Qwen3 / Smoke-Qwen3-Deep)"] == "128 / 128"


# Document


def document(tables: Path, output: Path) -> list[str]:
    return ["document", "--tables", *(f"{tables}/{name}.tex" for name in NAMES), "--output", str(output)]


def test_the_document_names_the_tables_from_its_own_folder(tables, tmp_path):
    assert main(document(tables, tables / "all.tex")) == 0
    text = (tables / "all.tex").read_text()
    named = ",".join(re.findall(r"^\\usepackage(?:\[.*\])?\{(.*)\}", text, re.MULTILINE))
    assert {*named.split(",")} == {*PACKAGES}
    assert all(package in text for package in {*PACKAGES.values()} - {"texlive-latex-base"})
    assert [line for line in text.splitlines() if "input" in line] == [rf"\input{{{name}.tex}}" for name in NAMES]
    elsewhere = tables.parent / "elsewhere/all.tex"
    assert main(document(tables, elsewhere)) == 0
    assert rf"\input{{../{tables.name}/main.tex}}" in elsewhere.read_text()


def test_a_missing_table_is_named(tables, tmp_path, capsys):
    assert main(["document", "--tables", f"{tables}/none.tex", "--output", f"{tmp_path}/all.tex"]) == 2
    assert "none.tex: no such table" in capsys.readouterr().err


def assert_compiles(folder: Path) -> None:
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    for complaint in ("Overfull", "Float too large", "Missing character"):
        assert complaint not in done.stdout, [line for line in done.stdout.splitlines() if complaint in line]


@needs_tex
def test_the_document_compiles_and_nothing_is_too_wide_or_too_high(tables):
    assert main([*document(tables, tables / "all.tex"), "--overwrite"]) == 0
    assert_compiles(tables)


@needs_tex
@pytest.mark.parametrize("study", ["config", "paper", "rehearsal", "smoke"])
def test_the_hyperparameters_of_every_study_fit_a_page(repository, tmp_path, study):
    wrong = {"aime25": 1, "amc24": 8} if study == "paper" else {}
    shown = exhibit_of(load_study(repository / f"config/{study}.yaml"), "hyperparameters", wrong)
    assert make("hyperparameters", tmp_path / "x.tex", shown.layout) == 0
    assert main(["document", "--tables", f"{tmp_path}/x.tex", f"--output={tmp_path}/all.tex"]) == 0
    assert_compiles(tmp_path)
