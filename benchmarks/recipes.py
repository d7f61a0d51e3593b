"""Recipes of `cocal fit` on held-out questions: `python benchmarks/recipes.py NAME=CHECKPOINT=ROLLOUTS ...`.

Each rollout set is divided into five parts by its questions; each part in turn is held out, and everything is fitted on
the other four. Printed is the Brier score on all held-out responses, cut ones included: mean over splits, and
each split. A probe and a recalibration by Platt scaling are fitted by scikit-learn, apart from the code of the recipes.
With `--rows 1088` only that many responses, the last ones, are used. With `--output FILE` the scores are written, too,
beside those of other rollout sets that the file has, for `make gallery`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Prefix
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import NumberFormat, create_features, open_features
from cocal.models.loading import Policy
from cocal.own_policy import fitting
from cocal.own_policy.models import Checkpoint
from cocal.own_policy.prefixes import Rows
from cocal.own_policy.recipes import best, folds_of
from cocal.own_policy.states import Encoder

SPLITS, FORMAT = 5, "bfloat16"
KINDS = (
    "best",
    "best, states alone",
    "paper",
    "L2 probe by cross-validation",
    "constant",
    "token probability, recalibrated",
)


def main() -> None:
    """Read every set, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=CHECKPOINT=ROLLOUTS")
    parser.add_argument("--rows", type=int, help="the last responses alone")
    parser.add_argument("--paper-widths", type=int, nargs="+", default=[64, 32, 16, 8])
    parser.add_argument("--output", type=Path, metavar="FILE", help="CSV with the Brier score of every split")
    options = parser.parse_args()
    if options.output and options.rows:
        parser.error("--output is for all responses of a set; leave out --rows")
    print(f"| rollouts | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    for given in options.sets:
        name, checkpoint, rollouts = given.split("=")
        found = []
        policy = Checkpoint.find(checkpoint).load("float32")
        sizes = {"parameters": policy.model.num_parameters()}
        for split in splits(policy, Path(rollouts), options.rows):
            sizes["responses"] = len(split[0])
            found.append(briers(*split, options.paper_widths))
            show(f"{name}, split {len(found)}", found[-1])
        show(f"**{name}, mean of {SPLITS} splits**", np.mean(found, axis=0))
        if options.output:
            numbers = pd.DataFrame(found, columns=KINDS).assign(rollouts=name, split=range(1, SPLITS + 1), **sizes)
            write(options.output, numbers[["rollouts", *sizes, "split", *KINDS]])


def write(path: Path, numbers: pd.DataFrame) -> None:
    """Write the scores of one rollout set, in the place of those that the file has of it, or below the others."""
    (name,) = numbers["rollouts"].unique()
    earlier = pd.read_csv(path) if path.exists() else numbers.head(0)
    sets = {one: earlier[earlier["rollouts"] == one] for one in earlier["rollouts"].unique()} | {name: numbers}
    pd.concat(sets.values()).to_csv(path, index=False, float_format="%.4f")


def show(name: str, values: Sequence[float]) -> None:
    """Print one row of the table."""
    print(f"| {name} | {' | '.join(f'{one:.4f}' for one in values)} |", flush=True)


def splits(policy: Policy, rollouts: Path, count: int | None):
    """Rollouts, states, token inputs, and which responses are held out, for each split."""
    experience = fitting.read(rollouts, Encoder(policy), fitting.Reading())
    rows = experience.rows if count is None else experience.rows.iloc[-count:].reset_index(drop=True)
    rows = rows.assign(response_id=np.arange(len(rows)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "states.zarr"
        store, tokens = fitting._states(policy, rows, policy.blocks - 1, FORMAT, 4096, path, None, True)
        states = Rows.of(rows["length"], None).inputs(store, policy.blocks - 1, None)
    for k in range(SPLITS):
        yield rows, states, tokens, folds_of(rows["question"], 7) == k


def briers(
    rows: pd.DataFrame, states: np.ndarray, tokens: np.ndarray, held: np.ndarray, paper_widths: list[int]
) -> list[float]:
    """The Brier score of each kind, in the order of `KINDS`."""
    known = rows[~held].reset_index(drop=True)
    correct, cut = known["correct"].to_numpy(), known["truncated"].to_numpy()
    step = known["step"].to_numpy()
    last = step >= np.unique(step)[-max(1, len(np.unique(step)) // 10) :][0]
    learnt = known.assign(correct=correct & ~cut, truncated=False)
    found = []
    inputs, width = np.concatenate([states, tokens], axis=1), states.shape[1]
    for reads in ({width, inputs.shape[1]}, {width}):
        settings, fold = CompanionSettings(targets=("binary",)), folds_of(known["question"], 42)
        each = Rows.of(known["length"], None)
        chosen = best(each, inputs[~held, : max(reads)], reads, width, learnt, fold, last, settings)
        with torch.inference_mode():
            given = torch.from_numpy(inputs[held, : len(chosen.model.input_mean)])
            found.append(chosen.model(given).mean(dim=0).numpy())
    found.append(by_paper(known, states[~held], states[held], paper_widths, FORMAT))
    centre, scale = states[~held].mean(axis=0), states[~held].std(axis=0) + 1e-12
    grid = {"C": np.logspace(-3.5, -0.5, 7)}
    probe = GridSearchCV(
        LogisticRegression(max_iter=1000, tol=1e-3), grid, cv=GroupKFold(5), scoring="neg_brier_score"
    ).fit((states[~held] - centre) / scale, correct & ~cut, groups=known["question"])
    found.append(probe.predict_proba((states[held] - centre) / scale)[:, 1])
    found.append(np.full(held.sum(), correct.mean()))
    platt = LogisticRegression(C=1e6).fit(tokens[~held, :1], correct)
    found.append(platt.predict_proba(tokens[held, :1])[:, 1])
    truth = rows["correct"].to_numpy()[held]
    return [float(np.square(one - truth).mean()) for one in found]


def by_paper(
    known: pd.DataFrame, states: np.ndarray, others: np.ndarray, widths: list[int], number_format: NumberFormat
) -> np.ndarray:
    """Confidences of the paper's recipe, the mean of its five members."""
    settings = CompanionSettings(targets=("binary",), widths=widths)
    hidden = states.shape[1] // len(RESPONSE_POOLINGS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "states.zarr"
        writer = create_features(
            path,
            responses=len(known),
            layers=(0,),
            hidden=hidden,
            rows_per_chunk=512,
            dtype=number_format,
            poolings=RESPONSE_POOLINGS,
        )
        known = known.assign(response_id=np.arange(len(known)))
        for start in range(0, len(known), 512):
            block = states[start : start + 512]
            writer.write(start, known.iloc[start : start + 512], block.reshape(len(block), 1, -1, hidden))
        prefix = Prefix(int(known["step"].max()), int(known["step"].max()))
        ((companions, _),) = fit_companions(settings, open_features(path), known, [*known["question"]], [prefix])
    return companions.predict(others).mean(axis=0)


if __name__ == "__main__":
    main()
