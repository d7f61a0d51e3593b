"""Comparison of methods on the same responses."""

import pandas as pd

from cocal.config.methods import METHODS


def on_common_responses(predictions: pd.DataFrame) -> pd.DataFrame:
    """`predictions` with a valid confidence only where all methods have one that are evaluated on the same responses.

    A response for which one of them has none keeps its row for every method, without a confidence: accuracy and n stay
    those of all responses, and the confidence metrics of the methods are over the same ones.

    Args:
        predictions: table of the contract PREDICTIONS.
    """
    prompt_format = predictions["method"].map(lambda name: METHODS[name].prompt_format)
    response = [predictions[name] for name in ("backbone", "algorithm", "step", "dataset", "response_id")]
    common = predictions["valid"].groupby([prompt_format, *response], sort=False).transform("all")
    return predictions.assign(confidence=predictions["confidence"].where(common), valid=common)
