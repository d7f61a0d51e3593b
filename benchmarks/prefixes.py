"""Confidence while responses grow: `python benchmarks/prefixes.py CHECKPOINT ROLLOUTS --every 4`.

A fifth of the questions is held out. Three companions are fitted on the others: one of whole responses, one that has
learnt from prefixes, too, and one that also reads token probabilities. Printed is the AUROC on the held-out responses,
cut ones included, after shares of their tokens (the last multiple of `--every` there), beside that of the mean token
probability so far; and for thresholds at which a response would be stopped, the share of tokens saved and the share of
right responses lost.
"""

import argparse
from pathlib import Path

import numpy as np

from cocal import Companion
from cocal.features.extract import token_inputs
from cocal.features.forward import score
from cocal.metrics.calibration import auroc
from cocal.models.text import batches_of_tokens
from cocal.own_policy import fitting
from cocal.own_policy.models import Checkpoint
from cocal.own_policy.recipes import folds_of
from cocal.own_policy.states import Encoder

SHARES = (0.25, 0.5, 0.75, 1.0)
THRESHOLDS = (0.05, 0.1, 0.2, 0.3)


def main() -> None:
    """Fit both companions, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("--every", type=int, default=16)
    options = parser.parse_args()
    policy = Checkpoint.find(options.checkpoint).load("float32")
    rows = fitting.read(options.rollouts, Encoder(policy), fitting.Reading()).rows
    held = folds_of(rows["question"], 7) == 0
    columns = ["prompt_ids", "response_ids", "question_id", "step", "correct", "truncated"]
    known, new = rows.loc[~held, columns], rows[held]
    ids = new["prompt_ids"].tolist(), new["response_ids"].tolist()
    correct, length = new["correct"].to_numpy(), new["length"].to_numpy()
    courses = {}
    states_alone = {"whole responses": (None, False), "prefixes too": (options.every, False)}
    for name, (prefixes, reads) in (states_alone | {"with token probability": (options.every, True)}).items():
        given = policy.model, policy.tokenizer, known
        companion = Companion.fit(*given, prefixes=prefixes, token_probability=reads)
        companion.about = companion.about.model_copy(update={"prefixes": options.every})  # asks the other one, too
        whole, found = companion.score(policy.model, policy.tokenizer, *ids, every=options.every)
        courses[name] = [np.append(course, last) for course, last in zip(found, whole, strict=True)]
    batches = batches_of_tokens([len(p) + len(r) for p, r in zip(*ids, strict=True)], 4096)
    given = score(policy.model, *ids, batches, layers=(0,), pad=policy.pad, logprobs=True).logprobs
    until = [np.append(np.arange(options.every, n, options.every), n) for n in length]
    courses["mean token probability"] = [
        token_inputs(one, at)[:, 0].astype(np.float64) for one, at in zip(given, until, strict=True)
    ]
    print(f"{held.sum():,} responses, {100 * correct.mean():.1f} % right\n")
    for kind, among in (("all", np.ones(len(new), dtype=bool)), ("those that ended", ~new["truncated"].to_numpy())):
        print(
            f"| AUROC, {kind}, after | {' | '.join(f'{share:.0%}' for share in SHARES)} |\n|---|{'---|' * len(SHARES)}"
        )
        for name, found in courses.items():
            cells = []
            for share in SHARES:
                place = [np.searchsorted(at, share * n, side="right") - 1 for at, n in zip(until, length, strict=True)]
                chosen = (np.array(place) >= 0) & among
                value = np.array([one[max(k, 0)] for one, k in zip(found, place, strict=True)])
                cells.append(f"{auroc(value[chosen], correct[chosen]):.3f}")
            print(f"| {name} | {' | '.join(cells)} |")
        print()
    heads = ("stopped below", "tokens saved (%)", "right responses lost (%)", "right among the stopped (%)")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for threshold in THRESHOLDS:
        grown = zip(courses["prefixes too"], until, strict=True)
        stops = np.array([next((at[k] for k in np.flatnonzero(one[:-1] < threshold)), 0) for one, at in grown])
        stopped = stops > 0
        saved = (length - stops)[stopped].sum() / length.sum()
        shares = (saved, (stopped & correct).sum() / correct.sum(), correct[stopped].sum() / max(stopped.sum(), 1))
        print(f"| {threshold} | {' | '.join(f'{100 * one:.1f}' for one in shares)} |")


if __name__ == "__main__":
    main()
