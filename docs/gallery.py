"""Shrink figures of the embedded study for the pages, and write what studies have measured into the marked sections of
README.md and of the pages: `make gallery` after `make reproduce` and whatever has renewed files in studies/ (`make
replicate`, `central`, `experience`, `laptop`, `fits`)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from gallery_fits import limits, recipes, recipes_said, sizes
from PIL import Image
from scipy.special import ndtri, stdtrit
from sections import filled, of_numbers, table, with_section

from cocal.drawing.style import paper_style, save_figure
from cocal.metrics.shown import metric_text
from cocal_study.config.methods import METHODS
from cocal_study.config.study import load_study
from cocal_study.evidence.headlines import (
    CENTRAL,
    NO,
    SECOND,
    TOLERANCE,
    UNDECIDED,
    YES,
    first_word,
)
from cocal_study.evidence.predicates import FAVOUR, OPEN
from cocal_study.evidence.published import METRICS, read_published
from cocal_study.evidence.regimes import PAIRS, margins, over_points
from cocal_study.evidence.verdicts import (
    CONTRADICTS,
    FOUND,
    LANGUAGE_MODEL,
    PAPER,
    REPLICATES,
    STUDY,
    completed,
    of_claims,
    of_families,
    over_replicates,
)
from cocal_study.exhibits import experience
from cocal_study.exhibits.drawing.curves import draw_replicates
from cocal_study.exhibits.regimes import layout_of
from cocal_study.exhibits.typesetting.landing import scale_of
from cocal_study.exhibits.typesetting.verdict import answer, headlines, heads, label_of
from cocal_study.exhibits.typesetting.wording import SMOLLM2, listed, number, signed
from cocal_study.planning.plan import MATHEMATICS
from cocal_study.provenance.owner import owner_of
from cocal_study.store.numbers import read_numbers

_OF_STUDY = ("claims", "overview", "training_dynamics", "budgets", "reliability", "cross_iteration")
_WHERE_GATHERED = ("experience", "prefixes", "regimes")
"""Figures of what runs of their own measure, which a study shows once that has been gathered."""
SPREADS = "studies/central/spread", "studies/replicates/spread"
"""Where the replicates were gathered whose numbers the pages show: of the central study, and of the whole one."""
HEADLINES = "studies/headlines"
"""Where `cocal reanalyse` has compared all of them, those that the conditions refuse among them."""
FIGURES = (*(f"results/figures/{name}.png" for name in _OF_STUDY), f"{SPREADS[0]}/figures/replications.png")
WIDTH = 1100
"""Pixels of a figure as wide as the text."""
_WITH_INTERVAL = "{value} ({lower} to {upper})"
_BOUNDS = ("value", "lower", "upper")
_EXPLANATIONS = {"length leads CoCal": "length", "the linear probe": "linear-binary"}
"""The cheapest explanations of what companions know, in words, by the names of the baselines."""
_REPLICATE = "replicate_"
"""Beginning of the columns that hold the values of single replicates."""
_TITLES = {"auroc": "AUROC", "ece": "ECE"}


def verdict(numbers: pd.DataFrame) -> str:
    """The table of the headline claims, by the columns of tables/verdict.csv: a claim's first word, in bold, what the
    second sampling says, and a mark where the lead is smaller than the paper's."""
    head, *rows = [row[:-2] for row in (heads(numbers), *headlines(numbers))]
    shorter = []
    for claim, word, pair, *rest in rows:
        said = re.sub(r"; the lead is smaller.*", "†", re.sub(r" \((?!at )[^)]*\)", "", word))
        cells = (cell.replace(" to ", "…") for cell in rest)
        against = re.sub(r"^CoCal \(\w+\) | \(\w+\)", "", pair)
        shorter.append((claim, re.sub(r"^\w+", r"**\g<0>**", said), against, *cells))
    return table([head, ("---",) * len(head), *shorter])


def answered(numbers: pd.DataFrame, scale: str, stand: str, of_claim: str) -> str:
    """The answer above the table, with what stands after Holm's adjustment, in all and of the central claim, and at the
    other temperature."""
    first, _, rest = answer(numbers, scale).partition(". ")
    others = numbers.drop_duplicates("claim")["word"].str.contains("at temperature").sum()
    return filled(
        f"**{first}**, each comparison taken by itself; {stand}. At temperature 1 in place of the paper's 0.7, "
        f"{number(others)} of these verdicts would differ. The paper's models were never run: this neither confirms "
        f"nor refutes what it says of them. {rest} {of_claim}."
    )


