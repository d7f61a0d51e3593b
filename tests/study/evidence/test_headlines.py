"""The comparisons of the headlines as one family, over the replicates that take part and over all."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from cocal_study.evidence.headlines import HEADLINES, KEYS, judged

PAIRS = [pair for pairs in HEADLINES.values() for pair in pairs]


def test_refused_replicates_take_no_part_and_stand_beside_the_others():
    generator = np.random.default_rng(8)
    rows = {(pair.dataset, name, pair.metric) for pair in PAIRS for name in (pair.method, pair.baseline) if name}
    index = pd.MultiIndex.from_tuples(sorted(rows), names=KEYS)
    values = pd.DataFrame(generator.normal(0.6, 0.05, (len(index), 6)), index, [1, 2, 4, 5, 7, 8])
    found = judged(values, {2, 7}, level=0.9)
    assert list(found.columns[-6:]) == [
        "replicate_1",
        "refused_2",
        "replicate_4",
        "replicate_5",
        "refused_7",
        "replicate_8",
    ]
    signs = {"accuracy": 1, "auroc": 1, "ece": -1}
    chances = []
    for pair, row in zip(PAIRS, found.itertuples(), strict=True):
        of = {name: values.loc[(pair.dataset, name, pair.metric)] for name in (pair.method, pair.baseline) if name}
        lead = signs[pair.metric] * (of[pair.method] - of.get(pair.baseline, 0.5))
        for prefix, chosen in (("", lead[[1, 4, 5, 8]]), ("all_", lead)):
            test = ttest_1samp(chosen, 0)
            bounds = test.confidence_interval(0.9)
            told = [getattr(row, prefix + name) for name in ("value", "lower", "upper")]
            assert told == pytest.approx([chosen.mean(), bounds.low, bounds.high])
            chances += [test.pvalue] * (not prefix)
        assert (row.p, row.refused_7) == pytest.approx((chances[-1], lead[7]))
    order = np.argsort(chances)
    steps = np.maximum.accumulate(np.sort(chances) * np.arange(len(chances), 0, -1)).clip(max=1)
    assert found["p_holm"].to_numpy()[order] == pytest.approx(steps)
