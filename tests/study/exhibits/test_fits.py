"""Other learners of the responses of a finished study: what `benchmarks/fits.py` measures, which explanation follows,
and the table."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest

from cocal_study.exhibits import fits as table
from cocal_study.exhibits.fits import (
    BOTH,
    LEARNERS,
    LENGTH,
    MEMBER,
    OWN,
    PROBE,
    SCALED,
    SCORES,
    TOGETHER,
    TOKENS,
    UPDATED,
)
from cocal_study.exhibits.regimes import layout_of
from cocal_study.exhibits.typesetting.latex import latex
from planned_jobs import study_of
from started import ROOT, script

STUDY = study_of("config")
FITS = (MEMBER, TOGETHER, UPDATED, SCALED, PROBE, TOKENS, BOTH)
COLUMNS = ["study", "backbone", "replicate", "sampling", "learner", "fit", "seeds", *SCORES]


@pytest.fixture
def fits(monkeypatch):
    """The script, which imports others of its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("fits")


def rows(cocal=(0.6, 0.61, 0.7, 0.72), probe=0.75, own=0.8, study="embedded", replicate=0):
    """Every fit with an AUROC of its own; CoCal's member, its seeds together, with more updates, and standardised."""
    found = []
    for place, sampling in enumerate(("temperature 1", "temperature 0.7")):

        def add(learner, fit, auroc, sampling=sampling, place=place):
            auroc += 0.02 * place + 0.004 * replicate
            found.append((study, "tiny", replicate, sampling, learner, fit, 3, auroc, auroc - 0.2, 0.9 - auroc, 0.31))

        add("", OWN, own)
        add("", LENGTH, 0.55)
        for number, learner in enumerate(LEARNERS):
            for fit, auroc in zip(FITS, (*cocal, probe, 0.83, 0.87), strict=True):
                add(learner, fit, auroc - 0.003 * number)
    return pd.DataFrame(found, columns=COLUMNS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no no no yes"),
        ({"cocal": (0.6, 0.745, 0.7, 0.72)}, "yes no no yes"),
        ({"cocal": (0.6, 0.61, 0.745, 0.72)}, "no yes no yes"),
        ({"cocal": (0.6, 0.61, 0.7, 0.741), "own": 0.7}, "no no yes no"),
        ({"cocal": (0.741, 0.76, 0.77, 0.78)}, "no no no yes"),
        ({"cocal": (0.6, 0.739, 0.741, 0.73)}, "no yes no yes"),
    ],
)
def test_the_explanation_follows_from_the_rule(given, said):
    lines = script("docs/gallery_fits.py").explanations(rows(**given))
    assert [line.rpartition(": ")[2] for line in lines] == said.split()


def test_the_table_has_every_fit_in_its_place():
    both = pd.concat([rows(), rows(replicate=3), rows(cocal=(0.65, 0.66, 0.67, 0.68), own=0.55, study="laptop")])
    numbers = table.prepare(layout_of(STUDY), both)
    made = table.grid(numbers, layout_of(STUDY))
    (block,) = made.blocks
    assert [len(lines) for _, lines in block.groups] == [2, 7, 7, 2, 7, 7]
    printed = {(title, label): cells for title, lines in block.groups for label, cells in lines}
    name = "Embedded study, 2 replicates: learnt from PostCal's responses"
    cells = printed[name, "One seed, standardised states"]
    assert cells == [
        "0.723 ± 0.008",
        "0.523 ± 0.008",
        "0.177 ± 0.008",
        "0.743 ± 0.008",
        "0.543 ± 0.008",
        "0.157 ± 0.008",
    ]
    assert printed["Laptop study: nothing learnt", "Token probability as it is"][:3] == ["0.550", "0.350", "0.350"]
    assert latex(made).count("Linear probe of both") == 4


def test_token_features_are_those_of_the_log_probabilities(fits):
    given = pd.DataFrame({"logprobs": [np.log([0.5, 0.25]), np.log([0.9, 0.1, 0.3])], "length": [2, 3]})
    expected = [
        [np.log(0.125) / 2, 0.375, np.log(0.25), np.log(2)],
        [np.log(0.027) / 3, 1.3 / 3, np.log(0.1), np.log(3)],
    ]
    np.testing.assert_allclose(fits.token_features(given), expected)


def test_a_probe_finds_what_its_inputs_tell(fits):
    draw = np.random.default_rng(5)
    inputs, question = draw.normal(size=(600, 4)), np.repeat(np.arange(100), 6)
    correct = draw.random(600) < 1 / (1 + np.exp(-3 * inputs[:, 2]))
    found = fits.probed(inputs, correct, question)(np.array([[0.0, 0, 1, 0], [0, 0, -1, 0], [2, 0, 0, 0]]))
    assert found[0] > 0.9
    assert found[1] < 0.1
    assert abs(found[2] - 0.5) < 0.2


@pytest.mark.slow
def test_what_cocal_fit_chooses_reads_states_and_probabilities(fits):
    """Right where the second state and the mean probability of the tokens say so together."""
    draw = np.random.default_rng(5)
    states, tokens = draw.normal(size=(400, 3)).astype(np.float32), draw.normal(size=(400, 4))
    correct = states[:, 1] + tokens[:, 1] > 0
    lesson = fits.Responses(states, tokens, correct, np.repeat(np.arange(100), 4).astype(str))
    confidences = fits.chosen(lesson)
    rows = np.array([[0, 2, 0], [0, -2, 0], [2, 0, 0]], dtype=np.float32)
    asked = fits.Responses(rows, np.zeros((3, 4)), np.zeros(3), np.zeros(3))
    found = confidences(asked)
    assert found[0] > found[2] > found[1]
    more = asked._replace(tokens=np.array([[0, 3, 0, 0], [0, 3, 0, 0], [0, 3, 0, 0]]))
    assert (confidences(more) > found).all()
    length = asked._replace(tokens=np.array([[0, 0, 0, 9.0]] * 3))
    np.testing.assert_array_equal(confidences(length), found)


@pytest.mark.slow
def test_the_stored_members_have_the_numbers_of_the_study(fits, smoke, tmp_path, monkeypatch):
    """The member's numbers are those of the study's own cube; and files keep the rows of other replicates."""
    monkeypatch.setattr(fits, "PAPER_UPDATES", 3)
    file = tmp_path / "fits.csv"
    words = ["fits.py", "--study", ROOT / "config/smoke.yaml", "--directory", smoke, "--seeds", 1, "--output", file]
    monkeypatch.setattr(sys, "argv", [*map(str, words)])
    fits.main()
    once = pd.read_csv(file, keep_default_na=False)
    assert once.columns.tolist() == COLUMNS
    assert len(once) == 2 * (2 + 2 * len(FITS))
    main = pd.read_csv(smoke / "results/tables/main.csv").set_index(["dataset", "method", "metric"])["value"]
    own = once[once["sampling"] == "temperature 0.7"].set_index(["learner", "fit"])
    for learner in LEARNERS:
        for metric in ("auroc", "ece"):
            expected = main["macro-mathematics", learner, metric]
            assert float(own.loc[(learner, MEMBER), metric]) == pytest.approx(expected, abs=1e-9, nan_ok=True)
    fits.write_beside(file, once.assign(replicate=4), ["study", "replicate"])
    fits.write_beside(file, once.assign(replicate=4), ["study", "replicate"])
    assert pd.read_csv(file)["replicate"].value_counts().to_dict() == {0: len(once), 4: len(once)}