def experience_said(numbers: pd.DataFrame, conditions: pd.DataFrame, points: pd.DataFrame) -> str:
    """Sentences on the companion of the most responses beside PostCal.

    Args:
        numbers: See `learning_curve`.
        conditions: The columns of tables/conditions.csv of the gathered replicates, which say how many the others had.
        points: See `against_postcal`.
    """
    ours = numbers[(numbers["source"] == "study") & (numbers["method"] == "cocal-binary")]
    most = ours[ours["learnt"] == ours["learnt"].max()]
    level, binary, group = (
        int(most["level"].iloc[0]),
        *(over_points(margins(points, target), 0.95).set_index(["level", "metric"]) for target in ("binary", "group")),
    )
    fewer = conditions[(conditions["condition"] == "Responses kept") & (conditions["of"] == "PostCal, training")]
    paper = numbers.loc[numbers["source"] == experience.PAPER, "learnt"].max()
    return filled(
        f"With {most['learnt'].iloc[0]:,.0f} responses to learn from in place of some "
        f"{round(fewer['mean'].item(), -2):,.0f} (the paper has {paper:,.0f}), harder questions and temperature 1, "
        f"CoCal's lead over PostCal is {_lead('ECE', binary.loc[level, 'ece'])} and "
        f"{_lead('AUROC', binary.loc[level, 'auroc'])} with the binary target, {_lead('ECE', group.loc[level, 'ece'])} "
        f"and {_lead('AUROC', group.loc[level, 'auroc'])} with the group target (over five replicates, not counted "
        "above; [curve](docs/what-holds.md#how-many-rollouts-a-companion-needs))."
    )


def _lead(metric: str, one: pd.Series) -> str:
    """A lead with its interval, by a row with value, lower and upper."""
    value, lower, upper = (signed(metric.lower(), one[key]) for key in _BOUNDS)
    return f"{value} in {metric} ({lower}…{upper})"


def to_beat(gathered: pd.DataFrame) -> str:
    """A table of AUROC, over all answers and within questions, and ECE on arithmetic, by the columns of the gathered
    tables/recalibrated.csv; below it, what the length and a probe of the same states have more than CoCal."""
    of_baselines = gathered[(gathered["dataset"] == MATHEMATICS) & gathered["calibration"].isin(["raw", "platt-all"])]
    found = of_baselines.pivot(index=["baseline", "calibration"], columns="metric", values=["mean", "sd"])
    named = {
        "SelfConsis, leave-one-out": ("self-consistency-loo", "raw"),
        "semantic entropy": ("semantic-entropy", "raw"),
        "TokenProb": ("token-probability", "raw"),
        "TokenProb, recalibrated": ("token-probability", "platt-all"),
        "linear probe of states": ("linear-binary", "raw"),
        "length (shorter is surer)": ("length", "raw"),
        "CoCal (binary)": ("cocal-binary", "raw"),
        "PostCal (binary)": ("postcal-binary", "raw"),
        "DCPO": ("dcpo", "raw"),
        "RLCR": ("rlcr", "raw"),
    }
    heads = f"Arithmetic, {number(_replicates(gathered))} seeds (±SD)", "AUROC", "AUROC within questions", "ECE"
    rows = [heads, ("---",) * len(heads)]
    for name, key in named.items():
        one = found.loc[key]
        cells = (f"{one['mean', metric]:.2f}±{one['sd', metric]:.2f}" for metric in ("auroc", "auroc_within", "ece"))
        rows.append((name, *(cell.replace("nan±nan", "–") for cell in cells)))
    each = of_baselines[(of_baselines["calibration"] == "raw") & (of_baselines["metric"] == "auroc")].set_index(
        "baseline"
    )
    values = each.filter(like=_REPLICATE).astype(float)
    leads = {
        name: (values.loc[baseline] - values.loc["cocal-binary"]).to_numpy() for name, baseline in _EXPLANATIONS.items()
    }
    said = [f"{name} in {(lead > 0).sum()} of {lead.size} (by {_over_cocal(lead)})" for name, lead in leads.items()]
    return f"{table(rows)}\n\n{filled(f'By AUROC, {listed(said)} seeds.')}"


def _over_cocal(lead: np.ndarray) -> str:
    found = over_replicates(lead, 0.95, "")
    return f"{found.value:.2f}; {found.lower:.2f}…{found.upper:.2f}".replace("-", "−")


