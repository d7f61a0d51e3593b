"""What `gallery.py` writes of companions that were fitted otherwise: tables of studies/fits and sentences on them."""

import pandas as pd
from sections import filled, of_numbers, table

from cocal_study.exhibits import fits


def recipes(numbers: pd.DataFrame) -> str:
    """A table of the Brier scores of `benchmarks/recipes.py`, the means over the splits of each set of rollouts."""
    means = _of_splits(numbers)
    shown = means.drop(columns=["parameters", "responses"]).T
    rows = [[name, *(_printed(value, 4) for value in shown.loc[name])] for name in shown.index]
    return of_numbers(["Brier score", *(f"{name}, {part}" for name, part in shown.columns)], rows)


def sizes(fewer: pd.DataFrame, whole: pd.DataFrame) -> str:
    """A table of the Brier scores of `benchmarks/recipes.py --rows` by the number of the last rollouts, on all of them,
    before those of the whole training."""
    numbers = pd.concat([fewer, whole[whole["rollouts"] == "tiny, GRPO"]])
    means = numbers[numbers["part"] == "all"].drop(columns=["rollouts", "part", "split"]).groupby("responses").mean()
    kinds = ["best", "best, states alone", "logistic regression, four token features"]
    kinds += ["token probability, recalibrated", "cut or not", "constant"]
    rows = [[name, *map("{:.3f}".format, means[name])] for name in kinds]
    return of_numbers(["Brier score", *(f"{count:,} rollouts" for count in means.index)], rows)


def recipes_said(numbers: pd.DataFrame) -> str:
    """A table of the companions of `cocal fit` beside their baselines, on responses that ended; see `recipes`."""
    means = _of_splits(numbers).xs("ended", level="part")
    rows = {
        "their accuracy as a constant": "cut or not",
        "length, recalibrated": "length, recalibrated",
        "token probability, recalibrated": "token probability, recalibrated",
        "four token statistics, logistic regression": "logistic regression, four token features",
        "states, logistic regression": "logistic regression, states, cut or not",
        "states, `cocal fit --with nothing`": "best, states alone",
        "states and tokens, logistic regression": "logistic regression, states and tokens, cut or not",
        "states and tokens, boosted trees": "boosted trees, states and four token features",
        "**states and tokens, `cocal fit`** (default)": "best",
        "agreement of eight answers, recalibrated": "agreement of the group, recalibrated",
    }
    lines = [("Brier score", *means.index)]
    lines.append(("---",) * len(lines[0]))
    lines += [(title, *(_printed(value, 3) for value in means[column])) for title, column in rows.items()]
    return table(lines)


def _printed(value: float, digits: int) -> str:
    """A score, or a dash where it was not measured."""
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def _of_splits(numbers: pd.DataFrame) -> pd.DataFrame:
    return numbers.drop(columns="split").groupby(["rollouts", "part"], sort=False).mean()


def limits(measured: pd.DataFrame) -> str:
    """A table of the AUROC of other learners of the same responses, in each study and sampling, and a sentence for each
    study on what they explain, by the columns of `benchmarks/fits.py`."""
    names = {
        fits.MEMBER: "the paper's fit: CoCal (binary)",
        fits.TOGETHER: "its seeds as one confidence",
        fits.UPDATED: f"one seed with {fits.PAPER_UPDATES:,} updates",
        fits.SCALED: "standardised states",
        fits.PROBE: "linear probe of the states",
        fits.TOKENS: "four token features",
        fits.BOTH: "linear probe of states and token features",
        fits.OWN: "token probability, nothing learnt",
        fits.LENGTH: "length, nothing learnt",
    }
    own = measured[measured["learner"].isin(["", "cocal-binary"])]
    of = own.groupby(["fit", "study", "sampling"], sort=False)["auroc"].mean().unstack(["study", "sampling"])
    rows = [[name, *(f"{value:.3f}" for value in of.loc[fit])] for fit, name in names.items()]
    said = [
        filled(
            f"* What holds CoCal's AUROC down in the {study} study? {'; '.join(explanations(part)).capitalize()}.", "  "
        )
        for study, part in measured.groupby("study", sort=False)
    ]
    return "\n".join([of_numbers(["AUROC", *(", ".join(head) for head in of)], rows), "", *said])


def explanations(rows: pd.DataFrame) -> list[str]:
    """Which explanations of a companion that trails token probability hold for CoCal with the evaluation's own
    sampling, which comes first, as means over the replicates of one study, by the rules that were written beforehand.

    One member is too few if all seeds together reach the AUROC of the probe of the same states, less 0.01; a companion
    is under-trained if the paper's updates do, and unnormalised if standardised states do, where the member itself does
    not; the states hold too little if the probe stays below the policy's token probability.
    """
    own = rows[(rows["sampling"] == rows["sampling"].iloc[0]) & rows["learner"].isin(["", "cocal-binary"])]
    of = own.groupby("fit")["auroc"].mean()
    reaches = of >= of[fits.PROBE] - 0.01
    said = {
        "one member is too few": reaches[fits.TOGETHER] and not reaches[fits.MEMBER],
        "under-trained": reaches[fits.UPDATED] and not reaches[fits.MEMBER],
        "unnormalised": reaches[fits.SCALED] and not reaches[fits.MEMBER],
        "states that hold too little": of[fits.PROBE] < of[fits.OWN],
    }
    return [f"{name}: {'yes' if found else 'no'}" for name, found in said.items()]
