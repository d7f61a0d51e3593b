"""Rollouts of the micro policy, and the commands about it, for the tests of a policy of one's own."""

import pytest

from dumps import GROUP
from hand_rows import lines
from own_rollouts import read_lines, run, write_lines


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


@pytest.fixture
def decide(tmp_path):
    """`cocal decide` about lines; its status, and the lines that it has written."""

    def start(rule, given, *flags):
        output = tmp_path / "out.jsonl"
        done = run("decide", rule, lines(tmp_path / "scored.jsonl", *given), "--output", output, "--overwrite", *flags)
        return done, read_lines(output) if output.exists() else None

    return start


@pytest.fixture(scope="session")
def table(own):
    """The rollouts as a table of one's own, with exact ids."""
    kept = own.rollouts[["prompt_ids", "response_ids", "correct", "step", "truncated"]].reset_index(drop=True)
    return kept.assign(question=own.rollouts["question_id"].map(own.texts), group=kept.index // GROUP)


@pytest.fixture(scope="session")
def mine(own, tmp_path_factory):
    """The rollouts as lines, which no test changes."""
    return write_lines(tmp_path_factory.mktemp("rollouts") / "mine.jsonl", own.rollouts, own.texts)