def after_one_recalibration(gathered: pd.DataFrame) -> str:
    """A sentence on CoCal's lead in ECE over PostCal after Platt scaling of both on the same responses, by the columns
    of the gathered tables/recalibrated.csv."""
    of = gathered[(gathered["dataset"] == MATHEMATICS) & (gathered["calibration"] == "platt-resampled")]
    values = of[of["metric"] == "ece"].set_index("baseline").filter(regex=f"^{_REPLICATE}")
    said = []
    for target in ("binary", "group"):
        lead = (values.loc[f"postcal-{target}"] - values.loc[f"cocal-{target}"]).to_numpy()
        found, support = over_replicates(lead, 0.95, ""), f"{(lead > 0).sum()} of {len(lead)}"
        said.append(
            f"{found.value:+.3f} ({found.lower:+.3f} to {found.upper:+.3f}; {support}) with the {target} target"
        )
    return filled(
        "An ECE judges the group target by verdicts, to which it was not fitted. After Platt scaling of both on the "
        f"same responses, PostCal's, CoCal's lead over PostCal in ECE is {' and '.join(said)}."
    )


def _replicates(gathered: pd.DataFrame) -> int:
    return sum(name.startswith(_REPLICATE) for name in gathered.columns)


def main_numbers(gathered: pd.DataFrame, printed: pd.DataFrame) -> str:
    """Macro averages over the mathematical sets at the end of training, of the replicates and of the paper, as a table.

    Args:
        gathered: The columns of tables/main.csv that `cocal spread` has gathered.
        printed: The cells of the paper's main table, with the columns of `cocal_study.evidence.published.Printed`.
    """
    return _beside_paper(gathered, printed, f"mean of {_replicates(gathered)} replicates ± SD", "{mean} ± {sd}")


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
        baseline = experience.OWN[metric]
        heads.append(f"{_TITLES[metric]} of {experience.SHOWN[baseline]['label']}")
        heads += [f"difference of {experience.SHOWN[method]['label']}, {_TITLES[metric]}" for method in methods]
        for level, row in zip(learnt.index, rows, strict=True):
            row.append(f"{ours.loc[(level, metric, baseline, ''), 'value']:.3f}")
            found = (ours.loc[(level, metric, method, baseline), ["value", "lower", "upper"]] for method in methods)
            row += ["{:+.3f} ({:+.3f} to {:+.3f})".format(*values) for values in found]
    said = f"Means over {ours['replicates'].max()} replicates, with the 95 % interval of Student's t:"
    return f"{said}\n\n{of_numbers(heads, rows)}"


def against_postcal(points: pd.DataFrame) -> str:
    """A table of CoCal's margins over PostCal by the number of responses learnt from.

    Args:
        points: The measured points of `make experience` (`cocal_study.evidence.regimes.COLUMNS`).
    """
    ours = points[points["method"] == "cocal-binary"]
    learnt = ours.groupby("level")["learnt"].mean().sort_values()
    labels = {level: [f"{count:,.0f}"] for level, count in learnt.items()}
    return _margins(points, ["responses learnt from"], labels)


def of_regimes(points: pd.DataFrame) -> str:
    """A table of CoCal's margins over PostCal under conditions that are changed one at a time.

    Args:
        points: The measured points of `make regimes`, whose first level is the unchanged study.
    """
    points = points.assign(level=points["axis"].str.cat(points["level"], ": "))
    distinct = points[~points.duplicated([name for name in points if name not in ("axis", "level")])]
    bias = margins(distinct).groupby("level", sort=False)["bias"].mean()
    labels = {level: [level, f"{one:+.3f}"] for level, one in bias.items()}
    labels[bias.index[0]][0] = "nothing changed"
    return _margins(distinct, ["condition", "PostCal's confidence less accuracy"], labels)


def _margins(points: pd.DataFrame, heads: list[str], labels: Mapping[str, list[str]]) -> str:
    """A table of CoCal's margins over PostCal at levels of measured points, each behind its labels."""
    heads, rows = list(heads), list(labels.values())
    for target in PAIRS:
        found = over_points(margins(points, target), 0.95).set_index(["level", "metric"])
        for metric, title in _TITLES.items():
            heads.append(f"{title}, {target}")
            for level, row in zip(labels, rows, strict=True):
                one = found.loc[(level, metric)]
                star = "\\*" if one["p_holm"] < 0.05 else ""
                row.append(
                    f"{one['value']:+.3f} ({one['lower']:+.3f} to {one['upper']:+.3f}), "
                    f"{one['positive']}/{one['replicates']}{star}"
                )
    return of_numbers(heads, rows)


