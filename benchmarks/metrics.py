"""`cocal metrics` on every cell of the paper's study, files in and cubes out, against a loop with scikit-learn.

Both have one thread, and times are processor time, which does not depend on other work on the machine.
"""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from cocal.cli import main
from cocal.metrics.bootstrap import generator_for, question_counts, resampled_metrics
from cocal.metrics.scores import Sample
from cocal.store import write_frame
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.planning.plan import macro_averages
from cocal_study.store.contracts import PREDICTIONS
from paper import Cell, cubes, paper_study, predictions, runs_of
from timing import row

_LOOPED = 10
"""Number of resamples on which the loop is timed, for one cell of each set."""


def measure(quick: bool) -> list[dict]:
    """One row per cube, and a row of their sums."""
    study = paper_study()
    resamples = 50 if quick else study.metrics.resamples
    wanted = {name: found for name, found in cubes(study).items() if not quick or name == "qwen3-14b"}
    looped = _loop_seconds(study, next(iter(wanted.values()))[0])
    with tempfile.TemporaryDirectory() as folder:
        rows = [_timed(study, name, *found, resamples, looped, Path(folder)) for name, found in wanted.items()]
    whole = {name: sum(one[name] for one in rows) for name in ("seconds", "waited", "peer_seconds", "samples")}
    return [_finished(one, resamples) for one in (*rows, rows[0] | whole | {"case": "all of these"})]


def _timed(
    study: Study,
    name: str,
    cells: list[Cell],
    sweep: list[str],
    resamples: int,
    looped: dict[str, float],
    folder: Path,
) -> dict:
    """Time one cube from a file of predictions, by processor and by clock, and estimate the time of the loop."""
    write_frame(folder / "predictions.parquet", predictions(study, cells), PREDICTIONS, {})
    samples = Counter()
    for cell in cells:
        samples[cell.dataset] += len(runs_of(study, cell))
    groups = macro_averages(study, cells[0].backbone)
    groups = {group: members for group, members in groups.items() if samples.keys() >= set(members)}
    command = ["metrics", "--predictions", f"{folder}/predictions.parquet", "--output", f"{folder}/{name}.nc"]
    command += [] if sweep else ["--scores"]  # as the rules do
    command += ["--settings", json.dumps({"resamples": resamples}), "--groups", json.dumps(groups)]
    command += ["--seeds", *map(str, study.companion.seeds), *(["--sweep", *sweep] if sweep else [])]
    started, worked = time.perf_counter(), time.process_time()
    if main(command):
        raise RuntimeError(f"cocal {' '.join(command)} failed")
    return {
        "case": name,
        "seconds": time.process_time() - worked,
        "waited": time.perf_counter() - started,
        "peer_seconds": resamples * sum(looped[dataset] * number for dataset, number in samples.items()),
        "samples": samples.total(),
    }


def _finished(found: dict, resamples: int) -> dict:
    case = f"{found['case']}: {found['samples']:,} samples x {resamples:,} resamples"
    note = (
        f"processor time of one process, {found['waited']:.1f} s by the clock, files read and written; "
        f"peer extrapolated from {_LOOPED} resamples of one sample of each set"
    )
    peer = "loop with sklearn.metrics.roc_auc_score"
    return row("metrics", case, found["seconds"], peer, found["peer_seconds"], note)


def _loop_seconds(study: Study, cells: list[Cell]) -> dict[str, float]:
    """Seconds that the loop takes for one resample of one sample, by set, after a check that its values equal ours."""
    chosen = {cell.dataset: cell for cell in cells if METHODS[cell.method].experience}
    found = {}
    for dataset, cell in chosen.items():
        table = predictions(study, [cell])
        table = table[table["seed"] == study.companion.seeds[0]]
        question, names = pd.factorize(table["question_id"])
        sample = Sample(question, table["confidence"].to_numpy(), table["correct"].to_numpy())
        counts = np.concatenate(list(question_counts(len(names), _LOOPED, generator_for(42, dataset))))
        started = time.process_time()
        looped = [_one_resample(sample, row) for row in counts]
        found[dataset] = (time.process_time() - started) / _LOOPED
        options = {"bins": 10, "resamples": _LOOPED, "generator": generator_for(42, dataset)}
        np.testing.assert_allclose(resampled_metrics([sample], len(names), **options)[0], looped, atol=1e-9)
    return found


def _one_resample(sample: Sample, counts: np.ndarray) -> list[float]:
    """The paper's metrics of the responses that were drawn, written without regard to speed."""
    drawn = np.repeat(np.arange(len(sample.question)), counts[sample.question].astype(int))
    confidence, correct = sample.confidence[drawn], sample.correct[drawn]
    error = 0.0
    for low in range(10):
        members = (confidence > low / 10) & (confidence <= (low + 1) / 10)
        if members.any():
            error += members.mean() * abs(correct[members].mean() - confidence[members].mean())
    return [correct.mean(), confidence.mean(), error, roc_auc_score(correct, confidence)]
