"""A small study's predictions for the tests of tables and figures: polarised, over-confident and spread."""

import numpy as np
import pandas as pd

SEEDS = (42, 137)
METHODS = ("base-verbal", "verbal", "self-consistency", "token-probability", "cocal-group", "cocal-binary")


def sample_predictions(*datasets: str) -> pd.DataFrame:
    """Every method on 40 questions of each dataset; the pre-RL model at step 0, the others at step 60."""
    parts = []
    for place, dataset in enumerate(datasets):
        generator = np.random.default_rng(place)
        correct = generator.random(40) < 0.6
        for method in METHODS:
            for seed in SEEDS if method.startswith("cocal") else (-1,):
                confidence = _confidence(method, correct, generator)
                parts.append(
                    pd.DataFrame(
                        {
                            "backbone": "tiny-a",
                            "algorithm": "base" if method == "base-verbal" else "grpo",
                            "step": 0 if method == "base-verbal" else 60,
                            "dataset": dataset,
                            "question_id": [f"{dataset}-{i:03d}" for i in range(40)],
                            "response_id": np.arange(40),
                            "method": method,
                            "seed": seed,
                            "confidence": confidence,
                            "valid": ~np.isnan(confidence),
                            "correct": correct,
                            "truncated": False,
                        }
                    )
                )
    return pd.concat(parts, ignore_index=True)


def _confidence(method: str, correct: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    n = len(correct)
    if method.endswith("verbal"):
        confidence = generator.choice([0.8, 0.9, 0.99], n)
        confidence[0] = np.nan
        return confidence
    if method == "self-consistency":
        return generator.integers(0, 11, n) / 10
    return np.clip(0.35 * correct + 0.65 * generator.random(n), 0, 1)
