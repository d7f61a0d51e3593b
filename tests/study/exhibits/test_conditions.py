"""The table of the paper's conditions beside those of a study."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import csv_text
from cocal.store import write_text
from cocal_study.cubes.cells import policy_cell
from cocal_study.evidence.published import read_published
from cocal_study.exhibits import conditions
from cocal_study.planning.regimes import read_regimes
from cocal_study.planning.replicates import refusals
from coded_inputs import coded_questions, coded_rollouts, coded_specs
from exhibits_by_name import exhibits_by_name
from golden import assert_golden
from planned_jobs import study_of
from sample_predictions import metric_cube, sample_predictions
from started import ROOT

METHODS = ("base-verbal", "token-probability", "rlcr", "dcpo", "self-consistency", "p-true", "verbal")


@pytest.fixture(scope="module")
def published():
    return read_published(ROOT / "config/paper")


@pytest.fixture(scope="module")
def layout():
    """That of the paper study, with the names of the sample, and no number that is the paper's."""
    found = exhibits_by_name(study_of("paper"))["conditions"].layout
    sampling = {name: 0.95 * value for name, value in found.sampling.items()}
    return found.model_copy(update={"backbone": "tiny-a", "step": 110, "sampling": sampling})


@pytest.fixture(scope="module")
def cube(layout, published):
    """A study that measures 0.95 of what the paper publishes."""
    sets = {name: [one.name for one in domain] for name, domain in layout.domains.items()}
    names = [name for group in sets.values() for name in group]
    frame = sample_predictions(*names, methods=METHODS, step=layout.step)
    cube = metric_cube(frame, MetricSettings(resamples=0), sets)
    cells = published.cells[published.cells["table"].isin(["main", "ood"]) & published.cells["method"].isin(METHODS)]
    for cell in cells.itertuples():
        algorithm, step = policy_cell(cell.method, layout.step)
        where = {"backbone": "tiny-a", "algorithm": algorithm, "step": step}
        where |= {"dataset": cell.dataset, "method": cell.method, "metric": cell.metric, "seed": "mean"}
        cube["value"].loc[where] = 0.95 * cell.value / (100 if cell.metric == "accuracy" else 1)
    return cube


def spec(training=150_000, validation=16_000):
    counts = {"training_responses": training, "validation_responses": validation}
    return coded_specs([120])[1].model_copy(update=counts)


@pytest.fixture(scope="module")
def inputs(cube, published):
    found = {"metrics": cube, "rollouts": [*coded_rollouts().values()], "questions": coded_questions()}
    return found | {"published": published, "companions": spec(), "replayed": spec()}


def test_numbers_and_bounds_are_those_that_were_counted(layout, inputs):
    """Of a study whose ratios to the paper are 0.95, but for the sizes of its sets and what companions learnt. The file
    was compared with shares of the rollouts by algorithm, stage and level, and with bounds of what is required: half
    and three halves of the paper's macro averages over mathematics, of its share of cut responses and of its AUROCs
    above chance, and least shares of valid confidences and of right rollouts, which the paper does not state."""
    numbers = conditions.prepare(layout, **inputs)
    assert numbers.loc[numbers["matched"] != "required", ["least", "greatest"]].isna().all(axis=None)
    lines = numbers.to_csv(index=False, float_format="%.6g").splitlines()
    assert_golden(Path(__file__).parent / "golden/conditions_counted.txt", lines)


def test_a_wrong_answer_with_an_unlikely_token_is_counted(layout, inputs):
    sure, doubtful, edge = (np.log([0.9, one]) for one in (0.8, 0.04, 0.051))
    one = pd.DataFrame({"correct": [False, False, True, False], "logprobs": [sure, doubtful, doubtful, edge]})
    other = pd.DataFrame({"correct": [True], "logprobs": [doubtful]})
    found = conditions.prepare(layout, **inputs, answered=[one, other]).set_index("condition")
    assert found.loc["Wrong answers with a token below 0.05 (%)", "value"] == pytest.approx(1 / 3)
    assert "Wrong answers with a token below 0.05 (%)" not in set(conditions.prepare(layout, **inputs)["condition"])


def test_a_replicate_is_judged_by_the_table_as_it_is_written(layout, inputs, tmp_path):
    def written(**changes):
        write_text(tmp_path / "tables/conditions.csv", csv_text(conditions.prepare(layout, **inputs | changes)))
        return refusals(tmp_path)

    assert written() == ()
    grpo, rlcr, dcpo = inputs["rollouts"]
    (reason,) = written(rollouts=[grpo, rlcr, dcpo.assign(correct=dcpo["correct"] & (dcpo["step"] > 70))])
    assert reason.startswith("Right among the rollouts that are kept, DCPO: 0.3")
    (reason,) = written(companions=spec(training=110_000))
    assert reason.startswith("Cut at the length limit, Responses of GRPO's final policy (PostCal): 0.48")


