"""The verifier on answers of public reports whose right verdicts are known, where their file is at hand."""

import json
import os
from pathlib import Path

import pytest

from cocal.answers.equivalence import Verifier
from cocal.answers.judge import ExactMatch
from cocal.answers.settings import VerifierSettings
from verified import equivalent

CASES = Path(os.environ.get("COCAL_CASES", Path(__file__).resolve().parents[4] / "shared/cases"))
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"no cases in {CASES}; COCAL_CASES names their folder")
REFUSED = {
    (r"\text{right triangle}", r"\text{right-angled triangle}"),  # two phrases; their letters differ
    ("f(x)=cx", "f(x)=kx"),  # the question may have given c
}
"""Right answers that are refused, each with its reason. No wrong one is accepted."""


def cases(name: str) -> list[dict]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_mathematical_answers():
    rows = cases("answers.jsonl") + cases("answers-bracket-kinds.jsonl")
    with Verifier(VerifierSettings()) as verifier:
        verdicts = equivalent(verifier, [(row["gold"], row["answer"]) for row in rows])
    wrong = [row for row, verdict in zip(rows, verdicts, strict=True) if verdict != row["right"]]
    assert {(row["gold"], row["answer"]) for row in wrong} <= REFUSED


def test_factual_answers():
    rows = cases("answers-factual.jsonl")
    verdicts = ExactMatch().correct([row["gold"] for row in rows], [row["answer"] for row in rows], [])
    assert verdicts.values.tolist() == [row["right"] for row in rows]