def power(numbers: pd.DataFrame) -> str:
    """A table of the smallest lead that as many replicates, or the questions of one study, would separate from zero in
    four of five cases, for every comparison of the headlines, both samplings and the columns of tables/verdict.csv."""
    rows = []
    for one in numbers.itertuples():
        cells = [label_of(one), signed(one.metric, one.paper)]
        row = pd.Series(one._asdict())
        for of in ("", SECOND):
            count = row[f"{of}replicates"]
            cells += ["none" if pd.isna(count) else f"{count:.0f}", metric_text(one.metric, _found(row, of))]
        rows.append(cells)
    heads = ["comparison", "paper's lead", "replicates", "found, paper's sampling", "replicates"]
    return of_numbers([*heads, "found, temperature 1"], rows)


def _found(one: pd.Series, of: str = "") -> float:
    """The smallest lead that is found in four of five cases; `of` begins the names of a sampling's columns."""
    count, lower, upper = (one[f"{of}{name}"] for name in ("replicates", "lower", "upper"))
    quantile, found = ndtri((0.975, FOUND)) if pd.isna(count) else stdtrit(count - 1, (0.975, FOUND))
    return (upper - lower) / 2 * (quantile + found) / quantile


def gathered_of(root: Path, name: str) -> pd.DataFrame:
    """A table that was gathered of the central study, with the columns of the whole study's replicates beside it."""
    central, whole = (pd.read_csv(root / spread / f"tables/{name}.csv") for spread in SPREADS)
    labels = list(central.columns[: central.columns.get_loc("mean")])
    both = completed(central, whole, labels, "metric")
    values = both.filter(like=_REPLICATE)
    return both.assign(
        mean=values.mean(axis=1), sd=values.std(axis=1), least=values.min(axis=1), greatest=values.max(axis=1)
    )


def adjusted(root: Path) -> tuple[str, str, str, str]:
    """A sentence on how many comparisons of the headlines stand after Holm's adjustment over all of them, and one on
    those of the central claim; one on the replicates that the conditions refuse; and a table of them over the
    replicates that take part, and over all that were run, the refused ones among them; with the paper's sampling."""
    of_headlines = root / HEADLINES
    found = pd.read_csv(of_headlines / "headlines.csv", keep_default_na=False, na_values=["NaN"])
    conditions = pd.read_csv(of_headlines / "refused.csv")
    out = conditions["replicate"].nunique()
    every = len(found.columns) - found.columns.get_loc("all_upper") - 1
    rows = []
    for pair in found.itertuples():
        cells = [
            _WITH_INTERVAL.format(**{key: signed(pair.metric, getattr(pair, of + key)) for key in _BOUNDS})
            for of in ("", "all_")
        ]
        rows.append([label_of(pair), cells[0], f"{pair.p:.3f}", f"{pair.p_holm:.3f}", cells[1]])
    stands = found.assign(
        lower=found["lower"].where(found["p_holm"] < 0.05, -np.inf),
        upper=found["upper"].where(found["p_holm"] < 0.05, np.inf),
    )
    left = Counter(_words(stands).values())
    said = (
        f"adjusted for {len(rows)} comparisons (Holm), {left[YES]} hold{'s' * (left[YES] == 1)}, {left[NO]} "
        f"do{'es' * (left[NO] == 1)} not and {left[UNDECIDED]} {'is' if left[UNDECIDED] == 1 else 'are'} undecided"
    )
    rows_of = [row for claim, row in zip(found["claim"], rows, strict=True) if claim.startswith(CENTRAL)]
    kept = [
        f"{label} ({ours.partition(' ')[0]})" for label, ours, _, of_family, _ in rows_of if float(of_family) < 0.05
    ]
    against = ", against it" * all(
        ours.startswith("−") for _, ours, _, of_family, _ in rows_of if float(of_family) < 0.05
    )
    names = f"{against}: {listed(kept)}" if kept else ""
    each = f"{number(len(kept)) if kept else 'none'} of its {number(len(rows_of))} comparisons"
    of_claim = f"Adjusted, {each} {'are' if len(kept) > 1 else 'is'} decided{names}"
    heads = ["comparison", f"{every - out} replicates", "p", "Holm", f"all {every} that were run"]
    words = _words(found), _words(found.assign(lower=found["all_lower"], upper=found["all_upper"]))
    changed = {claim: word for claim, word in words[1].items() if words[0][claim] != word}
    others = [
        f"{listed([f'“{claim}”' for claim in changed if changed[claim] == word])} would be {word}"
        for word in dict.fromkeys(changed.values())
    ]
    weak = conditions["condition"].str.contains("TokenProb").sum()
    refused = (
        f"{number(every).capitalize()} seeds were run; [conditions](docs/what-holds.md#replicates) exclude "
        f"{number(out)}, {number(weak)} since TokenProb ranks poorly there, so that it is a "
        f"stronger baseline in the rest. With all, {listed(others) if others else 'no word would change'}"
    )
    return said, of_claim, refused, of_numbers(heads, rows)


