"""Tests of differences between two methods of a study, or between two tables of predictions."""

import argparse
import logging

import pandas as pd

from cocal.errors import ConfigError
from cocal.metrics.settings import MetricSettings
from cocal.metrics.shown import UNDEFINED, csv_text
from cocal.store import read_frame, write_text
from cocal_study.config.evaluation import MacroAverages
from cocal_study.config.methods import METHODS
from cocal_study.config.parse import parse_settings
from cocal_study.cubes.cube import evaluate_cells
from cocal_study.cubes.resamples import MAIN, Resamples, read_resamples, resamples_of
from cocal_study.evidence.comparisons import compare, final_key, with_holm
from cocal_study.exhibits.typesetting.wording import signed
from cocal_study.store.contracts import PREDICTIONS


def run_compare(options: argparse.Namespace) -> None:
    """Print one line for each data set and metric, and write the CSV if it is wanted."""
    files = [word.endswith(".parquet") for word in (options.first, options.second)]
    if files[0] != files[1]:
        raise ConfigError("compare two methods of a study, or two tables of predictions (.parquet); not one of each")
    compared, resamples = _of_tables(options) if files[0] else _of_methods(options)
    tested = with_holm(compared, family=["metric"])
    print(_page(tested, resamples, options))
    if options.output:
        write_text(options.output, csv_text(tested))
        logging.info("wrote %s", options.output)


def _of_methods(options: argparse.Namespace) -> tuple[pd.DataFrame, Resamples]:
    """Two methods of a study, on every data set that both have."""
    for name in (options.first, options.second):
        if name not in METHODS:
            raise ConfigError(f"{name!r} is no method; known are {', '.join(METHODS)}")
    folder = options.results / "resamples"
    found = {one.backbone: one for one in map(read_resamples, sorted(folder.glob("*.nc"))) if one.comparison == MAIN}
    if not found:
        raise ConfigError(f"{folder}: no metrics of resamples; run the study first, or name its results (--results)")
    if options.backbone is None and len(found) > 1:
        raise ConfigError(f"--backbone: the study has {', '.join(found)}; name one")
    backbone = options.backbone or next(iter(found))
    if backbone not in found:
        raise ConfigError(f"--backbone: there is no {backbone!r}; the study has {', '.join(found)}")
    resamples = found[backbone]
    if options.step is None:
        options.step = max(key.step for key in resamples.places)
    datasets = list(dict.fromkeys(key.dataset for key in resamples.places))
    first, second = (
        [final_key(name, options.step, one) for one in datasets] for name in (options.first, options.second)
    )
    pairs = zip(first, second, strict=True)
    shared = [pair for pair in pairs if all(key in resamples.places for key in pair)]
    if not shared:
        raise ConfigError(f"{resamples.source}: {options.first} and {options.second} have no data set in common there")
    return compare(resamples, shared), resamples


def _of_tables(options: argparse.Namespace) -> tuple[pd.DataFrame, Resamples]:
    """Every method that two tables of predictions share, on every data set."""
    settings = parse_settings(MetricSettings, options.settings)
    groups = parse_settings(MacroAverages, options.groups, "--groups")
    frames = {path: read_frame(path, PREDICTIONS) for path in (options.first, options.second)}
    for path, frame in frames.items():
        for name in sorted({name for members in groups.root.values() for name in members} - {*frame["dataset"]}):
            raise ConfigError(f"--groups: {path} has no predictions on {name!r}; name sets that both tables have")
    first, second = (
        Resamples.of(resamples_of(evaluate_cells(frame, settings, groups.root)), path) for path, frame in frames.items()
    )
    shared = [key for key in first.places if key in second.places]
    if not shared:
        raise ConfigError(f"{options.first} and {options.second}: no method of one policy is on a data set in both")
    return compare(first, [(key, key) for key in shared], second), first


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0 else UNDEFINED


def _page(tested: pd.DataFrame, resamples: Resamples, options: argparse.Namespace) -> str:
    """The comparisons as a table for the terminal."""
    several = options.first.endswith(".parquet")
    shown = pd.DataFrame(
        {
            "data set": tested["dataset"],
            **({"method": tested["method"]} if several else {}),
            "metric": tested["metric"],
            "A - B": list(map(signed, tested["metric"], tested["value"])),
            f"{resamples.level:.0%} interval": [
                f"[{signed(row.metric, row.lower)}, {signed(row.metric, row.upper)}]" for row in tested.itertuples()
            ],
            "p": tested["p"].map(_p_text),
            "p (Holm)": tested["p_holm"].map(_p_text),
            "SD over seeds": tested["seed_sd"].map(lambda sd: "" if pd.isna(sd) else f"{sd:.3f}"),
            "paired on": tested["paired"],
        }
    )
    at = "" if several else f", {resamples.backbone}, step {options.step}"
    return (
        f"A: {options.first}   B: {options.second}{at}\n"
        f"{resamples.data.sizes['resample']} shared resamples of the questions; accuracies in percentage points; Holm: "
        "over all lines of a metric\n\n" + shown.to_string(index=False)
    )
