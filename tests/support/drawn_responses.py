"""Drawn confidences and correctness, many of the confidences tied, for the tests of metrics."""

import numpy as np

from cocal.metrics.scores import Sample


def random_responses(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, many of them tied multiples of 1/10, and correctness."""
    generator = np.random.default_rng(seed)
    confidence = np.where(generator.random(n) < 0.5, generator.integers(0, 11, n) / 10, generator.random(n))
    return confidence, generator.random(n) < 0.3 + 0.5 * confidence


def a_sample(seed: int, questions: int, responses: int) -> Sample:
    """As many responses to each question, a tenth of them without a confidence."""
    confidence, correct = random_responses(seed, questions * responses)
    confidence[np.random.default_rng(seed).random(len(confidence)) < 0.1] = np.nan
    return Sample(np.repeat(np.arange(questions), responses), confidence, correct)
