"""A small study with rollouts, companions and evaluation responses, for the tests of recalibrated baselines."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.cli import main
from cocal.companion.settings import CompanionSettings
from cocal.store import read_frame, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.planning.baselines import BASELINES
from cocal_study.store.contracts import PREDICTIONS, QUESTIONS
from companion_run import HIDDEN, LAYERS, SETTINGS, STEPS, Run, question_table, small_run, write_states
from evaluated_study import POOL, SAMPLES, responses
from planned_jobs import FIXED_BASELINES

ONE_LAYER = SETTINGS.model_copy(update={"widths": SETTINGS.widths[:1], "dropout": SETTINGS.dropout[:1]})
PREVIOUS = 2
"""Step after which the last stage begins."""
OF_GRPO = [name for name in FIXED_BASELINES if name not in ("rlcr", "dcpo")]


@dataclass
class Recalibrated:
    """Everything on disk below a folder; `command` makes the words of `cocal recalibrate`."""

    folder: Path
    run: Run
    resampled: Run
    responses: pd.DataFrame

    def write(self) -> "Recalibrated":
        """Write rollouts, PostCal's responses, companions, the evaluation set, its responses and their states."""
        for name, run, flags in (
            ("rollouts", self.run.write(), []),
            ("one-layer", self.run, ["--settings", ONE_LAYER.model_dump_json()]),
            ("resampled", self.resampled.write(), ["--order=shuffled", "--shuffle-seed=42"]),
        ):
            assert main([*run.command(self.folder / name), "--steps", str(STEPS), *flags]) == 0
        write_frame(self.folder / "sums.parquet", questions_of(self.responses), QUESTIONS, {})
        write_frame(self.folder / "answer/sums.parquet", self.responses, RESPONSES, {})
        evaluated = self.responses[self.responses["sample"] < SAMPLES]
        states = np.random.default_rng(2).normal(size=(len(evaluated), len(LAYERS), 2, HIDDEN)).astype(np.float32)
        write_states(self.folder / "states/sums.zarr", evaluated, states, LAYERS)
        return self

    def command(self, *flags: str, baselines=OF_GRPO, settings: CompanionSettings = SETTINGS) -> list[str]:
        folder, place = self.folder, self.run.folder
        words = ["recalibrate", "--baselines", *baselines, "--split", settings.model_dump_json(), "--samples"]
        words += [f'{{"sums": {SAMPLES}}}', f"--pool={POOL}", "--backbone=tiny", "--algorithm=grpo", f"--step={STEPS}"]
        words += [f"--rollouts={place / 'rollouts'}", f"--questions={place / 'questions.parquet'}"]
        words += [f"--evaluated={folder / 'sums.parquet'}", f"--responses={folder / 'answer'}"]
        words += [f"--previous-stage={PREVIOUS}"]
        if any(BASELINES[name].reader for name in baselines):
            other = self.resampled.folder
            words += [f"--resampled={other / 'rollouts'}", f"--resampled-features={other / 'features.zarr'}"]
            words += [f"--features={folder / 'states'}", f"--rollout-features={place / 'features.zarr'}"]
            kinds = dict.fromkeys(BASELINES[name].reader for name in baselines)
            words += ["--companions", *(f"{k}={folder / k}/steps-{STEPS}" for k in kinds if k not in (None, "linear"))]
        words += [f"--output-calibrators={folder / 'calibrators.json'}", f"--output={folder / 'out.parquet'}"]
        return [*words, *flags]

    def predictions(self) -> pd.DataFrame:
        return read_frame(self.folder / "out.parquet", PREDICTIONS)


def questions_of(frame: pd.DataFrame) -> pd.DataFrame:
    texts = {name: f"How much is {name}?" for name in frame["question_id"].unique()}
    return question_table(texts, dataset="sums", split="evaluation")


def small_study(folder: Path) -> Recalibrated:
    """Rollouts whose token probabilities, answers and stated confidences tell something, and PostCal's responses; not
    yet written."""
    run, draw = small_run(folder / "run"), np.random.default_rng(3)
    rollouts = run.responses
    correct = rollouts["correct"].to_numpy()
    rollouts["logprobs"] = [
        -draw.exponential(0.3 if right else 0.6, length).astype(np.float32)
        for right, length in zip(correct, rollouts["length"], strict=True)
    ]
    rollouts["mean_logprob"] = [float(values.mean(dtype=np.float64)) for values in rollouts["logprobs"]]
    wrong = draw.integers(2, 9, len(rollouts)).astype(str)
    rollouts["answer"] = np.where(rollouts["truncated"], None, np.where(correct, "1", wrong))
    rollouts["confidence"] = np.where(draw.random(len(rollouts)) < 0.1, np.nan, (0.3 + 0.4 * correct).round(1))
    return Recalibrated(folder, run, small_run(folder / "postcal", seed=4), responses().assign(step=STEPS))
