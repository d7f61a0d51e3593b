"""A table of claims by hand, as tables/claims.csv has it."""

import pandas as pd

from cocal_study.evidence.predicates import OPEN
from cocal_study.evidence.verdicts import AGREES, NOT_GATHERED, PAPER, REPLICATES, STUDY
from cocal_study.exhibits.typesetting.verdict import CENTRAL


def judged(central, value=0.02, of_replicates=(OPEN,) * 9, of_study=(OPEN,) * 9, paper=AGREES, n=5, positive=4):
    """Tables/claims of the central claim and of nine others, each a family of its own."""
    count = f"1 holds; positive in {positive} of {n} (one-sided sign test, p = 0.19)" if n else ""
    found = {
        CENTRAL: (central, central),
        **{f"c{k}": both for k, both in enumerate(zip(of_replicates, of_study, strict=True))},
    }
    rows = []
    for claim, (together, alone) in found.items():
        for source, said in ((PAPER, paper), (STUDY, alone), (REPLICATES, together if n else NOT_GATHERED)):
            numbers = {"value": value, "lower": value - 0.1, "upper": value + 0.1}
            words = {"verdict": said, "count": count if source == REPLICATES else "", "title": f"Claim {claim}"}
            place = {"claim": claim, "source": source, "score": "", "case": 0, "family": "", "kind": "direction"}
            rows.append(place | numbers | words)
    return pd.DataFrame(rows)
