"""A small run of policy training for the tests of companions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Prefix
from cocal.companion.supervision import in_validation
from cocal.features.store import create_features, open_features
from cocal.store import write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.generation.labels import read_rollouts
from cocal_study.store.contracts import QUESTIONS

SETTINGS = CompanionSettings(widths=(8, 7, 6, 5), batch_size=32, passes=4, learning_rate=0.002, seeds=(42, 137, 500))
STEPS, GROUPS, GROUP, HIDDEN = 3, 20, 8, 6
LAYERS = [0, 2, 5]
PER_STEP = GROUPS * GROUP


@dataclass
class Run:
    """A small run of policy training: tables in memory, and where they are written."""

    folder: Path
    responses: pd.DataFrame
    questions: pd.DataFrame
    features: np.ndarray

    def write(self, dtype: str = "float32") -> "Run":
        for step, rows in self.responses.groupby("step"):
            write_frame(self.folder / "rollouts" / f"step-{step:05d}.parquet", rows, RESPONSES, {})
        write_frame(self.folder / "questions.parquet", self.questions, QUESTIONS, {})
        options = {"rows_per_chunk": PER_STEP, "dtype": dtype, "attributes": {"digest": "abc"}}
        write_states(self.folder / "features.zarr", self.responses, self.features, LAYERS, **options)
        return self

    def read(self, steps: int = STEPS) -> pd.DataFrame:
        return read_rollouts(self.folder / "rollouts", self.folder / "questions.parquet", steps)

    def fit(self, steps: int | str = STEPS, settings: CompanionSettings = SETTINGS, **options):
        return next(self.fits([steps], settings, **options))

    def fits(self, words: list[int | str], settings: CompanionSettings = SETTINGS, **options):
        """Companions of N or "N/M" steps each."""
        prefixes = [Prefix.parse(str(word)) for word in words]
        features, rollouts = open_features(self.folder / "features.zarr"), self.read(max(map(max, prefixes)))
        return fit_companions(settings, features, rollouts, self.questions["question"], prefixes, **options)

    def held_out(self, rollouts: pd.DataFrame) -> np.ndarray:
        """Which rows are of validation questions."""
        texts = self.questions["question"]
        return in_validation(rollouts["question"], texts, SETTINGS.validation_share, SETTINGS.split_seed)

    def command(self, output: Path, *flags: str) -> list[str]:
        places = ["rollouts", "questions.parquet", "features.zarr"]
        inputs = [f"--{name.split('.')[0]}={self.folder / name}" for name in places]
        settings = SETTINGS.model_dump_json()
        return ["companions", "--settings", settings, *inputs, "--steps", "2", f"--output={output}", *flags]


def write_states(path: Path, rows: pd.DataFrame, states: np.ndarray, layers: list[int], **options) -> None:
    """A store of features (rows, layers, poolings, hidden), float32 unless the options of `create_features` differ."""
    options = {"rows_per_chunk": len(rows), "dtype": "float32"} | options
    writer = create_features(path, responses=len(rows), layers=layers, hidden=states.shape[-1], **options)
    writer.write(0, rows, states)


def small_run(folder: Path, seed: int = 0) -> Run:
    """Rollouts whose correctness shows in the features; not yet written."""
    draw = np.random.default_rng(seed)
    count = STEPS * PER_STEP
    correct = draw.random(count) < np.repeat(draw.random(count // GROUP), GROUP)
    # At most four of a group are truncated and wrong, so that filtering them changes its accuracy.
    truncated = ~correct & (np.arange(count) % GROUP < 4) & (draw.random(count) < 0.3)
    features = draw.normal(size=(count, len(LAYERS), 2, HIDDEN)).astype(np.float32)
    features[..., :2] += np.where(correct, 0.7, -0.7)[:, None, None, None]
    length = draw.integers(1, 4, count)
    responses = pd.DataFrame(
        {
            "dataset": "train",
            "question_id": [f"q-{(row // GROUP) % 45}" for row in range(count)],
            "response_id": np.arange(count),
            "step": np.arange(count) // PER_STEP + 1,
            "sample": np.arange(count) % GROUP,
            "prompt_ids": [[1, 2, *range(row // GROUP % 5)] for row in range(count)],
            "response_ids": [[*range(3, 3 + n)] for n in length],
            "logprobs": [[-(1 + row % 7) / 8] * n for row, n in enumerate(length)],
            "text": "text",
            "length": length,
            "finish_reason": np.where(truncated, "length", "stop"),
            "truncated": truncated,
            "mean_logprob": -(1 + np.arange(count) % 7) / 8,
            "answer": "1",
            "correct": correct,
            "exact_match": None,
            "decided": True,
            "group_accuracy": np.repeat(correct.reshape(-1, GROUP).mean(axis=1), GROUP),
            "reward_task": correct.astype(float),
            **dict.fromkeys(("answer_class", "reward_calibration", "confidence", "p_true", "p_true_mass"), np.nan),
        }
    )
    texts = {f"q-{k}": f"What is {k} + {k}?" for k in range(45)}
    return Run(folder, responses, question_table(texts, dataset="train", split="training"), features)


def question_table(texts: dict[str, str], **columns: str) -> pd.DataFrame:
    """Questions by their ids, all with the answer 1 (contract QUESTIONS)."""
    shared = {"answer": "1", "domain": "mathematics", "subject": "sums", "level": 1} | columns
    rows = [{"question_id": name, "question": text, "aliases": []} for name, text in texts.items()]
    return pd.DataFrame(rows).assign(**shared)


def final_features(run: Run) -> np.ndarray:
    """Last || mean of the deepest layer."""
    return run.features[:, -1].reshape(len(run.features), -1)
