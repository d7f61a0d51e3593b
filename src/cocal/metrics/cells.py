"""Which policy a method's responses come from."""

from cocal.estimators.registry import METHODS


def policy_cell(method: str, step: int) -> tuple[str, int]:
    """Algorithm and step whose predictions are the method's when the table or figure shows `step`.

    The pre-RL model is algorithm "base" at step 0 whatever the step of the others.
    """
    algorithm = METHODS[method].policy
    return (algorithm, 0) if algorithm == "base" else (algorithm, step)
