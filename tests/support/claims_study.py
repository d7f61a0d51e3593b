"""A small study with everything from which claims are judged, for their tests."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from cocal.metrics.settings import MetricSettings
from cocal_study.cubes.cube import evaluate_cells
from cocal_study.cubes.resamples import Resamples, resamples_of
from cocal_study.evidence.claims import read_claims
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import Case, Quantity, Reader
from cocal_study.evidence.published import read_published
from cocal_study.evidence.sources import PublishedSource, StudyScope
from cocal_study.planning.costs import Cost
from coded_inputs import coded_specs
from sample_predictions import METHODS, SEEDS, sample_predictions
from sample_tables import latency
from started import ROOT

SCOPE = StudyScope(
    backbones=("tiny-a",),
    stages=(20, 40, 60),
    early_steps=(11, 12, 13, 14, 15),
    budgets=(1, 2, 3, 4, 5, 6, 7, 60),
    datasets={"MATH500": "math500"},
    layers={"tiny-a": (0, 1, 2)},
)


NUMBERS = ROOT / "config/paper"
"""Where the paper's published numbers and claims lie."""
LEDGER = read_claims(NUMBERS / "claims.yaml")
BY_ID = {claim.id: claim for claim in LEDGER}
OF_PAPER = PublishedSource(read_published(NUMBERS))
TIMED = {"dataset": "math500", "pre_ms": 5.0, "post_s": 2.0}


def study_frame() -> pd.DataFrame:
    """Predictions of all kinds of methods on one set of each domain."""
    return sample_predictions("math500", "popqa", methods=(*METHODS, "p-true", "rlcr", "dcpo"))


def study_files(frame: pd.DataFrame) -> dict[str, Any]:
    """The results that the study has computed from its predictions."""
    groups = {"macro-mathematics": ["math500"], "macro-factual": ["popqa"]}
    evaluated = evaluate_cells(frame, MetricSettings(resamples=200), groups, SEEDS)
    swept = [
        frame[frame["method"] == "cocal-binary"].assign(layer=layer, confidence=lambda rows: rows["confidence"] ** 2)
        for layer in (0, 1, 2)
    ]
    ablations = evaluate_cells(
        pd.concat(swept), MetricSettings(resamples=200), groups, SEEDS, sweep=["layer", "pooling"]
    )
    return {
        "resamples": [
            Resamples.of(resamples_of(evaluated), "main"),
            Resamples.of(resamples_of(ablations), "a", "ablations"),
        ],
        "companions": coded_specs(SCOPE.budgets, last=60),
        "predictions": [frame],
        "sampling": Cost(seconds=9, items=1, device="d"),
        "fit": Cost(seconds=3, items=1, device="d"),
        "latency": latency(time_to_confidence=[TIMED]),
    }


class Told(Reader):
    """A source that tells what a function returns."""

    def __init__(self, read: Callable[[Quantity], Estimate], variants: Callable | None = None):
        self._read, self._variants = read, variants or super().variants

    def read(self, quantity: Quantity) -> Estimate:
        return self._read(quantity)

    def variants(self, method: str, case: Case) -> Sequence[str]:
        return self._variants(method, case)
