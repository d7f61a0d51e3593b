"""Recipes of `cocal fit` and baselines on held-out questions: `python benchmarks/recipes.py NAME=CHECKPOINT=ROLLOUTS
...`.

Each rollout set is divided into five parts by its questions; each part in turn is held out, and everything is fitted on
the other four. All learn and are measured by the verifier's labels, and baselines also read whether a response was cut.
Printed is the Brier score, the mean of (confidence - label)^2, on all held-out responses and on those that ended: mean
over splits, and each split. Baselines are fitted by scikit-learn, apart from the code of the recipes.
With `--rows 1088` only that many responses, the last ones, are used: give such a set a name of its own. With `--output
FILE` the scores are written, too, beside those of other rollout sets that the file has, for `make gallery`; with
`--kinds NAME ...` only these are fitted, and written beside the others of the same set.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler

from cocal.answers.extraction import extract_answer
from cocal.companion.settings import CompanionSettings
from cocal.fitting import fit as fitting
from cocal.fitting.baselines import FLAG, GROUP, LENGTH, TOKENS, agreement
from cocal.fitting.models import Checkpoint
from cocal.fitting.prefixes import Rows
from cocal.fitting.recipes import best, folds_of
from cocal.models.loading import Policy
from cocal.rollouts.encoding import Encoder
from cocal.runtime.progress import Progress

SPLITS, FORMAT = 5, "bfloat16"
GRID = {"C": np.logspace(-3.5, -0.5, 7)}
BEST, ALONE = "best", "best, states alone"
PROBE, ALONE_PROBE = "logistic regression, states and tokens", "logistic regression, states"
PROBES = {PROBE: True, ALONE_PROBE: False, f"{PROBE}, cut or not": True, f"{ALONE_PROBE}, cut or not": False}
"""Those that read what `best` reads, without and with the flag, and whether they read token probabilities."""
FEATURES = "logistic regression, four token features"
"""Mean probability, mean and lowest log-probability, and the logarithm of the length."""
TREES, TREES_OF_FEATURES = "boosted trees, states and four token features", "boosted trees, four token features"
"""Those that are not linear: scikit-learn's histogram gradient boosting with its defaults, with the flag."""
KINDS = (BEST, ALONE, *PROBES, TREES, TREES_OF_FEATURES, FEATURES, GROUP, TOKENS, LENGTH, FLAG, "constant")
PARTS = ("all", "ended")


