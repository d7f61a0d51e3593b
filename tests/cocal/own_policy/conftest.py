"""Rollouts of the micro policy, and the commands about it, for the tests of a policy of one's own."""

import pytest

from own_rollouts import write_lines


@pytest.fixture
def fit(tmp_path, own):
    """`cocal fit`; returns its status."""
    return lambda rollouts, *more, to="companion": own.fit(rollouts, tmp_path / to, *more)


@pytest.fixture
def score(tmp_path, own):
    """`cocal score`; returns its status."""
    return lambda source, *more, **given: own.score(source, tmp_path / "scored.jsonl", *more, **given)


@pytest.fixture
def source(tmp_path, own):
    """The rollouts as lines of one's own, with exact ids."""
    return write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
