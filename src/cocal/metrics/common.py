"""The seed of methods without seeds, and the comparison of methods on the same responses."""

import pandas as pd

from cocal.config.methods import METHODS

UNSEEDED = -1
"""Seed of a method without seeds in a predictions table."""


def on_common_responses(predictions: pd.DataFrame) -> pd.DataFrame:
    """Invalidate a response's confidences unless all methods evaluated on the same responses have a valid one for it.

    All rows are kept, so accuracy and n still count every response. The confidence metrics of these methods are then
    computed on the same responses.

    Args:
        predictions: Table in the contract PREDICTIONS.
    """
    prompt_format = predictions["method"].map(lambda name: METHODS[name].prompt_format)
    response = [predictions[name] for name in ("backbone", "algorithm", "step", "dataset", "response_id")]
    common = predictions["valid"].groupby([prompt_format, *response], sort=False).transform("all")
    return predictions.assign(confidence=predictions["confidence"].where(common), valid=common)
