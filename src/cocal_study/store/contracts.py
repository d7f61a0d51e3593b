"""Contracts of the tables that only a study writes: its questions, responses that no judge has seen yet, replies of a
judge, scores of companions that learn online, and predictions."""

from dataclasses import replace

import pyarrow as pa
from pandera.pandas import Check

from cocal.store.contracts import RESPONSES, Rule, contract_of, flag, integer, nullable_flag, share, text, words

QUESTIONS = contract_of(
    "questions",
    {
        "dataset": text(),
        "question_id": text(),
        "question": text(Check.str_length(min_value=1)),
        "answer": text(Check.str_length(min_value=1)),
        "aliases": (pa.list_(pa.string()), None),
        "domain": words("mathematics", "factual"),
        "split": words("training", "evaluation"),
        "subject": text(),
        "level": integer(0),
    },
    unique=("dataset", "question_id"),
)
"""Each row is one question. `aliases` are further accepted answers; `level` is the difficulty, or 0 if unknown."""

VERDICTS = ("answer_class", "correct", "exact_match", "decided", "group_accuracy")
"""Columns of RESPONSES that a judge fills in."""

SAMPLED = replace(
    RESPONSES, name="sampled responses", types={n: t for n, t in RESPONSES.types.items() if n not in VERDICTS}
)
"""Responses that have not been judged yet."""

JUDGEMENTS = contract_of(
    "judgements", {"key": text(Check.str_length(32, 32)), "reply": text(), "engine": text()}, unique=("key",)
)
"""Each row is one reply of a judge. `key` is the digest of the message, `engine` the engine's name and version."""

PREQUENTIAL = contract_of(
    "prequential scores",
    {
        "window": integer(0),
        "source_step": integer(1),
        "step": integer(2),
        "target": text(),
        "seed": integer(0),
        "responses": integer(0),
        "accuracy": share(nullable=True),
        "mean_confidence": share(nullable=True),
        "ece": share(nullable=True),
        "auroc": share(nullable=True),
        "kept_bytes": integer(0),
    },
    unique=("window", "source_step", "target", "seed"),
    rules=(
        Rule(
            "step must be the one after source_step",
            ("step", "source_step"),
            lambda frame: frame["step"] == frame["source_step"] + 1,
        ),
    ),
)
"""Each row scores one companion on the rollouts of the step after those that it has learnt from (`source_step`).

Only `responses` to questions that no earlier step has asked are scored; where there are none, all scores are null.
`window` is the number of rollout steps that an online companion learns from together, or 0 for a companion that was
fitted by replaying stored states. `kept_bytes` is the size of the states that this way of learning keeps."""

PREDICTIONS = contract_of(
    "predictions",
    {
        "backbone": text(),
        "algorithm": text(),
        "step": integer(0),
        "dataset": text(),
        "question_id": text(),
        "response_id": integer(0),
        "method": text(),
        "seed": integer(-1),
        "source_step": integer(-1),
        "validation_step": integer(-1),
        "layer": integer(-1),
        "pooling": text(),
        "confidence": share(nullable=True),
        "valid": flag(),
        "correct": flag(),
        "truncated": flag(),
        "answered": flag(),
        "decided": flag(),
        "exact_match": nullable_flag(),
        "p_true_mass": share(nullable=True),
    },
    unique=(
        *("backbone", "algorithm", "step", "dataset", "method", "seed"),
        *("source_step", "validation_step", "layer", "pooling", "response_id"),
    ),
    rules=(
        Rule(
            "a valid row needs a confidence and an invalid one must have none (NaN)",
            ("confidence", "valid"),
            lambda frame: frame["confidence"].notna() == frame["valid"],
        ),
    ),
)
"""Each row is one confidence; a higher one means that the response is more likely correct.

`seed` is -1 for methods without training seeds. `source_step` is the number of rollout steps that the companion learnt
from, and `validation_step` the number of steps whose validation responses chose its best pass. `layer` is the
zero-based block index and `pooling` names the pooled states (such as "last+mean") that it reads. A method without a
companion has -1, -1, -1 and "". The columns from `correct` to `exact_match` describe the response
(RESPONSES) and are the same for all methods; `answered` says whether it has an answer. `p_true_mass` belongs to P(True)
and is null for other methods."""
