"""The number formats of tables and figures."""

import pandas as pd
import pytest

from cocal.metrics.shown import csv_text, metric_text

NAN = float("nan")


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("ece", 0.1004, "0.100"),
        ("auroc", 0.1251, "0.125"),
        ("prr", -0.0001, "0.000"),
        ("accuracy", 0.5, "50.0"),
        ("accuracy_at_80", 0.9999, "100.0"),
        ("accuracy", NAN, "–"),
        *(("accuracy", value, "86.2") for value in (0.8625, 0.8625 + 1e-15, 0.8625 - 1e-15)),
        *(("ece", value, "0.062") for value in (0.0625, 0.0625 + 1e-15, 0.0625 - 1e-15)),
    ],
)
def test_equal_numbers_print_alike(metric, value, text):
    assert metric_text(metric, value) == text


def test_a_csv_hides_the_last_bits():
    numbers = pd.DataFrame({"a": [0.1 + 0.2, NAN], "b": ["x", "y"]}, index=[7, 8])
    assert csv_text(numbers) == "a,b\n0.3,x\nNaN,y\n"
