"""The table of the paper's conditions beside those of a study."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cocal.config import load_study
from cocal.config.evaluation import MetricSettings
from cocal.errors import ContractError
from cocal.evidence.published import MACRO, METRICS, read_published
from cocal.exhibits import conditions
from cocal.exhibits.typesetting.latex import latex
from cocal.metrics.cells import policy_cell
from cocal.metrics.cube import metric_cube
from coded_inputs import coded_specs
from exhibits_by_name import exhibits_by_name
from sample_predictions import sample_predictions

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("base-verbal", "verbal", "token-probability", "rlcr", "dcpo", "cocal-binary")


@pytest.fixture(scope="module")
def published():
    return read_published(ROOT / "config/paper")


@pytest.fixture(scope="module")
def layout():
    """That of the paper study, with the names of the sample."""
    found = exhibits_by_name(load_study(ROOT / "config/paper.yaml"))["conditions"].layout
    return found.model_copy(update={"backbone": "tiny-a"})


@pytest.fixture(scope="module")
def cube(layout, published):
    """A study that measures what the paper publishes."""
    sets = {name: [one.name for one in domain] for name, domain in layout.domains.items()}
    names = [name for group in sets.values() for name in group]
    frame = sample_predictions(*names, methods=METHODS, step=layout.step)
    cube = metric_cube(frame, MetricSettings(resamples=0), sets)
    cells = published.cells[published.cells["table"].isin(["main", "ood"]) & published.cells["method"].isin(METHODS)]
    for cell in cells.itertuples():
        algorithm, step = policy_cell(cell.method, layout.step)
        where = {"backbone": "tiny-a", "algorithm": algorithm, "step": step}
        where |= {"dataset": cell.dataset, "method": cell.method, "metric": cell.metric, "seed": "mean"}
        cube["value"].loc[where] = cell.value / (100 if cell.metric == "accuracy" else 1)
    return cube


def specs(training=152_065, validation=16_968):
    counts = {"training_responses": training, "validation_responses": validation}
    return [spec.model_copy(update=counts if spec.order == "shuffled" else {}) for spec in coded_specs([120])]


@pytest.fixture(scope="module")
def predictions(layout):
    """Of RLCR's confidences on AMC24 99 of 100 lie in the outermost bins, a third of them in the lowest."""
    sets = [one.name for domain in layout.domains.values() for one in domain]
    frame = sample_predictions(*sets, methods=METHODS, step=layout.step)
    places = np.tile([0.05] * 33 + [1.0] * 66 + [0.5], 1 + len(frame) // 100)[: len(frame)]
    polarised = frame["method"].eq("rlcr") & frame["dataset"].eq("amc24")
    repeated = pd.concat([frame[polarised]] * 5).iloc[:100].assign(confidence=places[:100])
    return [frame[~polarised], repeated]


def test_a_study_with_the_papers_numbers_has_its_conditions(layout, cube, predictions, published):
    numbers = conditions.prepare(layout, cube, specs(), predictions, published)
    stated = numbers.dropna(subset="paper")
    assert len(stated) == 6 + 6 + 1 + 1 + 6 + 1 + 1 + 3 + 1 + 2 + 1 + 1  # with macro averages, gaps, counts, steps
    np.testing.assert_allclose(stated["ratio"], 1, atol=1e-12)
    places = stated["place"]
    assert places.iloc[0] == "tab:main_iter119, Base + Verbal, MATH500: Acc."
    assert not places.eq("").any()
    gaps = numbers[numbers["metric"] == "gap"].set_index("of")["value"] * 100
    np.testing.assert_allclose(gaps[["RLCR", "DCPO"]], [-9.9, -5.0])  # section 6.1
    text = latex(conditions.grid(numbers, layout))
    for printed in (r"MATH500 & 79.8 & 79.8", "31.2 & 31.2", "$-$9.9 & $-$9.9", "152,065 & 152,065"):
        assert f"{printed} & 1.00" in text


def test_the_outermost_bins_are_counted_by_set(layout, cube, predictions, published):
    numbers = conditions.prepare(layout, cube, specs(), predictions, published).set_index(["condition", "of"])
    either = numbers.loc["Stated confidences in either of the two (%)"].loc["RLCR, AMC24"]
    assert (either["value"], either["paper"]) == (0.99, 0.99)
    table = pd.concat(predictions)
    sets = [one.name for one in layout.domains["macro-mathematics"]]
    for condition, inside in (("lowest", lambda c: c <= 0.1), ("highest", lambda c: c > 0.9)):
        of_sets = [table[table["method"].eq("rlcr") & table["dataset"].eq(name)]["confidence"] for name in sets]
        expected = np.mean([inside(confidence).mean() for confidence in of_sets])
        found = numbers.loc[f"Stated confidences in the {condition} bin (%)", "value"]
        assert found["RLCR"] == pytest.approx(expected)
        assert list(found.index) == ["Base + Verbal", "Verbal", "RLCR", "DCPO"]
    other = layout.model_copy(update={"shown": layout.shown.model_copy(update={"name": "aime24", "label": "AIME24"})})
    numbers = conditions.prepare(other, cube, specs(), predictions, published).set_index("of")
    assert np.isnan(numbers.loc["RLCR, AIME24", "paper"])


def test_conditions_stand_beside_those_of_the_set_that_they_mirror(layout, cube, predictions, published):
    swapped = layout.model_copy(update={"mirrors": {"aime24": "AIME25"}})
    numbers = conditions.prepare(swapped, cube, specs(), predictions, published).set_index(["condition", "of"])
    before = numbers.loc["Accuracy before training (%)"]
    assert before.loc["AIME24", "paper"] == pytest.approx(0.187)
    assert before.loc["AIME24", "ratio"] == pytest.approx(0.25 / 0.187)
    assert before.loc["MATH500", ["paper", "ratio"]].isna().all()
    assert before.loc["Macro average", "ratio"] == pytest.approx(1)


def test_wrong_inputs_are_named(layout, cube, predictions, published):
    with pytest.raises(ContractError, match="retain more than the 245760 responses"):
        conditions.prepare(layout, cube, specs(training=300_000), predictions, published)
    other = layout.model_copy(update={"mirrors": {"aime24": "AIME26"}})
    with pytest.raises(ContractError, match=r"config/paper/main\.csv: no value in row 'Base \+ Verbal'.*'AIME26: Acc"):
        conditions.prepare(other, cube, specs(), predictions, published)


def test_every_mirror_is_a_column_of_the_paper(published):
    columns = set(published.cells["column"])
    for name in ("config", "paper"):
        study = load_study(ROOT / f"config/{name}.yaml")
        assert set(study.reports.mirrors) == {
            set_ for domain in ("mathematics", "factual") for set_ in study.evaluation_sets(domain)
        }
        assert all(f"{title}: Acc." in columns for title in study.reports.mirrors.values())
    assert MACRO in {column.partition(":")[0] for column in columns}
    assert METRICS["Acc."] == "accuracy"
