"""The composition figure: error shares of the right companions."""

import pandas as pd
import pytest

from cocal.companion.spec import CompanionSpec
from cocal_study.exhibits import composition
from coded_inputs import coded_specs
from sample_predictions import sweep_cube
from sample_tables import curves_layout

DATASETS = ("amc23", "amc24")
METHODS = ("postcal-binary", "cocal-binary")
BUDGETS = (1, 5)
SHARES = {("rollouts", 1): 0.7, ("rollouts", 5): 0.6, ("resampled", 1): 0.4, ("resampled", 5): 0.45}


@pytest.fixture(scope="module")
def cube():
    return sweep_cube(*DATASETS, methods=METHODS, source_steps=BUDGETS)


def specs_of(shares) -> list[CompanionSpec]:
    """Specs of companions, not in the order of the budgets."""
    known = {(spec.order, spec.steps): spec for spec in coded_specs(BUDGETS, last=BUDGETS[-1])}
    orders = {"rollouts": "chronological", "resampled": "shuffled"}
    return [
        known[orders[kind], steps].model_copy(update={"training_error_share": share})
        for (kind, steps), share in reversed(shares.items())
    ]


LAYOUT = curves_layout(METHODS, BUDGETS, step=60)


def prepare(cube, shares=SHARES) -> pd.DataFrame:
    return composition.prepare(LAYOUT, cube, specs_of(shares))


def test_cocal_is_told_from_postcal_by_the_order_of_training(cube):
    numbers = prepare(cube)
    shown = numbers[numbers["metric"] == "training_error_share"]
    experience = {"cocal-binary": "rollouts", "postcal-binary": "resampled"}
    assert {(experience[row.method], row.source_step): row.value for row in shown.itertuples()} == SHARES
