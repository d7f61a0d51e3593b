"""What a study knows: the cells, counts and times that stand for the paper's."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from claims_study import SCOPE as SMALL
from claims_study import study_files, study_frame
from cocal_study.cubes.resamples import Key
from cocal_study.evidence.predicates import Case, NotAssessableError, Quantity
from cocal_study.evidence.sources import StudyScope, StudySource
from cocal_study.exhibits.base.ledger import claims_layout
from cocal_study.planning.costs import Cost
from coded_inputs import coded_resamples, coded_specs
from planned_jobs import study_of
from sample_tables import latency

SCOPE = StudyScope(
    backbones=("tiny-a", "tiny-b"),
    stages=(20, 45, 60),
    early_steps=(3, 6, 9, 12, 15),
    budgets=(1, 4, 7, 10, 13, 16, 19, 60),
    datasets={"AMC23": "sums", "AMC24": "popqa"},
    layers={"tiny-a": (0, 1, 2, 3, 7), "tiny-b": (0, 2, 4, 6, 8, 10)},
)
SETS = ("sums", "popqa", "macro-mathematics", "macro-factual")
METHODS = {"base-verbal": "base", "rlcr": "rlcr", "cocal-on-dcpo": "dcpo", "cocal-binary": "grpo"}
READ = pd.read_csv(Path(__file__).with_name("sources_cells.csv"), keep_default_na=False).set_index(["wanted", "place"])
"""What is asked in the paper's words and steps, and the cell of this study that answers."""


@pytest.fixture(scope="module")
def files() -> dict:
    """Cells of all comparisons of two backbones, each with a number of its own."""

    def of(backbone, comparison, sources=(-1,), states=((-1, ""),)):
        keys = [
            Key(method, algorithm, step, dataset, source, layer, pooling)
            for method, algorithm in METHODS.items()
            for step in (0, 20, 45, 60)
            for dataset in SETS
            for source in sources
            for layer, pooling in states
        ]
        return coded_resamples(backbone, METHODS, keys, comparison)

    resamples = [of("tiny-a", "cross-policy"), of("tiny-a", "sweep", (3, 6, 9, 12, 15, 20, 45, 60))]
    resamples += [of("tiny-a", "budgets", SCOPE.budgets), of("tiny-a", "main"), of("tiny-b", "main")]
    for name, layers in SCOPE.layers.items():
        states = [(layer, pooling) for layer in layers for pooling in ("last", "mean", "last+mean")]
        resamples.append(of(name, "ablations", states=states))
    first = study_frame().assign(backbone="tiny-a")
    second = first.assign(backbone="tiny-b", confidence=first["confidence"] ** 3)
    return {
        "resamples": resamples,
        "companions": coded_specs(SCOPE.budgets, last=60),
        "predictions": [first, second],
        "sampling": Cost(seconds=9, items=1, device="d"),
        "fit": Cost(seconds=3, items=1, device="d"),
        "latency": latency(time_to_confidence=[{"dataset": "sums", "pre_ms": 7, "post_s": 3}]),
    }


def quantity(method: str, metric: str = "ece", **case) -> Quantity:
    fields = {"backbone": "first", "dataset": "macro-mathematics", "step": 120, "learnt_from": None}
    return Quantity(metric, method, Case(**(fields | {"comparison": "main"} | case)))


@pytest.mark.parametrize(("wanted", "place"), [*READ.index])
def test_a_quantity_is_read_from_its_own_cell(files, wanted, place):
    key = Key(**READ.loc[(wanted, place)])
    method, step, *words = wanted.split()
    case = dict(zip(("dataset", "backbone", "comparison", "learnt_from"), words, strict=False)) | {"step": int(step)}
    case |= {"learnt_from": int(case["learnt_from"])} if "learnt_from" in case else {}
    (found,) = (one for one in files["resamples"] if f"{one.backbone} {one.comparison}" == place)
    for column, metric in enumerate(("accuracy", "mean_confidence", "ece", "auroc")):
        value = found.data["value"].to_numpy()[found.places[key], column]
        assert StudySource(SCOPE, **files).read(quantity(method, metric, **case)).value == value


