"""Tests of differences between methods and baselines; trials of baselines before a study."""

import argparse
import logging
from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd

from cocal.errors import ConfigError
from cocal.metrics.shown import UNDEFINED, csv_text
from cocal.store import write_text
from cocal_study.config.methods import declared_baselines, scored_method
from cocal_study.cubes.better import gain
from cocal_study.cubes.resamples import MAIN, Resamples, read_resamples, resamples_behind
from cocal_study.evidence.comparisons import COMPARED, compare, final_key, with_holm
from cocal_study.evidence.headlines import rows_of, values_of
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.exhibits.typesetting.wording import signed
from cocal_study.methods.base.trial import try_baseline
from cocal_study.planning.comparisons import RECALIBRATED
from cocal_study.store.numbers import read_numbers

_READ = "accuracies in percentage points; A is better where accuracy and AUROC are positive, and ECE negative"


def run_compare(options: argparse.Namespace) -> None:
    """Print one line for each data set, baseline and metric, and write the CSV file if one is requested."""
    if options.replicates:
        differences = _over_replicates(options)
        better = [f"{row.better} of {row.replicates}" for row in differences.itertuples()]
        shown, where = _shown(differences, 0.95).assign(**{"A better in": better}), options.replicates
        how = "means over replicates with the interval of Student's t"
    else:
        compared, resamples = _of_study(options)
        differences = with_holm(compared, family=["metric", "baseline"])
        more = {"p": differences["p"].map(_p_text), "p (Holm)": differences["p_holm"].map(_p_text)}
        more["SD over seeds"] = differences["seed_sd"].map(lambda sd: "" if pd.isna(sd) else f"{sd:.3f}")
        shown = _shown(differences, resamples.level).assign(**more, **{"paired on": differences["paired"]})
        where, count = f"{resamples.backbone}, step {options.step}", resamples.data.sizes["resample"]
        how = f"{count} resamples of the questions; Holm: over all lines of a metric and a B"
    print(f"A: {options.first}   B: {', '.join(options.second)}, {where}\n{how}\n{_READ}\n")
    print(shown.to_string(index=False))
    if options.output:
        write_text(options.output, csv_text(differences))
        logging.info("wrote %s", options.output)


def run_try(options: argparse.Namespace) -> None:
    """Try the named baselines that learn, or all of them if none is named, and print a line for each."""
    learning = {baseline.name: baseline for baseline in declared_baselines() if baseline.learn}
    for name in options.baselines or learning:
        if name not in learning:
            raise ConfigError(f"{name!r} is no baseline that learns; there are {', '.join(learning)}")
        try_baseline(learning[name], options.width)
        print(f"{name}: learns from random rollouts and scores others")


def _of_study(options: argparse.Namespace) -> tuple[pd.DataFrame, Resamples]:
    """Differences between a study's method or baseline and each other one, on every data set that both have."""
    names = (options.first, *options.second)
    if all(scored_method(name).name == name for name in names):
        files = sorted((options.results / "resamples").glob("*.nc"))
        by_backbone = {cube.backbone: cube for cube in map(read_resamples, files) if cube.comparison == MAIN}
    else:
        cubes = sorted((options.results / "metrics").glob(f"*{RECALIBRATED}.nc"))
        by_backbone = {cube.stem.removesuffix(RECALIBRATED): cube for cube in cubes}
    if not by_backbone:
        raise ConfigError(f"{options.results}: no metrics of resamples; run the study first, or name its --results")
    if options.backbone not in by_backbone and (options.backbone or len(by_backbone) > 1):
        raise ConfigError(f"--backbone: the study has {', '.join(by_backbone)}; name one of them")
    chosen = by_backbone[options.backbone or next(iter(by_backbone))]
    resamples = chosen if isinstance(chosen, Resamples) else resamples_behind(chosen, *names)
    if options.step is None:
        options.step = max(key.step for key in resamples.places)
    places = product(dict.fromkeys(key.dataset for key in resamples.places), options.second)
    pairs = [[final_key(name, options.step, dataset) for name in (options.first, other)] for dataset, other in places]
    shared = [(first, second) for first, second in pairs if {first, second} <= resamples.places.keys()]
    for other in {*options.second} - {baseline.method for _, baseline in shared}:
        raise ConfigError(f"{resamples.source}: {options.first} and {other} have no data set in common there")
    tables = [compare(resamples, [pair], metrics=_metrics(key.method for key in pair)) for pair in shared]
    return pd.concat(tables, ignore_index=True), resamples


def _metrics(names: Iterable[str]) -> list[str]:
    """The metrics by which two confidences are compared; a score that only ranks has no calibration error."""
    ranks = {baseline.name for baseline in declared_baselines() if baseline.ranks_only}
    return [metric for metric in COMPARED if metric != "ece" or not ranks & {*names}]


def _over_replicates(options: argparse.Namespace) -> pd.DataFrame:
    """Differences between a method or baseline and each other one on every data set of gathered replicates: columns
    dataset, baseline, metric, value (mean), lower, upper (Student's t), replicates (number with both), and better
    (number in which the first is better)."""
    tables = [options.replicates / f"tables/{name}.csv" for name in ("main", "recalibrated")]
    frames = [values_of(read_numbers(file), "replicate_") for file in tables if file.exists()]
    if not frames:
        raise ConfigError(f"{options.replicates}: holds no tables of replicates; gather some with `cocal spread`")
    datasets = dict.fromkeys(name for frame in frames for name in frame.index.get_level_values("dataset"))
    rows = []
    for dataset, other in product(datasets, options.second):
        for metric in _metrics([options.first, other]):
            both = rows_of(frames, dataset, (options.first, metric), (other, metric))
            if both is None:
                continue
            values = both[0] - both[1]
            values = values[~np.isnan(values)]  # a replicate may be older than one of the two methods
            if len(values) < 2 or not values.any():
                continue
            better = int((gain(metric, values) > 0).sum())
            margin = over_replicates(values, 0.95, "")
            rows.append((dataset, other, metric, margin.value, margin.lower, margin.upper, len(values), better))
    for other in {*options.second} - {row[1] for row in rows}:
        for name in (options.first, other):
            scored_method(name)  # raises an error that lists the known names
        raise ConfigError(f"{options.replicates}: {options.first} and {other} are in no table together there")
    return pd.DataFrame(
        rows, columns=["dataset", "baseline", "metric", "value", "lower", "upper", "replicates", "better"]
    )


def _shown(rows: pd.DataFrame, level: float) -> pd.DataFrame:
    """The columns that both kinds of differences have in the table for the terminal."""
    intervals = [f"[{signed(row.metric, row.lower)}, {signed(row.metric, row.upper)}]" for row in rows.itertuples()]
    return pd.DataFrame(
        {
            "data set": rows["dataset"],
            "B": rows["baseline"],
            "metric": rows["metric"],
            "A - B": list(map(signed, rows["metric"], rows["value"])),
            f"{level:.0%} interval": intervals,
        }
    )


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0 else UNDEFINED
