"""The paper's published numbers as data: compared with its TeX source once, with one another, and with our marks."""

import hashlib
import math
import shutil
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml

from cocal.errors import ConfigError, ContractError
from cocal_study.config import load_study
from cocal_study.cubes.cells import RATES
from cocal_study.evidence.published import Place, read_published
from cocal_study.exhibits.typesetting.accuracy import grid
from exhibits_by_name import exhibits_by_name
from paper_numbers import NUMBERS, ROOT

PUBLISHED = read_published(NUMBERS)
CELLS = PUBLISHED.cells
QUALITY = CELLS[CELLS["metric"] != ""]
"""The five tables of accuracy and confidence quality."""
BY_PLACE = CELLS.set_index(["table", "row", "column"])["text"]
HALF = {"Acc.": Fraction(1, 20), "MeanConf": Fraction(1, 2000), "ECE": Fraction(1, 2000), "AUROC": Fraction(1, 2000)}
"""The largest error of a rounded number, by the title of its column."""


INCONSISTENCIES = yaml.safe_load((NUMBERS / "inconsistencies.yaml").read_text(encoding="utf-8"))["inconsistencies"]
"""Places where the paper does not agree with itself. Kinds: macro averages that do not follow from their sets; marks
that do not follow from their column; sentences that tables contradict; numbers that are rounded in two ways; an ECE
below the difference between mean confidence and accuracy, which no binning allows if all confidences are valid, with
the largest share of valid ones that the cells allow."""


def of_kind(kind: str) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(cells=[Place(**cell) for cell in one.get("cells", ())], share=one.get("valid_share"))
        for one in INCONSISTENCIES
        if one["kind"] == kind
    ]


def number(place: Place) -> Fraction:
    return Fraction(BY_PLACE[place.table, place.row, place.column].strip("×≈"))


# The source

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


# Agreement of the numbers with one another


def test_the_macro_averages_follow_from_their_sets():
    """Both the average and its parts are rounded, so they may lie as far apart as the last digit counts."""
    astray = set()
    for (table, method, _), rows in QUALITY.groupby(["table", "row", "metric"], sort=False):
        of_macro = rows["dataset"].str.startswith("macro-")
        (average,), parts = rows.loc[of_macro, "text"].map(Fraction), rows.loc[~of_macro, "text"].map(Fraction)
        assert len(parts) == 5
        column = rows.loc[of_macro, "column"].item()
        if abs(sum(parts) / 5 - average) > 2 * HALF[column.rpartition(": ")[2]]:
            astray.add((table, method, column))
    assert astray == {(cell.table, cell.row, cell.column) for one in of_kind("macro") for cell in one.cells}


def published_numbers(table: str) -> pd.DataFrame:
    """The table as `cocal_study.exhibits.typesetting.accuracy.prepare` would return it."""
    rows = QUALITY[QUALITY["table"] == table]
    percent = rows["metric"] == "accuracy"
    rows = rows.assign(value=rows["value"].where(~percent, rows["value"] / 100), lower=np.nan, upper=np.nan, n=1)
    return rows.assign(**dict.fromkeys(RATES, 1.0), seed_sd=np.nan)


def test_our_tables_print_and_mark_the_published_numbers_as_published():
    shown = exhibits_by_name(load_study(ROOT / "config/paper.yaml"))
    five_seeds = xr.Dataset(coords={"seed": ["mean", *"12345"]})
    astray, cells = set(), 0
    for table in QUALITY["table"].unique():
        numbers = published_numbers(table)
        layout = shown[table].layout
        published = tuple(name for name in layout.methods if name in set(numbers["method"]))  # no PostCal in tab. scale
        made = grid(numbers, layout.model_copy(update={"methods": published}), metrics=five_seeds)
        printed = numbers.set_index(["row", "column"])
        for block in made.blocks:
            sets = [head.text for head in block.heads[0] for _ in range(head.span)]
            titles = [f"{name}: {head.text.strip('↑↓')}" for name, head in zip(sets, block.heads[1], strict=True)]
            for row in (row for group in block.groups for row in group.rows):
                for column, cell in zip(titles, row.cells, strict=True):
                    cells += 1
                    text, mark = printed.loc[(row.label, column), ["text", "mark"]]
                    assert cell.text == text
                    if (cell.mark or "") != mark:
                        astray.add((table, row.label, column))
    assert cells == 936
    assert astray == {(cell.table, cell.row, cell.column) for one in of_kind("mark") for cell in one.cells}


