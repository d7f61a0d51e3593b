"""Shrink figures of the embedded study for the README, and write its section "What holds" from the table of claims:
`make gallery` after `make replicate` and `make reproduce`."""

import re
import textwrap
from pathlib import Path

import pandas as pd
from PIL import Image

from cocal.evidence.predicates import FAILS, HOLDS, OPEN
from cocal.evidence.verdicts import PAPER, REPLICATES, STUDY
from cocal.store.owner import owner_of

_OF_STUDY = ("claims", "overview", "training_dynamics", "budgets", "reliability", "cross_iteration")
FIGURES = (
    *(f"results/figures/{name}.png" for name in _OF_STUDY),
    "studies/replicates/spread/figures/replications.png",
)
WIDTH = 1100
"""Pixels of a figure as wide as the text."""
_COLUMNS = 120
"""Width of the README's lines."""


def what_holds(judged: pd.DataFrame) -> str:
    """The verdicts in plain words and as a table of the claims that the paper's numbers or the study decide.

    Args:
        judged: The columns claim, source, verdict and title of tables/claims.csv.
    """
    verdicts = judged.pivot(index="claim", columns="source", values="verdict").loc[judged["claim"].unique()]
    titles = judged.drop_duplicates("claim").set_index("claim")["title"]
    decided = verdicts[verdicts[[PAPER, STUDY]].isin([HOLDS, OPEN, FAILS]).any(axis=1)]
    contradicted = "; ".join(f'"{titles[claim]}"' for claim in verdicts.index[verdicts[PAPER] == FAILS])
    told = [
        f"Of {len(verdicts)} claims, {_counts(verdicts[PAPER])} by the paper's own numbers, and "
        f"{_counts(verdicts[STUDY])} in the embedded study; the rest says too little, or cannot be assessed "
        "there, such as values of the paper's models. Not separable means that the 95 % interval of the paired "
        "difference holds zero.",
        *_over_replicates(verdicts[REPLICATES]),
        *([f"The paper's own numbers contradict: {contradicted}."] if contradicted else []),
    ]
    lines = [
        textwrap.fill(" ".join(told), _COLUMNS),
        "",
        "<details><summary>Every claim that is decided</summary>",
        "",
        "| claim | the paper's numbers | embedded study | replicates |",
        "|---|---|---|---|",
        *(
            f"| {titles[claim]} | {row[PAPER]} | {row[STUDY]} | {row[REPLICATES]} |"
            for claim, row in decided.iterrows()
        ),
        "",
        "</details>",
    ]
    return "\n".join(lines)


def _counts(verdicts: pd.Series) -> str:
    number = {verdict: int((verdicts == verdict).sum()) for verdict in (HOLDS, FAILS, OPEN)}
    return f"{number[HOLDS]} hold, {number[FAILS]} do not and {number[OPEN]} are not separable"


def _over_replicates(verdicts: pd.Series) -> list[str]:
    """In how many replicates the claims hold, which verdicts such as "in 3 of 5" tell."""
    agreeing = verdicts.str.extract(r"^in (\d+) of (\d+)$").dropna().astype(int)
    if agreeing.empty:
        return []
    count = agreeing[1].iloc[0]
    return [
        f"Of the {len(agreeing)} claims that all {count} replicates can assess, {(agreeing[0] == count).sum()} hold in "
        f"every replicate and {(agreeing[0] == 0).sum()} in none."
    ]


def with_section(readme: str, section: str) -> str:
    """The README with another text between the marks of the ledger."""
    marks = "<!-- ledger -->\n", "\n<!-- end of ledger -->"
    new, count = re.subn(rf"(?<={marks[0]}).*?(?={marks[1]})", lambda _: section, readme, flags=re.DOTALL)
    if count != 1:
        raise SystemExit("README.md: the marks of the ledger are missing; restore them from the repository")
    return new


def main() -> None:
    """Every figure to a file of its name in docs, in 128 colours, and the README's section."""
    root = Path(__file__).parents[1]
    if owner_of(root / "results") != "embedded":
        raise SystemExit("results/ is not that of the embedded study: `make clean reproduce` first")
    widest = 1650  # text width at 300 dots an inch
    for name in FIGURES:
        with Image.open(root / name) as figure:
            scale = WIDTH / widest
            size = round(figure.width * scale), round(figure.height * scale)
            small = figure.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            small.quantize(128).save(root / f"docs/{Path(name).name}", optimize=True)
    judged = pd.read_csv(root / "results/tables/claims.csv", keep_default_na=False)
    readme = root / "README.md"
    readme.write_text(with_section(readme.read_text(encoding="utf-8"), what_holds(judged)), encoding="utf-8")


if __name__ == "__main__":
    main()
