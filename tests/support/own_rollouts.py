"""A policy of one's own: the micro policy with its rollouts as projects write them, the commands about it, and how they
are killed on the way."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

import dumps
from cocal.cli import main
from cocal.models.loading import Policy
from cocal.store import read_frame
from cocal_study.store.contracts import QUESTIONS
from micro import scale_weights

SMALL = ["--recipe", "paper", "--widths", "16", "8", "--seeds", "42", "137", "--passes", "2"]
"""Flags of a small companion of the paper's recipe."""


@dataclass(frozen=True)
class OwnPolicy:
    """The micro policy with the question table of its training, as somebody who has trained it; what is made goes into
    `folder`."""

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

    def as_texts(self) -> list[dict]:
        """The rollouts as rows of texts without ids."""
        return [
            {"prompt": self.texts[row.question_id], "response": row.text, "correct": row.correct, "step": row.step}
            for row in self.rollouts.itertuples()
        ]

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

    def fitted(self, folder: Path, *more) -> Path:
        """A companion that `cocal fit` has made in a folder of the rollouts as lines of one's own (`write_lines`)."""
        source = write_lines(folder / "mine.jsonl", self.rollouts, self.texts)
        assert self.fit(source, folder / "companion", *more) == 0
        return folder / "companion"

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
    for step, frame in rollouts.groupby("step"):
        lines = [
            {
                "input": tokenizer.decode(row.prompt_ids, skip_special_tokens=True),
                "output": tokenizer.decode(row.response_ids, skip_special_tokens=True),
                "gts": "?",
                "score": float(row.correct),
                "step": step,
                "acc": row.correct,
                "request_id": "r",
            }
            for row in frame.sample(frac=1, random_state=int(step)).itertuples()
        ]
        dumps.json_lines(folder / f"{step}.jsonl", lines)
    return folder


def write_lines(path: Path, rollouts: pd.DataFrame, questions: pd.Series, **more) -> Path:
    """JSON lines of one's own, with exact ids.

    Args:
        questions: Text of each question by its id.
        more: Further fields, a value for each row.
    """
    names = ["question_id", "prompt_ids", "response_ids", "correct", "step", "truncated"]
    columns = {name: list(rollouts[name]) for name in names} | more
    columns["prompt"] = [questions[name] for name in rollouts["question_id"]]
    dumps.json_lines(path, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    return path


_THOUGHT = (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)


def _other_template(model: Path, source: Path) -> None:
    file = model / "chat_template.jinja"
    file.write_text(file.read_text() + _THOUGHT)


def exchange_ids(source: Path, row: int, name: str) -> None:
    """Exchange the first two ids of a prompt or response; size and time of the file stay."""
    state, rows = source.stat(), read_lines(source)
    first, second, *others = rows[row][name]
    assert first != second
    rows[row][name] = [second, first, *others]
    dumps.json_lines(source, rows)
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert source.stat().st_size == state.st_size


CHANGES = {
    "weights": lambda model, source: scale_weights(model, 1.01),
    "template": _other_template,
    "prompts": lambda model, source: exchange_ids(source, 3, "prompt_ids"),
    "responses": lambda model, source: exchange_ids(source, 3, "response_ids"),
}
"""Functions that change the files of a model, or the lines of a source."""


def killed_at(monkeypatch, owner, name: str, number: int, size: int) -> list[int]:
    """A function is killed at its call with that number; the list gets the size of one argument of every call."""
    real, seen = getattr(owner, name), []

    def killed(*given, **options):
        seen.append(len(given[size]))
        if len(seen) == number:
            raise KeyboardInterrupt
        return real(*given, **options)

    monkeypatch.setattr(owner, name, killed)
    return seen


def tables(text: str) -> list[dict[str, dict[str, str]]]:
    """The tables of a text: cells by the heads of their columns, and by the first cell of their rows."""
    found = []
    for part in text.split("\n\n"):
        lines = [line for line in part.splitlines() if line.startswith("|")]
        heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines] or [[], []]
        if heads:
            found.append({head: {row[0]: row[place] for row in rows} for place, head in enumerate(heads)})
    return found
