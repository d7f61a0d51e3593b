"""The composition figure: error shares of the right companions, mean confidence, the line of the task accuracy."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from cocal.companion.spec import CompanionSpec
from cocal.config.evaluation import CompanionSettings
from cocal.errors import ContractError
from cocal.exhibits import composition
from cocal.exhibits.base.inputs import read_inputs
from cocal.exhibits.composition import error_shares, plot_composition, plot_mean_confidence
from cocal.exhibits.drawing.style import paper_style
from cocal.store import write_dataset
from drawn_texts import assert_texts_apart
from exhibits_by_name import made_twice
from sample_predictions import sweep_cube

DATASETS = ("amc23", "amc24")
METHODS = ("postcal-binary", "cocal-binary")
BUDGETS = (1, 5)
SHARES = {("rollouts", 1): 0.7, ("rollouts", 5): 0.6, ("resampled", 1): 0.4, ("resampled", 5): 0.45}


@pytest.fixture(scope="module")
def cube():
    return sweep_cube(*DATASETS, methods=METHODS, source_steps=BUDGETS)


def specs_of(shares) -> list[CompanionSpec]:
    """Specs of companions, not in the order of the budgets."""
    return [
        CompanionSpec(
            settings=CompanionSettings(widths=(4,), dropout=(0.1,)),
            inputs=8,
            layer=1,
            poolings=("last", "mean"),
            steps=steps,
            validation_steps=BUDGETS[-1],
            order="chronological" if kind == "rollouts" else "shuffled",
            shuffle_seed=None if kind == "rollouts" else 42,
            training_responses=90,
            validation_responses=10,
            training_error_share=share,
            best_pass=(1,) * 10,
        )
        for (kind, steps), share in reversed(shares.items())
    ]


@pytest.fixture
def folders(tmp_path):
    """Companions' folders, not named after what made them."""
    made = []
    for spec in specs_of(SHARES):
        folder = tmp_path / f"companions-{len(made)}"
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps({"spec": spec.model_dump(mode="json"), "provenance": {}}))
        made.append(folder)
    return made


LAYOUT = composition.Layout(
    study="embedded",
    caption="Tiny policies.",
    backbone="tiny-a",
    backbone_label="Tiny A",
    methods=METHODS,
    steps=BUDGETS,
    step=60,
)


def read_error_shares(folders) -> dict:
    return error_shares(read_inputs({"companions": folders})["companions"])


def prepare(cube, shares=SHARES) -> pd.DataFrame:
    return composition.prepare(LAYOUT, cube, specs_of(shares))


def test_cocal_is_told_from_postcal_by_the_order_of_training(folders):
    assert read_error_shares(folders) == SHARES


def test_a_second_folder_of_the_same_companions_is_refused(folders):
    with pytest.raises(ContractError, match="two folders hold companions of rollouts, 1 steps"):
        read_error_shares([*folders, folders[-1]])


def test_companions_on_prompts_are_refused(folders):
    text = (folders[-1] / "spec.json").read_text()
    spec = json.loads(text)
    spec["spec"]["settings"]["targets"] = ["question"]
    (folders[-1] / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(ContractError, match=r"\(rollouts, 1 steps\): they learnt from prompts"):
        read_error_shares(folders)


def test_broken_and_missing_specs_are_named(tmp_path, folders):
    with pytest.raises(ContractError, match=r"absent/spec\.json: no such file"):
        read_error_shares([tmp_path / "absent"])
    (folders[0] / "spec.json").write_text('{"spec": {"order": "shuffled", "steps": 1}}')
    with pytest.raises(ContractError, match=r"spec\.json: contains no valid spec(.|\n)*training_error_share"):
        read_error_shares(folders)


def test_an_absent_share_is_named(cube):
    shares = {key: share for key, share in SHARES.items() if key != ("resampled", 5)}
    with pytest.raises(ContractError, match=r"none of postcal-binary \(resampled, 5 steps\)"):
        prepare(cube, shares)


def test_other_test_responses_are_refused(cube):
    other = (cube["method"] == "postcal-binary") & (cube["metric"] == "accuracy")
    moved = cube.assign(value=cube["value"].where(~other, cube["value"] + 0.01))
    with pytest.raises(ContractError, match="same responses"):
        prepare(moved)


def test_the_panels_show_percent_and_the_task_accuracy(cube):
    by_metric = dict(iter(prepare(cube).groupby("metric")))
    left, right = Figure().subplots(1, 2)
    plot_composition(left, by_metric["training_error_share"])
    postcal, cocal = (box.lines[0].get_ydata() for box in left.containers)
    assert postcal == pytest.approx([40, 45])
    assert cocal == pytest.approx([70, 60])
    plot_mean_confidence(right, by_metric["mean_confidence"], 0.6)
    dashed = [line for line in right.lines if list(line.get_ydata()) == [0.6, 0.6]]
    assert len(dashed) == 1
    assert dashed[0].get_linestyle() == "--"


def test_nothing_overlaps_or_is_clipped(cube):
    with paper_style():
        assert_texts_apart(composition.draw(prepare(cube), LAYOUT))


def test_the_command_writes_the_same_bytes_again(tmp_path, cube, folders):
    write_dataset(tmp_path / "m.nc", cube, {})
    *_, csv = made_twice("composition", tmp_path, LAYOUT, metrics=tmp_path / "m.nc", companions=folders)
    assert len(csv.splitlines()) == 1 + 3 * len(METHODS) * len(BUDGETS)