# Inconsistencies


def test_ece_is_below_the_gap_where_the_data_say_so():
    """With all confidences valid, the ECE is at least |mean confidence - accuracy|. Where it is less, only responses
    without a valid confidence explain it, and accuracy over all responses bounds the share of the valid ones."""
    found = {}
    for (table, row, _), cells in QUALITY.groupby(["table", "row", "dataset"], sort=False):
        if cells["dataset"].iloc[0].startswith("macro-"):
            continue
        values = dict(zip(cells["metric"], map(Fraction, cells["text"]), strict=True))
        accuracy, confidence, ece = values["accuracy"] / 100, values["mean_confidence"], values["ece"]
        error = Fraction(1, 2000)
        if ece + 3 * error < abs(confidence - accuracy):
            share = (accuracy + error) / (confidence - ece - 2 * error)
            found[table, row, cells["column"].iloc[0].partition(": ")[0]] = math.ceil(10_000 * share) / 10_000
    listed = {
        (one.cells[0].table, one.cells[0].row, one.cells[0].column.partition(": ")[0]): one.share
        for one in of_kind("ece-below-gap")
    }
    assert found == listed
    assert {method for _, method, _ in found} == {"Base + Verbal", "Verbal", "RLCR", "DCPO"}, "all state confidence"


def test_accuracies_are_shares_of_the_responses_and_halves_are_rounded_in_two_ways():
    responses = {"MATH500": 500, "AIME24": 300, "AIME25": 300, "AMC23": 400, "AMC24": 450}
    down, up = [], []
    for cell in CELLS[CELLS["metric"] == "accuracy"].itertuples():
        dataset = cell.column.partition(": ")[0]
        if dataset in responses:
            n, shown = responses[dataset], Fraction(cell.text)
            near = [Fraction(100 * k, n) for k in range(n + 1) if abs(Fraction(100 * k, n) - shown) <= Fraction(1, 20)]
            assert near, f"{cell.table}, {cell.row}, {cell.column}: no share of {n} responses is printed as {cell.text}"
            (down if max(near) - shown == Fraction(1, 20) else up).append(cell)
    down = [Place(table=cell.table, row=cell.row, column=cell.column) for cell in down]
    (listed,) = of_kind("rounding")
    assert down == [listed.cells[0]]
    assert [number(cell) for cell in listed.cells] == [Fraction("86.2"), Fraction("68.3")]


def test_the_statements_that_tables_contradict():
    times, declining, optimisers = of_kind("statement")
    assert [math.floor(math.log10(number(cell))) for cell in times.cells] == [3] * 5, "not 10^2 to 10^3"
    values = {(cell.row, cell.table, cell.column.partition(": ")[2]): number(cell) for cell in declining.cells}
    for method in ("RLCR", "DCPO"):
        assert values[method, "main_step40", "Acc."] < values[method, "main_step80", "Acc."]
        assert values[method, "main_step40", "ECE"] > values[method, "main_step80", "ECE"]
    assert values["RLCR", "main_step80", "Acc."] > values["RLCR", "main", "Acc."]
    assert values["RLCR", "main_step80", "ECE"] < values["RLCR", "main", "ECE"]
    assert {cell.row.partition(": ")[2].split()[0] for cell in optimisers.cells} == {"CoCal"}
    assert not CELLS.loc[CELLS["table"] == "hyperparameters", "row"].str.contains("PostCal").any()


# Reading


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


def test_missing_files_and_unknown_keys_are_named(tmp_path):
    folder = shutil.copytree(NUMBERS, tmp_path / "paper")
    (folder / "ood.csv").unlink()
    with pytest.raises(ContractError, match=r"ood\.csv: no such table"):
        read_published(folder)
    shutil.copy(NUMBERS / "ood.csv", folder)
    text = folder / "text.yaml"
    text.write_text(text.read_text(encoding="utf-8").replace("meaning:", "means:", 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"text\.yaml"):
        read_published(folder)
