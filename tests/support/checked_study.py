"""A small study that keeps the protocol, for the tests of the checks."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import sample_predictions
from cocal.cli import main
from cocal.companion.spec import read_spec
from cocal.store import write_frame
from cocal_study.checks.training import Fit, read_table
from cocal_study.store.contracts import PREDICTIONS
from companion_run import GROUP, SETTINGS, Run, small_run

SEEDS = SETTINGS.seeds
COMPANIONS = ["rollouts=companions/grpo/steps-1", "rollouts=companions/grpo/steps-3"]
COMPANIONS += ["rollouts=companions/grpo/steps-1-validation-3"]
COMPANIONS += ["resampled=companions/postcal/steps-1-validation-3", "resampled=companions/postcal/steps-3"]


def predicted(method: str, seed: int = -1, source_step: int = -1, **changes) -> pd.DataFrame:
    """Predictions of one method and seed on ten responses; equal for equal arguments."""
    outcome = np.random.default_rng(0)
    correct, truncated = outcome.random(10) < 0.5, outcome.random(10) < 0.2
    correct = changes.pop("correct", correct)
    confidence = np.random.default_rng([seed + 1, source_step + 1, *method.encode()]).random(10)
    place = {"backbone": "tiny", "step": 3, "dataset": "sums", "question_id": [f"q-{i}" for i in range(10)]}
    place |= {"validation_step": -1 if seed < 0 else 3, "truncated": truncated}
    return sample_predictions.predicted(method, seed, confidence, correct, source_step, **(place | changes))


def main_predictions() -> pd.DataFrame:
    """The final policy's table: companions of the full budget beside methods without one."""
    learnt = [
        predicted(f"{kind}-{target}", s, 3)
        for kind in ("postcal", "cocal")
        for target in SETTINGS.targets
        for s in SEEDS
    ]
    own = predicted("verbal", correct=[True] * 10)
    return pd.concat([own, predicted("p-true"), *learnt], ignore_index=True)


def sweep_predictions() -> pd.DataFrame:
    """Both budgets of both kinds of companion; the full one is in the main table too."""
    parts = [predicted(f"{kind}-binary", s, n) for kind in ("cocal", "postcal") for n in (1, 3) for s in SEEDS]
    return pd.concat(parts, ignore_index=True)


@dataclass
class Study:
    """A folder with everything that the checks read."""

    folder: Path

    def table(self, name: str) -> pd.DataFrame:
        """Rollouts or resampled responses."""
        return read_table(self.folder / name / "rollouts", self.folder / name / "questions.parquet")

    def fit(self, word: str) -> Fit:
        """From a word of COMPANIONS."""
        experience, _, folder = word.partition("=")
        return Fit(self.folder / folder, experience, read_spec(self.folder / folder))

    def command(self, companions: list[str] = COMPANIONS) -> list[str]:
        folder = self.folder
        words = ["checks", "--settings", SETTINGS.model_dump_json(), "--backbone=tiny"]
        words += [f"--rollouts={folder / 'grpo/rollouts'}", f"--resampled={folder / 'postcal/rollouts'}"]
        words += [f"--questions={folder / 'grpo/questions.parquet'}", f"--output={folder / 'checks.json'}"]
        words += ["--companions", *(word.replace("=", f"={folder}/") for word in companions)]
        return [*words, "--predictions", *(str(folder / f"{name}.parquet") for name in ("base", "main", "sweep"))]


def held_out_of(table: pd.DataFrame) -> np.ndarray:
    return small_run(Path()).held_out(table)


def sound_study(folder: Path) -> Study:
    """A study on disk: companions of two budgets on rollouts and on resampled responses, and predictions."""
    rollouts = small_run(folder / "grpo").write()
    outcomes = ["finish_reason", "truncated", "correct", "group_accuracy"]
    resampled = rollouts.responses.copy()
    resampled[outcomes] = np.roll(resampled[outcomes].to_numpy(), GROUP, axis=0)
    resampled = resampled.astype(rollouts.responses.dtypes)
    postcal = Run(folder / "postcal", resampled, rollouts.questions, rollouts.features).write()
    assert main(rollouts.command(folder / "companions/grpo", "--steps", "1", "1/3", "3")) == 0
    shuffled = ["--steps", "1/3", "3", "--order=shuffled", "--shuffle-seed=1"]
    assert main(postcal.command(folder / "companions/postcal", *shuffled)) == 0
    tables = {
        "base": predicted("base-verbal", algorithm="base", step=0),
        "main": main_predictions(),
        "sweep": sweep_predictions(),
    }
    for name, table in tables.items():
        write_frame(folder / f"{name}.parquet", table, PREDICTIONS, {})
    return Study(folder)
