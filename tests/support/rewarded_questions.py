"""A training set whose golds are answers that the micro policy gives, so that there is reward to learn from."""

from pathlib import Path

from cocal.answers.extraction import extract_answer
from cocal.models.loading import Policy
from cocal.models.text import chat_ids
from cocal.store import read_frame, write_frame
from cocal_study.generation.engines import Sampling
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS


def write_rewarded(path: Path, policy: Policy, questions: Path) -> Path:
    """Write the set to `path`, with the questions of another set."""
    frame = read_frame(questions, QUESTIONS)
    engine = TransformersEngine.of(policy, 64)
    ids = chat_ids(policy.tokenizer, [Prompts("tiny").message("answer", q) for q in frame["question"]])
    sampling = Sampling(1.0, 1000, 1.0, 0.0, max_tokens=20, samples=8)
    groups = engine.generate(ids, sampling, [8 * i for i in range(len(ids))])
    answers = [[extract_answer(policy.tokenizer.decode(c.token_ids)) for c in group] for group in groups]
    golds = [sorted({a for a in found if a}) or ["1"] for found in answers]
    frame["answer"], frame["aliases"] = [found[0] for found in golds], [found[1:] for found in golds]
    write_frame(path, frame, QUESTIONS, {})
    return path
