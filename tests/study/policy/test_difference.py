"""A training stops if vLLM samples from another policy. sharded/train.py has the stand-in for vLLM, on one process."""

import os
import sys
from pathlib import Path

import pytest

import started
from cocal.store import read_document
from micro_trainer import train_words

SCRIPT = Path(__file__).parent / "sharded/train.py"
SETTINGS = {
    "algorithms": [],
    "steps": 2,
    "stages": [2],
    "questions_per_step": 2,
    "responses_per_question": 4,
    "max_response_length": {"grpo": 12},
    "trl": {"vllm": True, "vllm_difference": 0.1},
}


@pytest.fixture
def words(tmp_path, micro_checkpoint, micro_questions):
    def of(**changes) -> list[str]:
        questions = micro_questions / "micro-train.parquet"
        return [sys.executable, str(SCRIPT), *train_words(tmp_path, SETTINGS | changes, micro_checkpoint, questions)]

    return of


def _environment(difference: float) -> dict[str, str]:
    return os.environ | {"TEST_PRECISION": "no", "TEST_DIFFERENCE": str(difference)}


@pytest.mark.long
def test_differences_are_recorded_by_step(words, tmp_path):
    said = started.said(words(), _environment(0.05))
    assert "vLLM off by 0.0500 (at most 0.05)" in said
    assert read_document(tmp_path / "cost.json")["vllm_differences"] == [pytest.approx([0.05, 0.05], abs=1e-4)] * 2


@pytest.mark.long
def test_a_training_stops_above_the_bound(words):
    done = started.run(words(), environment=_environment(-0.2))
    assert done.returncode != 0
    assert "step 1: vLLM's log-probabilities differ from the trainer's by" in done.stderr
    assert "more than policy.trl.vllm_difference = 0.1" in done.stderr
