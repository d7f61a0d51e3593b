"""A policy of one's own: the micro policy with its rollouts as projects write them, and the commands about it."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

import dumps
from cocal.cli import main
from cocal.models.loading import Policy
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS

SMALL = ["--widths", "16", "8", "--seeds", "42", "137", "--passes", "2"]
"""Flags of a small companion."""


@dataclass(frozen=True)
class OwnPolicy:
    """The micro policy, as somebody who has trained it.

    Attributes:
        checkpoint: Its folder.
        policy: The loaded checkpoint.
        training_set: Question table of its training.
        folder: Folder for what is made.
    """

    checkpoint: Path
    policy: Policy
    training_set: Path
    folder: Path

    @cached_property
    def questions(self) -> pd.DataFrame:
        """The training set, with golds that the policy sometimes gives."""
        frame = read_frame(self.training_set, QUESTIONS)
        drawn = dumps.sampled(self.policy, frame).dropna(subset="answer")
        first = drawn.groupby("question_id")["answer"].first()
        return frame.assign(answer=frame["question_id"].map(first).fillna(frame["answer"]))

    @cached_property
    def texts(self) -> pd.Series:
        """Text of each question by its id."""
        return self.questions.set_index("question_id")["question"]

    @cached_property
    def rollouts(self) -> pd.DataFrame:
        """Rollouts in the contract of the workflow."""
        found = dumps.sampled(self.policy, self.questions)
        assert 0 < found["correct"].mean() < 1
        assert 0 < found["truncated"].mean() < 1
        return found

    @cached_property
    def verl(self) -> Path:
        """The same rollouts as verl's JSON lines."""
        return write_verl(self.folder / "verl", self.rollouts, self.policy.tokenizer)

    @cached_property
    def companion(self) -> Path:
        """A companion that `cocal fit` has made of verl's lines."""
        output = self.folder / "companion"
        assert self.fit(self.verl, output, "--max-response-length", "20") == 0
        return output

    def fit(self, rollouts: Path, output: Path, *more) -> int:
        """`cocal fit`; returns its status."""
        return run("fit", "--model", self.checkpoint, "--rollouts", rollouts, "--output", output, *SMALL, *more)

    def score(self, source: Path, output: Path, *more, model: str | None = None, companion: str | None = None) -> int:
        """`cocal score`, which may replace what it has written before; returns its status."""
        of = "--companion", companion or self.companion, "--model", model or self.checkpoint
        return run("score", *of, source, output, "--overwrite", *more)


def run(*words) -> int:
    """A command of `cocal`; returns its status."""
    return main([str(word) for word in words])


def read_lines(path: Path) -> list[dict]:
    """The lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_verl(folder: Path, rollouts: pd.DataFrame, tokenizer) -> Path:
    """`RayPPOTrainer._log_rollout_data` of verl 0.5 to 0.8 (`trainer.rollout_data_dir`): a file a step, whose rows lie
    as the batch was balanced; texts are decoded without special tokens."""
    folder.mkdir(parents=True)
    for step, frame in rollouts.groupby("step"):
        rows = frame.sample(frac=1, random_state=int(step))
        prompts, responses = rows["prompt_ids"].map(list).tolist(), rows["response_ids"].map(list).tolist()
        inputs = tokenizer.batch_decode(prompts, skip_special_tokens=True)
        outputs = tokenizer.batch_decode(responses, skip_special_tokens=True)
        scores = rows["correct"].astype(float).tolist()
        base = {"input": inputs, "output": outputs, "gts": ["?"] * len(rows), "score": scores}
        base |= {"step": [int(step)] * len(rows), "acc": rows["correct"].tolist(), "request_id": ["r"] * len(rows)}
        given = (dict(zip(base, values, strict=True)) for values in zip(*base.values(), strict=True))
        lines = [json.dumps(one, ensure_ascii=False) for one in given]
        (folder / f"{step}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_lines(path: Path, rollouts: pd.DataFrame, questions: pd.Series, **more) -> Path:
    """JSON lines of one's own, with exact ids.

    Args:
        questions: Text of each question by its id.
        more: Further fields, a value for each row.
    """
    rows = [
        {
            "question_id": row.question_id,
            "prompt": questions[row.question_id],
            "prompt_ids": [int(token) for token in row.prompt_ids],
            "response_ids": [int(token) for token in row.response_ids],
            "correct": bool(row.correct),
            "step": int(row.step),
            "truncated": bool(row.truncated),
            **{name: values[place] for name, values in more.items()},
        }
        for place, row in enumerate(rollouts.itertuples())
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