def _words(bounds: pd.DataFrame) -> dict[str, str]:
    """The word on each headline by the intervals of its comparisons, the columns claim, lower and upper."""
    return {
        str(claim): first_word(of_claim[["lower", "upper"]].to_dict("records"), TOLERANCE.get(str(claim), 0.0))
        for claim, of_claim in bounds.groupby("claim", sort=False)
    }


def rule_of_words(refused: str) -> str:
    """How the words of the verdict come about, and which replicates take no part."""
    return filled(
        "* *Yes*: all intervals support the claim (SelfConsis may lead by 0.02). *No*: one lies wholly "
        f"against it. Else undecided (†: any lead is smaller than the paper's). {refused}.",
        "  ",
    )


def stated(alone: pd.DataFrame, gathered: pd.DataFrame) -> str:
    """How well the confidences rank that RLCR's and DCPO's policies state, in one study and in the replicates.

    Args:
        alone: The columns of tables/main.csv.
        gathered: Those of the replicates.
    """
    told, count = [], number(_replicates(gathered))
    for name in ("rlcr", "dcpo"):
        (one,), (many,) = (of[_rows(of, name, "auroc")].to_dict("records") for of in (alone, gathered))
        least, most = (f"{many[bound]:.3f}" for bound in ("least", "greatest"))
        told.append(f"{one['value']:.3f} ({least} to {most}) for {METHODS[name].label}")
    return filled(
        "What RLCR and DCPO state ranks answers on mathematics with an AUROC, in the embedded study (in brackets: in "
        f"{count} replicates), of {' and of '.join(told)}; on facts it tells nothing. Their conditions were changed "
        "after a run in which both stated 1 throughout ([Decisions](decisions.md))."
    )


def _rows(of: pd.DataFrame, method: str, metric: str) -> pd.Series:
    return (of["dataset"] == MATHEMATICS) & (of["method"] == method) & (of["metric"] == metric)


def what_holds(judged: pd.DataFrame) -> str:
    """What all claims come to, and below it a table of those that a source decides.

    Args:
        judged: The columns of tables/claims.csv.
    """
    whole = of_claims(judged)
    verdicts = whole.pivot(index="claim", columns="source", values="verdict").loc[whole["claim"].unique()]
    titles = whole.drop_duplicates("claim").set_index("claim")["title"]
    sources = {REPLICATES: "replicates together", STUDY: "embedded study", LANGUAGE_MODEL: f"{SMOLLM2}, one run"}
    sources = {source: title for source, title in sources.items() if source in verdicts}
    decided = verdicts[verdicts[[*sources]].isin({*FAVOUR} - {OPEN}).any(axis=1)]
    families = of_families(judged)
    contradicted = "; ".join(f'"{titles[claim]}"' for claim in verdicts.index[verdicts[PAPER] == CONTRADICTS])
    counted = families[[REPLICATES, STUDY]].apply(pd.Series.value_counts).fillna(0).astype(int)
    order = sorted(counted.index, key=lambda verdict: (-FAVOUR.get(verdict, -1), verdict))
    said = (
        "A family is mixed whose members differ, and a claim is undecided where the 95 % interval of a difference "
        "holds zero. Without intervals a claim is observed or not. It is under-specified where the paper says too "
        "little to be judged, and not assessable where a source has not run what it speaks of; its baseline is "
        "degenerate where that confidence is constant or at chance.",
        f"Claims that the paper's own numbers contradict: {contradicted or 'none'}.",
    )
    lines = [
        f"Verdicts on the {len(families)} families of claims that restate one another, without claims about costs:",
        "",
        of_numbers(
            ["verdict", "replicates together", "embedded study alone"],
            [[verdict, *map(str, counted.loc[verdict])] for verdict in order],
        ),
        "",
        *(filled(f"* {line}", "  ") for line in said),
        "",
        f"<details><summary>The {len(decided)} claims of {len(verdicts)} that a column decides</summary>",
        "",
        f"| claim | {' | '.join(sources.values())} |",
        "|---|" + "---|" * len(sources),
        *(f"| {titles[claim]} | {' | '.join(row[[*sources]])} |" for claim, row in decided.iterrows()),
        "",
        "</details>",
    ]
    return "\n".join(lines)


