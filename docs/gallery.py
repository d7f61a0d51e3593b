"""Shrink figures of the embedded study for the pages, and write the verdict and the main numbers into README.md,
the verdicts on all claims and the learning curve into docs/what-holds.md, and the laptop study's numbers into its page:
`make gallery` after `make replicate`, `make experience`, `make laptop` and `make reproduce`."""

import re
import textwrap
from pathlib import Path

import pandas as pd
from PIL import Image

from cocal.drawing.style import paper_style, save_figure
from cocal_study.config import load_study
from cocal_study.config.methods import METHODS
from cocal_study.evidence.predicates import FAVOUR
from cocal_study.evidence.published import METRICS, read_published
from cocal_study.evidence.regimes import PAIRS, margins, over_points
from cocal_study.evidence.verdicts import (
    AGREES,
    CONTRADICTS,
    LANGUAGE_MODEL,
    PAPER,
    REPLICATES,
    STUDY,
    of_claims,
)
from cocal_study.exhibits import experience
from cocal_study.exhibits.base.exhibit import MATHEMATICS
from cocal_study.exhibits.drawing.curves import draw_replicates
from cocal_study.exhibits.regimes import layout_of
from cocal_study.exhibits.typesetting.landing import scale_of
from cocal_study.exhibits.typesetting.verdict import answer, headlines, heads, ledger
from cocal_study.provenance.owner import owner_of

_OF_STUDY = ("claims", "overview", "training_dynamics", "budgets", "reliability", "cross_iteration")
_WHERE_GATHERED = ("experience", "prefixes", "regimes")
"""Figures of what runs of their own measure, which a study shows once that has been gathered."""
FIGURES = (
    *(f"results/figures/{name}.png" for name in _OF_STUDY),
    "studies/replicates/spread/figures/replications.png",
)
WIDTH = 1100
"""Pixels of a figure as wide as the text."""
_COLUMNS = 120
"""Width of the lines of the pages."""
_REPLICATE = "replicate_"
"""Beginning of the columns that hold the values of single replicates."""


def verdict(numbers: pd.DataFrame, scale: str) -> str:
    """The answer and the table of the headline claims.

    Args:
        numbers: The columns of tables/verdict.csv.
        scale: The size of the policies in words.
    """
    rows = [heads(numbers), ["---"] * len(heads(numbers)), *headlines(numbers)]
    table = [f"|{'|'.join(row)}|" for row in rows]
    return "\n".join([textwrap.fill(answer(numbers, scale), _COLUMNS), "", *table])


_TITLES = {"auroc": "AUROC", "ece": "ECE"}
_SHOWN = ("cocal-binary", "postcal-binary", "token-probability", "self-consistency", "rlcr", "dcpo")
"""The methods that the headline claims compare, with the binary target."""


def levels(gathered: pd.DataFrame, printed: pd.DataFrame) -> str:
    """A sentence with the AUROC of the compared methods, of the replicates and of the paper; see `main_numbers`."""
    places = [frame[frame["dataset"] == MATHEMATICS].set_index(["method", "metric"]) for frame in (gathered, printed)]
    ours, paper = (frame[column] for frame, column in zip(places, ("mean", "value"), strict=True))
    each = [f"{METHODS[one].label} {ours[one, 'auroc']:.2f} ({paper[one, 'auroc']:.2f})" for one in _SHOWN]
    count = sum(name.startswith(_REPLICATE) for name in gathered.columns)
    return textwrap.fill(
        f"Behind the differences, the mean AUROC of {count} replicates (the paper's): {', '.join(each)}.", _COLUMNS
    )


def main_numbers(gathered: pd.DataFrame, printed: pd.DataFrame) -> str:
    """Macro averages over the mathematical sets at the end of training, of the replicates and of the paper, as a table.

    Args:
        gathered: The columns of tables/main.csv that `cocal spread` has gathered.
        printed: The cells of the paper's main table, with the columns of `cocal_study.evidence.published.Printed`.
    """
    replicates = sum(name.startswith(_REPLICATE) for name in gathered.columns)
    return _beside_paper(gathered, printed, f"mean of {replicates} replicates ± SD", "{mean} ± {sd}")


