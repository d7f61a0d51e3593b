"""What is kept of a replicate in one small file, from which its metrics follow without a model: labels, lengths and
questions of the responses, before and after training and under both samplings. For each confidence, the order of a
set's responses and the mean of each bin are kept.

The values themselves would take four times the space. No metric distinguishes responses that are neighbours in the
order and have the same label and bin, so they share a level. Only the levels are kept, and every metric follows
exactly: the calibration error from the bins, both AUROCs from the pairs of a correct and a wrong response.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.metrics.calibration import bin_edges, bin_index, evaluate, pairs_within
from cocal.metrics.scores import WITHIN
from cocal.store import atomic_path, read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.planning import plan
from cocal_study.planning.comparisons import SECOND
from cocal_study.planning.results import predictions_file, responses_file
from cocal_study.store.contracts import PREDICTIONS

SAMPLINGS = {"own": "", "second": SECOND}
"""The samplings of the evaluation, each with the suffix in the names of its files."""
LENGTH = "length"
"""Name of the confidence that decreases with the length of a response; it only ranks responses."""
_INVALID = 2**16 - 1
_ABOUT = "about.json"
_RESPONSE = ["dataset", "response_id"]


def keep(study: Study, folder: Path, output: Path) -> None:
    """Write what is kept of a finished study, whose results lie in `folder`, for its main backbone. Raises
    ContractError if predictions or responses are missing or damaged."""
    about: dict[str, Any] = {"study": study.study, "bins": study.metrics.bins, "parts": {}}
    about["groups"] = plan.macro_averages(study, study.main_backbone)
    members = {}
    for name, rows, confidences in _parts(study, folder):
        names, methods = list(rows["dataset"].unique()), [f"{method} {seed}" for method, seed in confidences]
        about["parts"][name] = {"datasets": names, "confidences": methods}
        dataset, correct = rows["dataset"].map(names.index).to_numpy(np.uint8), rows["correct"].to_numpy(bool)
        coded = _coded(np.array(list(confidences.values())), correct, dataset, study.metrics.bins)
        arrays = coded | {
            "dataset": dataset,
            "question": rows.groupby("dataset")["question_id"]
            .transform(lambda ids: ids.factorize()[0])
            .to_numpy(np.uint16),
            "length": rows["length"].to_numpy(np.uint32),
            "correct": correct,
        }
        members |= {f"{name}/{key}": array for key, array in arrays.items()}
    with atomic_path(output) as partial, zipfile.ZipFile(partial, "w") as file:
        _add(file, _ABOUT, json.dumps(about, indent=1).encode())
        for name, array in members.items():
            written = io.BytesIO()
            np.save(written, array, allow_pickle=False)
            _add(file, f"{name}.npy", written.getvalue())


def recomputed(path: Path) -> pd.DataFrame:
    """Recompute the metrics from a kept file: the columns `NUMBERS` and value, as means over seeds, for every set and
    macro average; a set with one response per question has no AUROC within questions. Raises ContractError if the file
    was not written by `keep`."""
    try:
        with zipfile.ZipFile(path) as file:
            about = json.loads(file.read(_ABOUT))
            parts = {name: _read(file, name) for name in about["parts"]}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ContractError(f"{path}: holds no kept replicate ({error}); get it from the repository again") from None
    rows = []
    for name, arrays in parts.items():
        sampling, part = name.partition("/")[0], about["parts"][name]
        confidences = _decoded(arrays, about["bins"])
        for place, dataset in enumerate(part["datasets"]):
            of = arrays["dataset"] == place
            question, correct = arrays["question"][of].astype(np.int64), arrays["correct"][of]
            every = {label: values[of] for label, values in zip(part["confidences"], confidences, strict=True)}
            every[f"{LENGTH} {UNSEEDED}"] = 1 / arrays["length"][of]
            for label, values in every.items():
                metrics = _metrics(values, correct, question, about["bins"])
                rows += [
                    (sampling, dataset, label.partition(" ")[0], metric, value) for metric, value in metrics.items()
                ]
    frame = pd.DataFrame(rows, columns=[*NUMBERS, "value"])
    means = frame.groupby(NUMBERS, sort=False)["value"].mean(skipna=False).reset_index()
    frames = [means]
    for macro, sets in about["groups"].items():
        members = means[means["dataset"].isin(sets)].assign(dataset=macro)
        members = members[members["value"].notna() | (members["metric"] != WITHIN)]
        frames.append(members.groupby(NUMBERS, sort=False)["value"].mean(skipna=False).reset_index())
    return pd.concat(frames, ignore_index=True)


NUMBERS = ["sampling", "dataset", "method", "metric"]
"""The columns that identify the numbers of a replicate."""


def _parts(study: Study, folder: Path) -> Iterator[tuple[str, pd.DataFrame, dict[tuple[str, int], np.ndarray]]]:
    """Yield each part, the responses of one policy in one format under one sampling: its name, the responses (columns
    dataset, response_id, question_id, length, correct), and their confidences by method and seed."""
    backbone = study.main_backbone
    final = [cell for cell in plan.evaluated_cells(study, backbone) if cell[1] in (0, study.policy.steps)]
    for sampling, kind in SAMPLINGS.items() if study.second_sampling else [("own", "")]:
        for algorithm, step in final:
            predictions = read_frame(folder / predictions_file(backbone, algorithm, step, kind), PREDICTIONS)
            formats = predictions["method"].map(lambda name: METHODS[name].prompt_format)
            for prompt_format, of_format in predictions.groupby(formats, sort=False):
                at = (backbone, algorithm, step, f"{prompt_format}{kind}")
                lengths = pd.concat(
                    read_frame(folder / responses_file(*at, dataset), RESPONSES, [*_RESPONSE, "length"])
                    for dataset in of_format["dataset"].unique()
                )
                of_method = dict(iter(of_format.groupby(["method", "seed"], sort=False)))
                rows = next(iter(of_method.values()))[[*_RESPONSE, "question_id", "correct"]]
                rows = rows.merge(lengths, on=_RESPONSE, validate="1:1")
                yield (
                    f"{sampling}/{algorithm}/{prompt_format}",
                    rows,
                    {key: _in_order(table, rows) for key, table in of_method.items()},
                )


def _in_order(predictions: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
    indexed = predictions.set_index(_RESPONSE)["confidence"]
    return indexed.loc[pd.MultiIndex.from_frame(rows[_RESPONSE])].to_numpy(np.float64)


def _coded(confidences: np.ndarray, correct: np.ndarray, dataset: np.ndarray, bins: int) -> dict[str, np.ndarray]:
    """Encode confidences (confidences, n). For each response, the code holds the level in its set, as low and high
    byte, uint8 (2, confidences, n), `_INVALID` for NaN. For each set and bin, (confidences, sets, bins), it holds the
    first level, uint16, and the mean, float64; the mean of an empty bin has no meaning."""
    sets = int(dataset.max()) + 1
    level = np.full(confidences.shape, _INVALID, np.uint16)
    first, mean = (np.zeros((len(confidences), sets, bins), dtype) for dtype in (np.uint16, np.float64))
    for row, place in np.ndindex(len(confidences), sets):
        of = np.flatnonzero((dataset == place) & ~np.isnan(confidences[row]))
        if not len(of):
            continue
        value, inverse, count = np.unique(confidences[row, of], return_inverse=True, return_counts=True)
        right = np.bincount(inverse, correct[of])
        mixed, index = (right > 0) & (right < count), bin_index(value, bins)
        new = mixed[1:] | (np.diff(right > 0)) | (np.diff(index) > 0) | mixed[:-1]
        levels = np.append(0, np.cumsum(new))
        level[row, of] = levels[inverse]
        first[row, place] = np.append(levels, levels[-1] + 1)[np.searchsorted(index, np.arange(bins))]
        lowest = value[np.searchsorted(index, index)]  # the mean of equal values is that value, to the last bit
        above = np.bincount(index, count * (value - lowest), bins) / np.maximum(np.bincount(index, count, bins), 1)
        mean[row, place, index] = lowest + above[index]
    return {"level": np.stack([level & 255, level >> 8]).astype(np.uint8), "first": first, "mean": mean}


def _decoded(kept: dict[str, np.ndarray], bins: int) -> np.ndarray:
    """Confidences (confidences, n) that have the same metrics as those given to `_coded`: in each bin they rise
    slightly with the level, around the bin's mean."""
    low, high = kept["level"].astype(np.int64)
    level, dataset, edges = low + 256 * high, kept["dataset"].astype(np.int64), bin_edges(bins)
    room = np.minimum(kept["mean"] - edges[:-1], edges[1:] - kept["mean"]) / 2**16
    confidences = np.full(level.shape, np.nan)
    for row, levels in enumerate(level):
        of = np.flatnonzero(levels != _INVALID)
        index = (kept["first"][row, dataset[of]] <= levels[of, None]).sum(axis=1) - 1
        group = dataset[of] * bins + index
        middle = np.bincount(group, levels[of]) / np.maximum(np.bincount(group), 1)
        confidences[row, of] = kept["mean"][row].flat[group] + room[row].flat[group] * (levels[of] - middle[group])
    return confidences


def _read(file: zipfile.ZipFile, name: str) -> dict[str, np.ndarray]:
    names = ("dataset", "question", "length", "correct", "level", "first", "mean")
    return {key: np.load(io.BytesIO(file.read(f"{name}/{key}.npy")), allow_pickle=False) for key in names}


def _metrics(confidence: np.ndarray, correct: np.ndarray, question: np.ndarray, bins: int) -> dict[str, float]:
    valid = ~np.isnan(confidence)
    won, pairs = pairs_within(question[valid], confidence[valid], correct[valid], int(question.max()) + 1)
    within = float(won.sum() / pairs.sum()) if pairs.any() else np.nan
    return evaluate(confidence, valid, correct, bins) | {WITHIN: within}


def _add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a member without a time stamp, so that equal contents are equal bytes."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_LZMA
    file.writestr(entry, content)
