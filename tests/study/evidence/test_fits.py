"""Other fits on the states of a finished study: what is measured, which explanation follows, and the table."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cocal import cli
from cocal_study.config.study import load_study
from cocal_study.evidence import fits
from cocal_study.evidence.fits import (
    COLUMNS,
    FEW,
    METHODS,
    OWN,
    PAPER,
    POOLINGS,
    PROBE,
    RAW,
    STANDARDISED,
    explanations,
)
from cocal_study.exhibits import fits as table
from cocal_study.exhibits.regimes import layout_of
from cocal_study.exhibits.typesetting.latex import latex

ROOT = Path(__file__).parents[3]
STUDY = load_study(ROOT / "config/config.yaml")


def rows(cocal=(0.6, 0.7, 0.72, 0.73), probe=0.75, own=0.8, study="embedded"):
    """Every arm with an AUROC of its own; those of CoCal with both poolings are given, raw ones first."""
    head, scores = (study, "tiny"), lambda auroc: (auroc, 0.9 - auroc, 0.31)
    found = [(*head, "", "", "", OWN, 0, np.nan, np.nan, *scores(own))]
    for place, pooling in enumerate(POOLINGS):
        found.append((*head, STANDARDISED, pooling, "", PROBE, 1, 23.0, 7.0, *scores(probe - 0.01 * (2 - place))))
        for method in METHODS:
            for number, (scale, updates) in enumerate(product((RAW, STANDARDISED), (FEW, PAPER))):
                auroc = cocal[number] - 0.013 * (2 - place) - 0.004 * (method == "postcal-binary")
                found.append((*head, scale, pooling, updates, method, 3, 23.0, 7.0, *scores(auroc)))
    return pd.DataFrame(found, columns=list(COLUMNS))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ("no", "no", "yes")),
        ({"cocal": (0.6, 0.745, 0.72, 0.73)}, ("yes", "no", "yes")),
        ({"cocal": (0.6, 0.7, 0.741, 0.73), "own": 0.7}, ("no", "yes", "no")),
        ({"cocal": (0.741, 0.76, 0.76, 0.76)}, ("no", "no", "yes")),
        ({"cocal": (0.6, 0.741, 0.739, 0.73)}, ("yes", "no", "yes")),
    ],
)
def test_the_explanation_follows_from_the_rule(given, said):
    assert [line.rpartition(": ")[2] for line in explanations(rows(**given))] == list(said)


def test_the_table_has_every_fit_in_its_place():
    both = pd.concat([rows(), rows(cocal=(0.65, 0.66, 0.67, 0.68), own=0.55, study="laptop")])
    numbers = table.prepare(layout_of(STUDY), both)
    made = table.grid(numbers, layout_of(STUDY))
    (block,) = made.blocks
    assert [len(group.rows) for group in block.groups] == [4, 5, 4, 5]
    printed = {
        (group.title, row.label): [cell.text for cell in row.cells] for group in block.groups for row in group.rows
    }
    cells = printed["Laptop study, raw states", "CoCal (binary), the paper's updates"]
    assert cells == ["0.634", "0.266", "0.647", "0.253", "0.660", "0.240"]
    assert printed["Embedded study, standardised states", "Linear probe"][-2:] == ["0.750", "0.150"]
    assert "embedded study 0.800 and 0.100; laptop study 0.550 and 0.350" in made.caption
    assert latex(made).count("Linear probe") == 2


@pytest.mark.slow
def test_the_study_s_own_fit_is_found_again_on_its_states(smoke, tmp_path, monkeypatch):
    """Of the arm that is the study's own: the companion of `fit.py` and the plain one agree; and files keep others."""
    monkeypatch.setattr(fits, "PAPER_UPDATES", 3)
    file = tmp_path / "fits.csv"
    words = ["fits", "--study", ROOT / "config/smoke.yaml", "--directory", smoke, "--seeds", 1, "--output", file]
    assert cli.main([*map(str, words)]) == 0
    once = pd.read_csv(file, keep_default_na=False)
    assert len(once) == 1 + 3 + 2 * 3 * 4
    own = once[(once["scale"] == RAW) & (once["pooling"] == "last+mean") & (once["updates"] == FEW)]
    assert set(own["method"]) == set(METHODS)
    assert (once.loc[once["method"] != OWN, "deviation"].astype(float) > 0).all()
    pd.concat([once.assign(study="other"), once.head(2)]).to_csv(file, index=False)
    assert cli.main([*map(str, words), "--overwrite"]) == 0
    assert pd.read_csv(file)["study"].value_counts().to_dict() == {"other": 28, "smoke": 28}
