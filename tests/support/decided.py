"""Predictions and responses of a small study, for the tests of tables/decisions."""

import numpy as np
import pandas as pd

from cocal_study.config.evaluation import DecisionSettings
from cocal_study.exhibits import decisions
from sample_predictions import predicted

SETS = {"amc": (30, 4), "aime": (20, 2), "math": (300, 1), "popqa": (150, 1)}
"""Questions, and responses to each that have confidences, of each set."""
POOL = 4
METHODS = {"token-probability": (-1,), "cocal-binary": (42, 137), "cocal-pre-generation": (42, 137)}
LAYOUT = decisions.Layout(
    study="embedded",
    caption="Tiny policies & synthetic questions.",
    backbone="tiny-a",
    backbone_label="Tiny A",
    methods=tuple(METHODS),
    step=60,
    sets=[{"name": "amc", "label": "AMC", "samples": 4}, {"name": "aime", "label": "AIME", "samples": 2}],
    domains={"mathematics": ("math", "amc", "aime"), "factual": ("popqa",)},
    decisions=DecisionSettings(splits=5, max_risk=0.15, delta=0.08, seed=7),
    resamples=50,
    level=0.9,
    seed=42,
)


def pool(dataset) -> pd.DataFrame:
    """All sampled responses to a set; wrong answers are of two classes, and some responses have none."""
    questions, samples = SETS[dataset]
    samples = POOL if samples > 1 else 1
    draw = np.random.default_rng(len(dataset))
    skill = np.repeat(draw.random(questions) if dataset != "popqa" else np.full(questions, 0.2), samples)
    correct = draw.random(len(skill)) < skill
    classes = np.where(correct, 0, draw.choice([-1, 1, 1, 2], len(skill)))
    return pd.DataFrame(
        {
            "dataset": dataset,
            "question_id": np.repeat([f"{dataset}-{place:03d}" for place in range(questions)], samples),
            "response_id": np.arange(len(skill)),
            "sample": np.tile(np.arange(samples), questions),
            "answer_class": classes.astype(np.float64),
            "correct": correct,
            "skill": skill,
        }
    )


def predictions() -> pd.DataFrame:
    parts = []
    for dataset, (_, samples) in SETS.items():
        evaluated = pool(dataset)
        evaluated = evaluated[evaluated["sample"] < samples]
        for method, seeds in METHODS.items():
            for seed in seeds:
                draw = np.random.default_rng([seed + 1, len(method)])
                noise = draw.random(len(evaluated))
                told = evaluated["skill"] if method == "cocal-pre-generation" else evaluated["correct"]
                confidence = np.round(0.4 * told.to_numpy(dtype=np.float64) + 0.6 * noise, 2)  # with ties
                if method == "cocal-binary":
                    confidence[:2] = np.nan
                names = {name: evaluated[name] for name in ("dataset", "question_id", "response_id")}
                parts.append(predicted(method, seed, confidence, evaluated["correct"], learnt_from=60, **names))
    return pd.concat(parts, ignore_index=True)
