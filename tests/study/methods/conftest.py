"""Responses that a test may change before they are written."""

import pytest

from evaluated_study import EvaluatedStudy


@pytest.fixture
def study(tmp_path):
    return EvaluatedStudy(tmp_path)