def test_counts_shares_and_times_are_those_of_their_companions_sets_and_backbones(files):
    source, ours = StudySource(SCOPE, **files), coded_specs(SCOPE.budgets, last=60)
    for place, learnt_from in enumerate((1, 2, 5, 10, 20, 40, 80, 120)):
        for shift, method in ((0, "cocal-binary"), (8, "postcal-binary")):
            spec, case = ours[shift + place], {"comparison": "budgets", "learnt_from": learnt_from}
            assert source.read(quantity(method, "error_share", **case)).value == spec.training_error_share
    assert source.read(quantity("postcal-binary", "error_share")).value == ours[-1].training_error_share
    rows = study_frame().query("method == 'rlcr' and dataset == 'popqa'")["confidence"]
    for backbone, of_backbone in (("first", rows), ("second", rows**3)):
        expected = {
            "extreme_share": ((of_backbone <= 0.1) | (of_backbone > 0.9)).mean(),
            "high_share": (of_backbone > 0.8).mean(),
            "used_bins": len(set(np.ceil(10 * of_backbone).clip(lower=1))) / 10,
        }
        for metric, value in expected.items():
            found = source.read(quantity("rlcr", metric, dataset="AMC24", backbone=backbone, step=120))
            assert found.value == pytest.approx(value), metric
    times = {"pre_seconds": 0.007, "post_seconds": 3, "generation_seconds": 0.372}
    times |= {"prediction_seconds": 1.99e-4, "sampling_seconds": 9, "fit_seconds": 3}
    for metric, seconds in times.items():
        assert source.read(quantity("cocal-binary", metric, dataset="AMC23")).value == pytest.approx(seconds), metric


def test_early_and_late_layers_are_those_of_the_depth_of_a_backbone(files):
    source = StudySource(SCOPE, **files)
    for states, backbone, layers in (
        *(("early", "first", [0, 1]), ("late", "first", [7]), ("layers", "first", [0, 1, 2, 3, 7])),
        *(("early", "second", [0, 2]), ("late", "second", [6, 8, 10])),
    ):
        found = source.variants(f"cocal-binary@{states}", quantity("x", backbone=backbone).case)
        assert found == [f"cocal-binary@layer-{layer}" for layer in layers]


def test_the_paper_study_stands_for_the_paper_step_by_step():
    study = study_of("paper")
    scope = claims_layout(study).scope
    assert (scope.backbones, scope.stages) == (("qwen3-8b", "qwen3-14b"), (40, 80, 120))
    assert (scope.early_steps, scope.budgets) == ((5, 10, 20, 30, 40), (1, 2, 5, 10, 20, 40, 80, 120))
    assert {scope.datasets[title] for title in ("AMC23", "AMC24", "MuSiQue")} == {"amc23", "amc24", "musique"}
    assert {name: len(layers) for name, layers in scope.layers.items()} == {"qwen3-8b": 36, "qwen3-14b": 40}


@pytest.fixture(scope="module")
def small_files() -> dict:
    """A study of one backbone that has made its main comparison alone."""
    return study_files(study_frame())


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (quantity("cocal-binary", "ece", backbone="second"), "one backbone"),
        (quantity("cocal-binary", "ece", comparison="budgets", learnt_from=5), "no comparison of this kind"),
        (quantity("rlcr", "ece", step=40), "does not evaluate RLCR there"),
        (quantity("rlcr", "ece", dataset="AMC24"), "no set of the study stands for AMC24"),
        (quantity("cocal-binary", "error_share", comparison="sweep", learnt_from=10), "no companions"),
        (quantity("cocal-binary", "post_seconds", dataset="AIME24"), "AIME24"),
        (quantity("cocal-binary", "training_seconds"), "not measured"),
        (quantity("cocal-binary@early"), "3 blocks"),
    ],
)
def test_what_a_study_lacks_is_a_reason(small_files, wanted, reason):
    source = StudySource(SMALL, **small_files)
    with pytest.raises(NotAssessableError, match=reason):
        source.read(wanted._replace(method=source.variants(wanted.method, wanted.case)[0]))


def test_times_of_tiny_policies_say_nothing(files):
    source = StudySource(SCOPE.model_copy(update={"tiny": True}), **files)
    with pytest.raises(NotAssessableError, match="below a million parameters"):
        source.read(quantity("cocal-binary", "generation_seconds"))


@pytest.mark.parametrize(
    ("interval", "constant", "flagged"),
    [((0.45, 0.52), False, True), ((0.52, 0.6), False, False), ((0.3, 0.48), False, False), ((0.6, 0.7), True, True)],
)
@pytest.mark.parametrize("name", ["rlcr", "cocal-binary"])
def test_a_confidence_is_degenerate_if_constant_or_at_chance(interval, constant, flagged, name):
    """Whosever it is."""
    study = coded_resamples("tiny-a", ["rlcr", "cocal-binary"], spread=0.01)
    drawn = study.data["resampled"].to_numpy()
    drawn[:, 3] = np.linspace(*interval, 99)
    study.data["value"][:, 3] = np.mean(interval)
    if constant:
        drawn[:, 1] = study.data["value"].to_numpy()[:, 1, None]
    scope = SCOPE.model_copy(update={"stages": (40, 80, 120), "layers": {}})
    source = StudySource(scope, [study])
    assert source.degenerate(name, quantity(name).case) is flagged


def test_steps_of_other_numbers_stand_for_none(small_files):
    fewer = SMALL.model_copy(update={"stages": (40, 60)})
    with pytest.raises(NotAssessableError, match="2 stages, and the paper 3"):
        StudySource(fewer, **small_files).read(quantity("rlcr", "ece", step=80))
    assert StudySource(fewer, **small_files).read(quantity("rlcr", "ece", step=120)).value > 0