def of_studies(root: Path) -> Iterator[tuple[str, str, str]]:
    """The page, name and text of each section that the numbers in studies/ make."""
    published = read_published(root / "config/paper")
    printed = published.cells[published.cells["table"] == "main"]
    gathered, laptop = gathered_of(root, "main"), pd.read_csv(root / "studies/laptop/gathered/tables/main.csv")
    points = pd.read_csv(root / "studies/experience/gathered/points.csv")
    curve = experience.prepare(layout_of(load_study(root / "config/config.yaml")), points, published)
    conditions = pd.read_csv(root / SPREADS[0] / "tables/conditions.csv")
    compared = pd.read_csv(root / "studies/fits/recipes.csv")
    measured = read_numbers(root / "studies/fits/fits.csv")
    yield "docs/what-holds.md", "limits", limits(measured)
    yield "docs/what-holds.md", "regimes", of_regimes(pd.read_csv(root / "studies/regimes/gathered/points.csv"))
    yield "README.md", "experience", experience_said(curve, conditions, points)
    yield "README.md", "recipes", recipes_said(compared)
    recalibrated = gathered_of(root, "recalibrated")
    yield "README.md", "bar", to_beat(recalibrated)
    yield "docs/what-holds.md", "one recalibration", after_one_recalibration(recalibrated)
    yield "docs/fitting.md", "recipes", recipes(compared)
    yield "docs/fitting.md", "sizes", sizes(pd.read_csv(root / "studies/fits/sizes.csv"), compared)
    yield "docs/what-holds.md", "numbers", main_numbers(gathered, printed)
    yield "docs/what-holds.md", "learning curve", learning_curve(curve)
    yield "docs/what-holds.md", "against postcal", against_postcal(points)
    yield "docs/laptop-study.md", "numbers", _beside_paper(laptop, printed, "one run, 95 % interval", _WITH_INTERVAL)


def main() -> None:
    """Every figure to a file of its name in docs, in 128 colours, and the sections of the pages."""
    root = Path(__file__).parents[1]
    if owner_of(root / "results") != "embedded":
        raise SystemExit("results/ is not that of the embedded study: `make clean reproduce` first")
    cells = read_published(root / "config/paper").cells
    with paper_style():
        gathered = gathered_of(root, "main")
        printed = cells[cells["table"] == "main"]
        drawn = draw_replicates(gathered, MATHEMATICS, printed)
        save_figure(drawn, root / SPREADS[0] / "figures/replications.pdf", {"study": "embedded"})
    widest = 1650  # text width at 300 dots an inch
    gathered_too = [name for name in _WHERE_GATHERED if (root / f"results/figures/{name}.png").exists()]
    for name in (*FIGURES, *(f"results/figures/{name}.png" for name in gathered_too)):
        with Image.open(root / name) as figure:
            scale = WIDTH / widest
            size = round(figure.width * scale), round(figure.height * scale)
            small = figure.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            small.quantize(128).save(root / f"docs/{Path(name).name}", optimize=True)
    judged, numbers, main_table = (
        pd.read_csv(root / f"results/tables/{name}.csv", keep_default_na=False, na_values=["NaN"])
        for name in ("claims", "verdict", "main")
    )
    scale = scale_of(load_study(root / "config/config.yaml"))
    stand, of_claim, refused, comparisons = adjusted(root)
    of_results = (
        ("README.md", "answer", answered(numbers, scale, stand, of_claim)),
        ("README.md", "verdict", verdict(numbers)),
        ("docs/embedded-study.md", "main", _beside_paper(main_table, printed, "one seed", _WITH_INTERVAL)),
        ("docs/what-holds.md", "ledger", what_holds(judged)),
        ("docs/what-holds.md", "power", power(numbers)),
        ("README.md", "adjusted", rule_of_words(refused)),
        ("docs/what-holds.md", "adjusted", comparisons),
        ("docs/what-holds.md", "stated", stated(main_table, gathered)),
    )
    for file, name, section in (*of_results, *of_studies(root)):
        page = root / file
        page.write_text(with_section(page.read_text(encoding="utf-8"), name, section), encoding="utf-8")


if __name__ == "__main__":
    main()
