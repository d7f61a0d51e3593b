"""A study that keeps the protocol, for the tests of the checks and of their command."""

import pytest

from checked_study import Study, sound_study


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Study:
    """It is made once for each module."""
    return sound_study(tmp_path_factory.mktemp("sound"))
