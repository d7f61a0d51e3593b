"""The paper's published numbers as data: compared with its TeX source once, with one another, and with our marks."""

import hashlib
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml

from claims_study import NUMBERS
from cocal.errors import ConfigError, ContractError
from cocal_study.cubes.cells import RATES
from cocal_study.evidence.published import read_published
from cocal_study.exhibits.main import grid
from exhibits_by_name import exhibits_by_name
from planned_jobs import study_of

PUBLISHED = read_published(NUMBERS)
CELLS = PUBLISHED.cells
QUALITY = CELLS[CELLS["metric"] != ""]
"""The five tables of accuracy and confidence quality."""


COMPARED = {
    "cost.csv": "9d265a86bc8e6a61",
    "hyperparameters.csv": "5b7b7ce3458f2dc3",
    "inconsistencies.yaml": "e5a411ef028116c2",
    "main.csv": "060271150648382a",
    "main_step40.csv": "fadbe0b4cb557f08",
    "main_step80.csv": "24cd9de908b95ca6",
    "ood.csv": "a5cd759d44e10c01",
    "pre_generation.csv": "eed4f70bb28e3317",
    "scale.csv": "163aebc28a362975",
    "tables.yaml": "3e1005ccfd89d70d",
    "text.yaml": "f30638b4ef99fc11",
    "time_to_confidence.csv": "7a07988a21b0e137",
    "token_aggregation.csv": "90ede0cdfae46c3c",
}
"""The files whose every number, mark, caption and sentence was compared with the paper's TeX source, by SHA-256."""


def test_the_published_numbers_are_those_that_were_compared_with_the_source():
    """After a change, compare the file with the source once more, and renew its digest."""
    found = {file: hashlib.sha256((NUMBERS / file).read_bytes()).hexdigest()[:16] for file in COMPARED}
    assert found == COMPARED
    assert {file.name for file in NUMBERS.iterdir()} - {"claims.yaml"} == COMPARED.keys()


def published_numbers(table: str) -> pd.DataFrame:
    """The table as `cocal_study.exhibits.main.prepare` would return it."""
    rows = QUALITY[QUALITY["table"] == table]
    percent = rows["metric"] == "accuracy"
    rows = rows.assign(value=rows["value"].where(~percent, rows["value"] / 100), lower=np.nan, upper=np.nan, n=1)
    return rows.assign(**dict.fromkeys(RATES, 1.0), seed_sd=np.nan)


def test_our_tables_print_and_mark_the_published_numbers_as_published():
    shown = exhibits_by_name(study_of("paper"))
    five_seeds = xr.Dataset(coords={"seed": ["mean", *"12345"]})
    astray, cells = set(), 0
    for table in QUALITY["table"].unique():
        numbers = published_numbers(table)
        layout = shown[table].layout
        published = tuple(name for name in layout.methods if name in set(numbers["method"]))  # no PostCal in tab. scale
        made = grid(numbers, layout.model_copy(update={"methods": published}), metrics=five_seeds)
        printed = numbers.set_index(["row", "column"])
        for block in made.blocks:
            titles = [f"{name}: {title.strip('↑↓')}" for name, title in zip(*block.heads, strict=True)]
            for label, values in (line for _, lines in block.groups for line in lines):
                for column, cell in zip(titles, values, strict=True):
                    cells += 1
                    text, mark = printed.loc[(label.text, column), ["text", "mark"]]
                    assert cell.text == text
                    if (cell.mark or "") != mark:
                        astray.add((table, label.text, column))
    assert cells == 936
    known = yaml.safe_load((NUMBERS / "inconsistencies.yaml").read_text(encoding="utf-8"))["inconsistencies"]
    marks = [cell for one in known if one["kind"] == "mark" for cell in one["cells"]]
    assert astray == {(cell["table"], cell["row"], cell["column"]) for cell in marks}


def test_a_cell_has_its_value_and_what_it_belongs_to():
    cell = CELLS.set_index(["table", "row", "column"]).loc[("ood", "CoCal (binary)", "ComplexWebQuestions: ECE")]
    assert cell[["text", "mark", "value", "backbone", "step"]].to_list() == ["0.044", "second", 0.044, "qwen3-8b", 120]
    assert cell[["dataset", "method", "metric"]].to_list() == ["cwq", "cocal-binary", "ece"]
    cost = CELLS[CELLS["table"] == "cost"].set_index(["row", "column"])
    assert cost.loc[("PostCal", "Training: MLP (s)"), ["text", "value"]].to_list() == ["≈15.1", 15.1]
    assert math.isnan(cost.loc[("CoCal", "Training: Sampling (h)"), "value"])
    settings = CELLS[CELLS["table"] == "hyperparameters"].set_index("row")["value"]
    assert settings["Evaluation: Maximum response length (AIME / AMC)"] == 16_384
    assert math.isnan(settings["Policy training: Clip ratio (lower / upper)"])


def test_missing_files_are_named(tmp_path):
    folder = shutil.copytree(NUMBERS, tmp_path / "paper")
    (folder / "ood.csv").unlink()
    with pytest.raises(ContractError, match=r"ood\.csv: no such table"):
        read_published(folder)
    (folder / "text.yaml").unlink()
    with pytest.raises(ConfigError, match=r"text\.yaml"):
        read_published(folder)
