"""The numbers of tables/verdict by hand."""

from pathlib import Path

import pandas as pd

from cocal_study.evidence.headlines import CENTRAL


def headline_numbers(words=("undecided", "undecided"), replicates=5, **changes):
    """tables/verdict by hand: two comparisons of the central claim, one of accuracy with a second baseline, and
    chance."""
    found = pd.read_csv(Path(__file__).with_name("headline_numbers.csv"), keep_default_na=False, na_values=["NaN"])
    found.loc[found["claim"].str.startswith(CENTRAL), "word"] = words
    found = found.assign(replicates=replicates or float("nan"), at_chance="", **changes)
    return found if replicates else found.assign(positive=float("nan"))
