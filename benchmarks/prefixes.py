"""What confidence knows while a response grows, on the policy of a finished study:
`python benchmarks/prefixes.py --output studies/fits/prefixes.csv`.

Companions are fitted as `cocal fit` does: on whole responses, on prefixes, too, and reading token probabilities beside
the states. They are asked about the study's evaluated responses to mathematical questions, none of which they learnt
from. Written are the rows that `figures/prefixes` reads, beside those of other studies that the file has: as means over
the mathematical sets, AUROC after a share `at` of a response's tokens, among the responses that have a confidence by
then; and the share of all tokens that are saved where responses are stopped at a threshold by which a share `at` of the
right ones is lost, the threshold chosen on these responses.
"""

import argparse
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal import Companion
from cocal.fitting.models import Checkpoint
from cocal.metrics.calibration import auroc
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.study import Study, load_study
from cocal_study.exhibits.prefixes import AUROC, COLUMNS, OWN, PREFIXES, SAVED, WHOLE, WITH_TOKENS
from cocal_study.planning.results import policy_folder, responses_file, rollouts_folder
from fits import write_beside

SHARES = tuple(k / 10 for k in range(1, 11))
LOST = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1)


class Grown(NamedTuple):
    """Confidences in the responses to one question set while they grow."""

    until: Sequence[np.ndarray]
    """Of each response, the numbers of its tokens after which there is a confidence, int (k,), up to its length."""
    trajectories: Sequence[np.ndarray]
    """Of each response, these confidences, float64 (k,)."""
    correct: np.ndarray
    """Whether each response is right, bool (n,)."""

    def auroc(self, share: float) -> float:
        """AUROC after this share of each response's tokens, at the last place that has a confidence."""
        places = np.array([np.searchsorted(at, share * at[-1] + 1e-9, side="right") - 1 for at in self.until])
        values = np.array([trajectory[place] for trajectory, place in zip(self.trajectories, places, strict=True)])
        return auroc(values[places >= 0], self.correct[places >= 0])

    def saved(self, lost: float) -> float:
        """Share of all tokens that are saved by the highest threshold that loses at most a share of the right ones; NaN
        where none is right."""
        if not self.correct.any():
            return math.nan
        lowest = np.array([trajectory[:-1].min(initial=np.inf) for trajectory in self.trajectories])
        right = np.sort(lowest[self.correct])
        threshold = right[int(lost * len(right) + 1e-9)]
        stops = [
            at[np.flatnonzero(trajectory[:-1] < threshold)[0]] if least < threshold else at[-1]
            for at, trajectory, least in zip(self.until, self.trajectories, lowest, strict=True)
        ]
        return float(1 - sum(stops) / sum(at[-1] for at in self.until))


def main() -> None:
    """Measure one study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=Path, default=Path("config/config.yaml"))
    parser.add_argument("--directory", type=Path, default=Path(), help="folder of the study's results")
    parser.add_argument(
        "--every", type=int, default=16, help="tokens after each of which companions learn and are asked"
    )
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    study, rows = load_study(given.study), []
    for method, grown in followed(study, given.directory, given.every):
        head = study.study, study.main_backbone, given.every, method
        rows += [(*head, AUROC, share, grown.auroc(share)) for share in SHARES]
        rows += [(*head, SAVED, lost, grown.saved(lost)) for lost in LOST]
    per_set = pd.DataFrame(rows, columns=list(COLUMNS))
    means = per_set.groupby(list(COLUMNS[:-1]), sort=False)["value"].mean().reset_index()
    write_beside(given.output, means, ["study"])


def followed(study: Study, folder: Path, every: int) -> Iterator[tuple[str, Grown]]:
    """Every method with the confidences in the growing responses to a set, one set after another."""
    backbone, step = study.main_backbone, study.policy.steps
    policy = Checkpoint.find(str(folder / policy_folder(backbone, "grpo", step))).load("float32")
    given, rollouts = (policy.model, policy.tokenizer), folder / rollouts_folder(backbone, "grpo")
    companions = {}
    for method, prefixes, reads in ((WHOLE, None, False), (PREFIXES, every, False), (WITH_TOKENS, every, True)):
        logging.info("fitting: %s", method)
        one = companions[method] = Companion.fit(*given, rollouts, prefixes=prefixes, token_probability=reads)
        one.config = one.config.model_copy(update={"prefixes": every})  # one of whole responses is asked, too
    for dataset in study.evaluation_sets("mathematics"):
        responses = read_frame(folder / responses_file(backbone, "grpo", step, "answer", dataset), RESPONSES)
        responses = responses[responses["sample"] < study.datasets[dataset].samples]
        correct, logprobs = responses["correct"].to_numpy(bool), responses["logprobs"]
        until = [np.append(np.arange(every, n, every), n) for n in responses["length"]]
        so_far = [np.exp(np.cumsum(one)[at - 1] / at) for one, at in zip(logprobs, until, strict=True)]
        yield OWN, Grown(until, so_far, correct)
        ids = responses["prompt_ids"].tolist(), responses["response_ids"].tolist()
        for method, companion in companions.items():
            whole, trajectories = companion.score(*given, *ids, every=every)
            joined = [np.append(trajectory, last) for trajectory, last in zip(trajectories, whole, strict=True)]
            yield method, Grown(until, joined, correct)


if __name__ == "__main__":
    main()