def test_a_study_without_postcal_or_with_imported_policies_shows_what_it_has(layout, inputs):
    study = study_of("paper")
    fewer = study.estimators.model_copy(update={"methods": METHODS})
    imported = {"imported": {name: SimpleNamespace(stages={}) for name in ("grpo", "rlcr")}}
    main = study.backbones["qwen3-8b"].model_copy(update=imported)
    changed = {"estimators": fewer, "backbones": {**study.backbones, "qwen3-8b": main}}
    (found,) = conditions.of_study(study.model_copy(update=changed), {})
    assert found.layout.algorithms == ("grpo", "dcpo")
    assert found.inputs["rollouts"] == [f"results/rollouts/qwen3-8b/{name}" for name in ("grpo", "dcpo")]
    assert "companions" not in found.inputs
    shown = layout.model_copy(update={"algorithms": found.layout.algorithms})
    given = inputs | {"rollouts": inputs["rollouts"][::2], "companions": None}
    numbers = conditions.prepare(shown, **given)
    assert not numbers["of"].str.contains("RLCR|PostCal").any()
    dcpo = numbers[numbers["of"] == "DCPO"].set_index("condition")["value"]
    assert dcpo["Responses kept"] == (~coded_rollouts()["dcpo"]["truncated"]).sum()


def test_conditions_stand_beside_those_of_the_set_that_they_mirror(layout, inputs):
    swapped = layout.model_copy(update={"mirrors": {"aime24": "AIME25"}})
    numbers = conditions.prepare(swapped, **inputs).set_index(["condition", "of"])
    before = numbers.loc["Accuracy before training (%)"]
    assert before.loc["AIME24", "paper"] == pytest.approx(0.187)
    assert before.loc["AIME24", "ratio"] == pytest.approx(0.95 * 0.25 / 0.187)
    assert before.loc["MATH500", ["paper", "ratio"]].isna().all()
    assert before.loc["Macro average", "ratio"] == pytest.approx(0.95)
    other = layout.model_copy(update={"mirrors": {"aime24": "AIME26"}})
    with pytest.raises(ContractError, match=r"config/paper/main\.csv: no value in row 'Base \+ Verbal'.*'AIME26: Acc"):
        conditions.prepare(other, **inputs)


def test_every_mirror_is_a_column_of_the_paper(published):
    """Its own column: a set of another year or size has other numbers."""
    factual = {"squad": "SQuAD", "webq": "WebQuestions", "cwq": "ComplexWebQuestions", "musique": "MuSiQue"}
    titles = {one: one.upper() for one in ("math500", "aime24", "aime25", "amc23", "amc24")} | factual
    titles["popqa"] = "PopQA"
    assert {f"{title}: Acc." for title in titles.values()} <= {*published.cells["column"]}
    for name in ("config", "laptop", "card", "paper", "single-gpu"):
        study = study_of(name)
        sets = {one for domain in ("mathematics", "factual") for one in study.evaluation_sets(domain)}
        assert {*study.reports.mirrors} == sets
        assert {one.removeprefix("syn-"): title for one, title in study.reports.mirrors.items()} == titles
        assert study.reports.mirrors[study.reports.reliability_dataset] == "AMC24", "that of the paper's figure"
        if name in ("paper", "single-gpu"):
            given = {one: study.question_sets.datasets[one] for one in titles}
            assert {one: (found.label, found.source.name) for one, found in given.items()} == {
                one: (title, one) for one, title in titles.items()
            }


def test_the_accuracy_under_each_sampling_is_that_of_the_regimes(layout, inputs):
    """A mean over replicates of one policy's accuracy, whatever the number of its methods."""
    axis = next(one for one in read_regimes(ROOT / "config/regimes.yaml").axes if one.name == conditions.SAMPLING)
    rows = [
        (name, level.name, replicate, method, 0.5 + 0.1 * place + 0.02 * replicate**2)
        for name in (conditions.SAMPLING, "Companion")
        for place, level in enumerate(axis.levels)
        for replicate, method in ((1, "cocal-binary"), (1, "postcal-binary"), (2, "cocal-binary"))
    ]
    regimes = pd.DataFrame(rows, columns=["axis", "level", "replicate", "method", "accuracy"])
    numbers = conditions.prepare(layout, **inputs, regimes=regimes)
    shown = numbers[(numbers["condition"] == conditions.SAMPLING) & (numbers["metric"] == "share")]
    assert dict(zip(shown["of"], shown["value"], strict=True)) == pytest.approx(
        {"Accuracy (%), as rollouts": 0.55, "Accuracy (%), without penalty": 0.65, "Accuracy (%), the paper's": 0.75}
    )
    assert not conditions.prepare(layout, **inputs)["of"].str.startswith("Accuracy (%),").any()
