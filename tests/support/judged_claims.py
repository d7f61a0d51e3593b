"""Tables of claims by hand, as tables/claims.csv and tables/verdict.csv have them."""

from pathlib import Path

import pandas as pd

from cocal_study.evidence.predicates import OPEN
from cocal_study.evidence.verdicts import AGREES, NOT_GATHERED, PAPER, REPLICATES, STUDY
from cocal_study.exhibits.typesetting.verdict import CENTRAL

CLAIM = "beats-postcal"
MARGINS = {"ece": (0.0, 0.031), "auroc": (-0.04, 0.05)}
"""The margins of the central claim: how much each lies beside the deciding one, and the detectable one."""


def judged(central, value=0.02, of_replicates=(OPEN,) * 9, of_study=(OPEN,) * 9, paper=AGREES, n=5, positive=4):
    """Tables/claims of the central claim, which has two margins, and of nine others, each a family of its own."""
    found = {
        CLAIM: (central, central),
        **{f"c{k}": both for k, both in enumerate(zip(of_replicates, of_study, strict=True))},
    }
    rows = []
    for claim, (together, alone) in found.items():
        for source, said in ((PAPER, paper), (STUDY, alone), (REPLICATES, together if n else NOT_GATHERED)):
            of_them = source == REPLICATES and n > 0
            counts = {"positive": positive if of_them else float("nan"), "replicates": n if of_them else float("nan")}
            place = {"claim": claim, "source": source, "score": "", "family": "", "kind": "direction"}
            place |= {"verdict": said, "title": f"Claim {claim}", "reason": "", **counts}

            def row(case, margin, number, detectable, place=place):
                tests = {"zero_excluded": "yes" if abs(number) > 0.1 else "no", "published": 0.07}
                tests |= {"paper_excluded": "no" if abs(number - 0.07) <= 0.1 else "yes", "at_chance": ""}
                numbers = {"value": number, "lower": number - 0.1, "upper": number + 0.1, "detectable": detectable}
                return place | {"case": case, "margin": margin} | numbers | tests

            rows.append(row(0, "", value, float("nan")))
            if claim == CLAIM and source != PAPER and (n or source == STUDY):
                pair = "cocal-binary and postcal-binary"
                rows += [
                    row(1, f"{pair}, {metric}, first backbone, macro-mathematics, step 120", value + beside, detectable)
                    for metric, (beside, detectable) in MARGINS.items()
                ]
    return pd.DataFrame(rows)


def headline_numbers(words=("undecided", "undecided"), replicates=5, **changes):
    """tables/verdict by hand: two comparisons of the central claim, one of accuracy with a second rival, and chance."""
    found = pd.read_csv(Path(__file__).with_name("headline_numbers.csv"), keep_default_na=False, na_values=["NaN"])
    found.loc[found["claim"].str.startswith(CENTRAL), "word"] = words
    found = found.assign(replicates=replicates or float("nan"), at_chance="", **changes)
    return found if replicates else found.assign(positive=float("nan"))