def main() -> None:
    """Read every set, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=CHECKPOINT=ROLLOUTS")
    parser.add_argument("--rows", type=int, help="the last responses alone")
    parser.add_argument("--precision", default="float32", help="of the passes that read the states (float32, bfloat16)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="CSV with the Brier score of every split")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="NAME", help="fit only these")
    options = parser.parse_args()
    kinds = options.kinds
    print(f"| rollouts | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    whole = []
    for given in options.sets:
        name, checkpoint, rollouts = given.split("=")
        policy, found = Checkpoint.find(checkpoint).load(options.precision), []
        for rows, agreed, *split in splits(policy, Path(rollouts), options.rows):
            briers = of_split(rows, agreed, *split, kinds)
            sizes = {"parameters": policy.model.num_parameters(), "responses": len(rows)}
            number = 1 + len(found) // len(PARTS)
            found += [dict(rollouts=name, **sizes, part=part, split=number, **briers[part]) for part in PARTS]
            for part in PARTS:
                show(f"{name}, {part}, split {number}", [briers[part][kind] for kind in kinds])
        numbers = pd.DataFrame(found)
        whole.append(numbers)
        for part, some in numbers.groupby("part", sort=False):
            show(f"**{name}, {part}, mean of {SPLITS} splits**", some[[*kinds]].mean())
        if options.output:
            write(options.output, numbers)
    for part, some in pd.concat(whole).groupby("part", sort=False):
        pairs = {kind: BEST if also else ALONE for kind, also in PROBES.items()} | {TREES: BEST}
        for baseline, ours in {kind: of for kind, of in pairs.items() if {kind, of} <= {*kinds}}.items():
            less = some[baseline] - some[ours]
            print(f"{part}: {baseline}, less {ours}: {less.mean():+.5f}, {(less > 0).sum()} of {len(less)} splits")


def write(path: Path, numbers: pd.DataFrame) -> None:
    """Write the scores of one rollout set, in the place of those that the file has of it, or below the others."""
    (name,) = numbers["rollouts"].unique()
    earlier = pd.read_csv(path) if path.exists() else numbers.head(0)
    sets = {one: earlier[earlier["rollouts"] == one] for one in earlier["rollouts"].unique()}
    if name in sets:
        keys = ["part", "split"]
        numbers = numbers.set_index(keys).combine_first(sets[name].set_index(keys)).loc[numbers.set_index(keys).index]
        numbers = numbers.reset_index()
    columns = ["rollouts", "parameters", "responses", "part", "split", *KINDS]
    whole = pd.concat((sets | {name: numbers}).values()).reindex(columns=columns)
    whole.to_csv(path, index=False, float_format="%.4f")


def show(name: str, values: Sequence[float]) -> None:
    """Print one row of the table."""
    print(f"| {name} | {' | '.join(f'{one:.4f}' for one in values)} |", flush=True)


def splits(policy: Policy, rollouts: Path, count: int | None):
    """Rollouts, agreement of groups, states, token inputs, and which responses are held out, for each split."""
    experience = fitting.read(rollouts, Encoder(policy))
    rows = experience.rows if count is None else experience.rows.iloc[-count:].reset_index(drop=True)
    rows = rows.assign(response_id=np.arange(len(rows)))
    texts = policy.tokenizer.batch_decode(rows["response_ids"].tolist(), skip_special_tokens=True)
    agreed = agreement([*zip(rows["step"], rows["group"], strict=True)], [*map(extract_answer, texts)])
    agreed = np.zeros(len(rows)) if agreed is None else agreed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "states.zarr"
        progress = Progress("", fitting._tokens(rows) * policy.model.num_parameters())
        how = {"given": None, "with_tokens": True, "grown": None, "progress": progress}
        store, tokens = fitting._states(policy, rows, policy.blocks - 1, FORMAT, 4096, path, **how)
        states = Rows.of(rows["length"], None).inputs(store, policy.blocks - 1, None)
    for k in range(SPLITS):
        yield rows, agreed, states, tokens, folds_of(rows["question"], 7) == k


def of_split(
    rows: pd.DataFrame,
    agreed: np.ndarray,
    states: np.ndarray,
    tokens: np.ndarray,
    held: np.ndarray,
    kinds: Sequence[str] = KINDS,
) -> dict[str, dict[str, float]]:
    """The Brier score of each of the kinds on each of `PARTS`."""
    known, correct = rows[~held].reset_index(drop=True), rows["correct"].to_numpy()
    truncated, groups = rows["truncated"].to_numpy(), rows["question"].to_numpy()[~held]
    found = {"constant": np.full(held.sum(), correct[~held].mean())}
    if {BEST, ALONE} & {*kinds}:
        found |= dict(zip((BEST, ALONE), by_recipe(known, states, tokens, held), strict=True))
    logarithm = np.log(rows["length"])
    features = np.column_stack([tokens, logarithm])
    for kind, columns in {TREES: [states, features], TREES_OF_FEATURES: [features]}.items():
        if kind in kinds:
            inputs = np.column_stack([*columns, truncated])
            trees = HistGradientBoostingClassifier(random_state=0).fit(inputs[~held], correct[~held])
            found[kind] = trees.predict_proba(inputs[held])[:, 1]
    read = {kind: [states, tokens] if also else [states] for kind, also in PROBES.items()}
    read |= {
        FEATURES: [features],
        GROUP: [agreed],
        TOKENS: [tokens[:, 0]],
        LENGTH: [logarithm, rows["length"]],
        FLAG: [],
    }
    for kind, columns in read.items():
        if kind not in kinds:
            continue
        flag = [] if kind in (PROBE, ALONE_PROBE) else [truncated]
        inputs = np.column_stack([*columns, *flag]).astype(np.float64)
        scaler = StandardScaler().fit(inputs[~held])
        inputs = scaler.transform(inputs)
        model = LogisticRegression(C=1e3, solver="newton-cholesky")
        if kind in PROBES:
            model = GridSearchCV(model, GRID, cv=GroupKFold(5), scoring="neg_brier_score")
            model.fit(inputs[~held], correct[~held], groups=groups)
        else:
            model.fit(inputs[~held], correct[~held])
        found[kind] = model.predict_proba(inputs[held])[:, 1]
    error = {kind: np.square(found[kind] - correct[held]) for kind in kinds}
    parts = {"all": np.ones(held.sum(), dtype=bool), "ended": ~truncated[held]}
    return {part: {kind: float(one[chosen].mean()) for kind, one in error.items()} for part, chosen in parts.items()}


def by_recipe(
    known: pd.DataFrame, states: np.ndarray, tokens: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Confidences of the recipe best in held-out responses, and of the best of states alone."""
    width, each = states.shape[1], Rows.of(known["length"], None)
    inputs = np.concatenate([states, tokens], axis=1)
    settings, fold = CompanionSettings(targets=("binary",)), folds_of(known["question"], 42)
    learnt = known.assign(truncated=False)
    chosen = best(each, inputs[~held], {width, inputs.shape[1]}, width, learnt, fold, settings)
    with torch.inference_mode():
        first, second = (
            one.model(torch.from_numpy(inputs[held, : len(one.model.input_mean)])).mean(dim=0).numpy()
            for one in (chosen, chosen.alone or chosen)
        )
    return first, second


if __name__ == "__main__":
    main()