def _beside_paper(ours: pd.DataFrame, printed: pd.DataFrame, head: str, form: str) -> str:
    """A table of macro averages over the mathematical sets, with a column of the paper's beside each of ours.

    Args:
        ours: The columns of tables/main.csv, and those that `form` names.
        printed: See `main_numbers`.
        head: Head of the first column.
        form: How a cell of ours is put together from the columns of `ours`.
    """
    ours = ours[ours["dataset"] == MATHEMATICS].set_index(["method", "metric"])
    paper = printed[printed["dataset"] == MATHEMATICS].set_index(["method", "metric"])["value"]
    shown = {metric: title for title, metric in METRICS.items() if metric != "mean_confidence"}
    heads = [name for title in shown.values() for name in (title, "paper")]
    lines = [f"| {head} | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    names = re.findall(r"{(\w+)}", form)
    for method in ours.index.unique("method"):
        cells = []
        for metric in shown:
            scale, digits = (100, 1) if metric == "accuracy" else (1, 3)
            one = ours.loc[(method, metric)]
            cells.append(form.format(**{name: f"{scale * one[name]:.{digits}f}" for name in names}))
            cells.append(f"{paper[method, metric]:.{digits}f}")
        lines.append(f"| {METHODS[method].label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def learning_curve(numbers: pd.DataFrame) -> str:
    """A table of what the policy's own probabilities reach by the number of responses learnt from, and of how much more
    or less the companions do.

    Args:
        numbers: The columns of figures/experience.csv.
    """
    ours = numbers[numbers["source"] == "study"].set_index(["level", "metric", "method", "less"]).sort_index()
    learnt = ours.groupby("level")["learnt"].first().sort_values()
    heads, rows = ["responses learnt from"], [[f"{count:,.0f}"] for count in learnt]
    for metric, methods in {"auroc": ("cocal-binary", "linear-binary"), "ece": ("cocal-binary",)}.items():
        rival = experience.OWN[metric]
        heads.append(f"{_TITLES[metric]} of {experience.SHOWN[rival]['label']}")
        heads += [f"difference of {experience.SHOWN[method]['label']}, {_TITLES[metric]}" for method in methods]
        for level, row in zip(learnt.index, rows, strict=True):
            row.append(f"{ours.loc[(level, metric, rival, ''), 'value']:.3f}")
            found = (ours.loc[(level, metric, method, rival), ["value", "lower", "upper"]] for method in methods)
            row += ["{:+.3f} ({:+.3f} to {:+.3f})".format(*values) for values in found]
    said = f"Means over {ours['replicates'].max()} replicates, with the 95 % interval of Student's t:"
    return f"{said}\n\n{_of_numbers(heads, rows)}"


def _of_numbers(heads: list[str], rows: list[list[str]]) -> str:
    """A table of numbers."""
    return "\n".join(f"|{'|'.join(row)}|" for row in (heads, ["--:"] * len(heads), *rows))


def against_postcal(points: pd.DataFrame) -> str:
    """A table of CoCal's margins over PostCal by the number of responses learnt from.

    Args:
        points: The measured points of `make experience` (`cocal_study.evidence.regimes.COLUMNS`).
    """
    ours = points[points["method"] == "cocal-binary"]
    learnt = ours.groupby("level")["learnt"].mean().sort_values()
    heads, rows = ["responses learnt from"], [[f"{count:,.0f}"] for count in learnt]
    for target in PAIRS:
        found = over_points(margins(points, target), 0.95).set_index(["level", "metric"])
        for metric, title in _TITLES.items():
            heads.append(f"{title}, {target}")
            for level, row in zip(learnt.index, rows, strict=True):
                one = found.loc[(level, metric)]
                star = "\\*" if one["p_holm"] < 0.05 else ""
                row.append(
                    f"{one['value']:+.3f} ({one['lower']:+.3f} to {one['upper']:+.3f}), "
                    f"{one['positive']}/{one['replicates']}{star}"
                )
    return _of_numbers(heads, rows)


def what_holds(judged: pd.DataFrame) -> str:
    """What all claims come to, and below it a table of the claims that are decided.

    Args:
        judged: The columns of tables/claims.csv.
    """
    whole = of_claims(judged)
    verdicts = whole.pivot(index="claim", columns="source", values="verdict").loc[whole["claim"].unique()]
    titles = whole.drop_duplicates("claim").set_index("claim")["title"]
    decided = verdicts[verdicts.isin([*FAVOUR, AGREES, CONTRADICTS]).any(axis=1)]
    sources = {STUDY: "embedded study", LANGUAGE_MODEL: "laptop study", PAPER: "the paper's numbers"}
    sources = {source: title for source, title in sources.items() if source in verdicts}
    lines = [
        *(textwrap.fill(f"* {line}", _COLUMNS, subsequent_indent="  ") for line in ledger(judged, "embedded")),
        "",
        "<details><summary>Every claim that is decided</summary>",
        "",
        f"| claim | replicates together | {' | '.join(sources.values())} |",
        "|---|---|" + "---|" * len(sources),
        *(
            f"| {titles[claim]} | {row[REPLICATES]} | {' | '.join(row[list(sources)])} |"
            for claim, row in decided.iterrows()
        ),
        "",
        "</details>",
    ]
    return "\n".join(lines)


def with_section(page: str, name: str, section: str) -> str:
    """A page with another text between the marks of a section."""
    marks = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    new, count = re.subn(rf"(?<={marks[0]}).*?(?={marks[1]})", lambda _: f"{section}\n", page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"the marks of the section {name!r} are missing in a page; restore them from the repository")
    return new


def main() -> None:
    """Every figure to a file of its name in docs, in 128 colours, and the sections of the pages."""
    root = Path(__file__).parents[1]
    if owner_of(root / "results") != "embedded":
        raise SystemExit("results/ is not that of the embedded study: `make clean reproduce` first")
    spread = root / "studies/replicates/spread"
    gathered = pd.read_csv(spread / "tables/main.csv")
    published = read_published(root / "config/paper")
    cells = published.cells
    printed = cells[cells["table"] == "main"]
    with paper_style():
        drawn = draw_replicates(gathered, MATHEMATICS, printed)
        save_figure(drawn, spread / "figures/replications.pdf", {"study": "embedded"})
    widest = 1650  # text width at 300 dots an inch
    gathered_too = [name for name in _WHERE_GATHERED if (root / f"results/figures/{name}.png").exists()]
    for name in (*FIGURES, *(f"results/figures/{name}.png" for name in gathered_too)):
        with Image.open(root / name) as figure:
            scale = WIDTH / widest
            size = round(figure.width * scale), round(figure.height * scale)
            small = figure.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            small.quantize(128).save(root / f"docs/{Path(name).name}", optimize=True)
    judged, numbers = (
        pd.read_csv(root / f"results/tables/{name}.csv", keep_default_na=False, na_values=["NaN"])
        for name in ("claims", "verdict")
    )
    study = load_study(root / "config/config.yaml")
    points = pd.read_csv(root / "studies/experience/gathered/points.csv")
    curve = experience.prepare(layout_of(study), points, published)
    laptop = pd.read_csv(root / "studies/laptop/gathered/tables/main.csv")
    form = "{value} ({lower} to {upper})"
    for file, name, section in (
        ("README.md", "verdict", verdict(numbers, scale_of(study))),
        ("README.md", "levels", levels(gathered, printed)),
        ("docs/what-holds.md", "numbers", main_numbers(gathered, printed)),
        ("docs/what-holds.md", "learning curve", learning_curve(curve)),
        ("docs/what-holds.md", "against postcal", against_postcal(points)),
        ("docs/what-holds.md", "ledger", what_holds(judged)),
        ("docs/laptop-study.md", "numbers", _beside_paper(laptop, printed, "one run, 95 % interval", form)),
    ):
        page = root / file
        page.write_text(with_section(page.read_text(encoding="utf-8"), name, section), encoding="utf-8")


if __name__ == "__main__":
    main()
