"""A small run and its companions, which the tests of this folder read."""

import pandas as pd
import pytest

from cocal.companion.companions import Companions
from companion_run import Run, small_run


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Run:
    """A run that tests read."""
    return small_run(tmp_path_factory.mktemp("run")).write()


@pytest.fixture(scope="session")
def fitted(run: Run) -> tuple[Companions, pd.DataFrame]:
    """Companions of all its steps, and their history."""
    return run.fit()
