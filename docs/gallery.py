"""Shrink figures of the embedded study for the README, and write its section "What holds" from the table of claims:
`make gallery` after `make replicate` and `make reproduce`."""

import re
import textwrap
from pathlib import Path

import pandas as pd
from PIL import Image

from cocal.evidence.predicates import FAVOUR
from cocal.evidence.verdicts import AGREES, CONTRADICTS, PAPER, REPLICATES, STUDY, holding, of_claims
from cocal.exhibits.typesetting.verdict import verdict
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
    """The verdicts in plain words, those of the replicates first, and as a table of the claims that are decided.

    Args:
        judged: The columns of tables/claims.csv.
    """
    whole = of_claims(judged)
    verdicts = whole.pivot(index="claim", columns="source", values="verdict").loc[whole["claim"].unique()]
    titles = whole.drop_duplicates("claim").set_index("claim")["title"]
    counts = whole[whole["source"] == REPLICATES].set_index("claim")["count"]
    decided = verdicts[verdicts.isin([*FAVOUR, AGREES, CONTRADICTS]).any(axis=1)]
    lines = [
        textwrap.fill(" ".join(verdict(judged, "embedded")), _COLUMNS),
        "",
        "<details><summary>Every claim that is decided</summary>",
        "",
        "| claim | replicates together | hold | embedded study | the paper's numbers |",
        "|---|---|---|---|---|",
        *(
            f"| {titles[claim]} | {row[REPLICATES]} | {holding(counts[claim])} | {row[STUDY]} | {row[PAPER]} |"
            for claim, row in decided.iterrows()
        ),
        "",
        "</details>",
    ]
    return "\n".join(lines)


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
