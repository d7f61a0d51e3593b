"""What companions are worth under conditions that are changed one at a time: measured points, and CoCal's margins over
PostCal with replicates as the unit."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from cocal.companion.spec import read_spec
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import gain
from cocal_study.cubes.cells import read_cell
from cocal_study.cubes.cube import MEAN
from cocal_study.evidence.comparisons import with_holm
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.planning.plan import restricted
from cocal_study.planning.regimes import read_regimes, studies_of
from cocal_study.planning.results import companion_folder, metrics_file, rollouts_folder
from cocal_study.store.datasets import read_dataset

PAIRS = {"binary": ("cocal-binary", "postcal-binary"), "group": ("cocal-group", "postcal-group")}
"""CoCal's companions and their baselines by their targets."""
SCORES = ("ece", "brier", "auroc")
"""Metrics whose margins are compared."""
BESIDE = ("token-probability",)
"""Methods without companions, which are measured as well where a point has them."""
RECALIBRATED = ("linear-binary", "token-probability+platt-all")
"""Baselines that learn from the same rollouts, by their names in the cube of tables/recalibrated, if a point has this
cube: the linear probe, and the policy's token probability after Platt scaling."""
MEASURED = ("accuracy", "mean_confidence", "ece", "brier", "log_loss", "auroc")
_PLACE = ["axis", "level", "replicate"]
COLUMNS = (*_PLACE, "method", "rollout_accuracy", "final_accuracy", "learnt", "learnt_right", *MEASURED)
"""Columns of the measured points:

* condition, value and replicate, and the method;
* accuracy of all rollouts, and of the final policy on the same questions under the same sampling;
* number of responses that the companion learnt from, and the share of these that are right;
* as means over the mathematical sets, accuracy of the evaluated responses and the method's metrics.
"""


def measured(regimes: Path, number: int, folder: Path) -> pd.DataFrame:
    """The measured points of a replicate of a file of regimes; `folder` holds a folder of results for every point: the
    columns `COLUMNS`, in the order of the axes and their levels; the unchanged point is on every axis. Raises
    ContractError if a point is not finished."""
    content, studies = read_regimes(regimes), studies_of(regimes, number)
    points = {name: list(_point(study, folder / name)) for name, study in studies.items()}
    rows = [
        (axis.name, level.name, number, *row)
        for axis in content.axes
        for level in axis.levels
        for row in points[axis.point(level)]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _point(study: Study, folder: Path) -> Iterator[tuple]:
    """The row of every method at one point; methods without companions have the training data of CoCal's."""
    backbone, step = study.main_backbone, study.policy.steps
    cube_file = folder / metrics_file(backbone)
    if not cube_file.exists():
        raise ContractError(f"{cube_file}: is missing, so this point is not finished; run `make regimes` again")
    cube = read_dataset(cube_file)
    sampled = {
        name: float(read_frame(folder / rollouts_folder(backbone, name), RESPONSES, ["correct"])["correct"].mean())
        for name in ("grpo", "postcal")
    }
    cell = {"backbone": backbone, "algorithm": "grpo", "step": step, "dataset": "macro-mathematics", "seed": MEAN}
    cubes = {
        method: cube for method in (*PAIRS["binary"], *PAIRS["group"], *BESIDE) if method in cube.indexes["method"]
    }
    if (baselines := folder / metrics_file(backbone, "-recalibrated")).exists():
        cubes |= dict.fromkeys(RECALIBRATED, read_dataset(baselines))
    for method, source in cubes.items():
        kind = METHODS[method].experience if method in METHODS else ""
        learner = kind if kind in ("rollouts", "resampled") else "rollouts"
        spec = read_spec(folder / companion_folder(backbone, learner) / restricted(step).folder)
        known = [name for name in MEASURED if name in source.indexes["metric"]]
        values = read_cell(source, {**cell, "method": method}, known).set_index("metric")["value"].reindex(MEASURED)
        learnt = spec.training_responses, 1 - spec.training_error_share
        yield method, sampled["grpo"], sampled["postcal"], *learnt, *values


def together(points: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The points of all replicates, in the order of axes, levels and replicates; where both have a replicate, that of
    `others` is dropped. Raises ContractError if the others have other conditions, that is, another file of regimes."""
    kept = others[~others["replicate"].isin(points["replicate"].unique())]
    order, before = (frame[_PLACE[:2]].drop_duplicates(ignore_index=True) for frame in (points, kept))
    if len(kept) and not before.equals(order):
        raise ContractError(
            "replicates that were gathered before have other conditions than these: gather into an empty folder, and "
            "run all replicates with one file of regimes"
        )
    return order.merge(pd.concat([kept, points]).sort_values("replicate", kind="stable"), on=_PLACE[:2])


def margins(points: pd.DataFrame, target: str = "binary") -> pd.DataFrame:
    """CoCal's margins over PostCal in every replicate of the measured points, positive where CoCal is better: columns
    axis, level, replicate, accuracy, final_accuracy, gap (accuracy of the final policy on the training questions less
    that on the evaluated ones), bias (PostCal's mean confidence less the accuracy), and a margin by the name of each of
    `SCORES`."""
    ours, theirs = (points[points["method"] == name].set_index(_PLACE) for name in PAIRS[target])
    table = theirs[["accuracy", "final_accuracy"]].assign(
        gap=theirs["final_accuracy"] - theirs["accuracy"], bias=theirs["mean_confidence"] - theirs["accuracy"]
    )
    for metric in SCORES:
        table[metric] = gain(metric, ours[metric] - theirs[metric])
    return table.reset_index()


def over_points(margins: pd.DataFrame, level: float) -> pd.DataFrame:
    """The margins of every point (`margins`) over the replicates, with intervals of a level: columns axis, level,
    metric, value (mean), lower, upper, p (of Student's t), p_holm (adjusted over the distinct points of a metric),
    positive (number of replicates with a positive margin) and replicates; NaN intervals where there is one replicate.
    """
    rows = []
    for (axis, name), part in margins.groupby(_PLACE[:2], sort=False):
        for metric in SCORES:
            values = part[metric].to_numpy()
            mean = over_replicates(values, level, "")
            rows.append((axis, name, metric, *mean[:4], int((values > 0).sum()), len(values)))
    table = pd.DataFrame(
        rows, columns=[*_PLACE[:2], "metric", "value", "lower", "upper", "p", "positive", "replicates"]
    )
    distinct = with_holm(table.drop_duplicates(["metric", "value", "p"]), ["metric"])  # the unchanged point counts once
    return table.merge(distinct[["metric", "value", "p", "p_holm"]], on=["metric", "value", "p"], how="left")
