"""The words of tables and figures agree with their numbers: heads, labels, titles and marks against the CSV."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from claims_study import SCOPE
from cocal.drawing.style import paper_style
from cocal.metrics.scores import ALL
from cocal.metrics.shown import metric_text
from cocal_study.exhibits import claims, claims_forest
from cocal_study.exhibits.base.registry import module_of
from coded_inputs import policy_of
from drawn_texts import assert_texts_apart
from meant_words import DATASETS, FIGURES, ITSELF, MARKS, METHODS, SHARES, TABLES, UNITS, WORDS, inputs_of, judged, made
from printed import Printed, of_blocks


@pytest.fixture(scope="module")
def tables():
    """Numbers, grid and inputs of each table, made when they are asked for."""
    return cache(made)


def meant(name: str, words: tuple[str, ...]) -> tuple[dict, list[str]]:
    """The meaning of the words of a value: the values of columns of the CSV, and the columns that it shows."""
    _, group, row, *heads = words
    spoken = [WORDS[name].get(word, {}) for word in (*words, " ".join(heads))]
    found = {column: value for one in spoken for column, value in one.items()}
    found |= dict(zip(ITSELF.get(name, ()), (group, row), strict=False))
    if name == "claims":
        found = {"case": 0, "score": "", "source": "study"} | found
    if name == "decisions" and found["part"] == "choice":
        found.setdefault("method", "")
    if name == "decisions":
        found = {"metric": "accuracy", "rule": "certified"} | found
    return found, found.pop("shows", "value").split()


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_value_is_the_one_that_its_words_name(name, tables):
    numbers, grid, _ = tables(name)
    if name == "claims":
        grid = replace(grid, details=())
    for printed in (of_blocks(grid.blocks), of_blocks((*(grid.page_blocks or grid.blocks), *grid.details))):
        read = []
        for value in printed:
            found, shown = meant(name, value.words)
            if shown[0] in (*SHARES.values(), "separable_from_best"):
                found |= {} if "metric" in found else {"metric": "ece"}  # on which the shares do not depend
            rows = numbers[np.logical_and.reduce([numbers[column].eq(said) for column, said in found.items()])]
            if rows.empty and value.text == "–":
                continue  # accuracies of one and the same responses are not compared
            assert len(rows) == 1, (value, found)
            assert_says(name, value, rows.iloc[0], shown)
            read.append((rows.index[0], *shown))
        assert len(set(read)) == len(read) > 0, "a number is printed once"


def assert_says(name: str, value: Printed, row: pd.Series, shown: list[str]) -> None:
    """That a printed value is the number, or the word, of its row."""
    if isinstance(row[shown[0]], str):
        text = row[shown[0]]
        if shown == ["zero_excluded", "paper_excluded"]:
            said = [word for word, name in zip(("zero", "paper"), shown, strict=True) if row[name] == "yes"]
            text = ", ".join(said) or {"no": "neither", "": "nothing" if text else ""}[row["paper_excluded"]]
        assert value.text.removesuffix(" <") == (text if text not in ("", "not assessable") else "–"), value
    elif pd.isna(row[shown[0]]):
        assert value.text == "–", value
    else:
        percent = str(row.get("metric", "")).startswith(("accuracy", "share", "gap")) and shown != ["ratio"]
        percent |= shown[0] in SHARES.values() or name == "decisions"
        unit = UNITS.get(value.words[-1].rpartition(" ")[2], 100 if percent else 1)
        same = row["lower"] == row["upper"] if len(shown) > 1 else False  # has no interval
        assert len(value.numbers) == (1 if same else len(shown)), value
        for (number, half), column in zip(value.numbers, shown, strict=False):
            assert abs(number - unit * row[column]) <= half + 1e-9, (value, column, row[column])
    if name == "comparisons":
        assert (value.mark == "best") == (row["p_holm"] < 0.05), value
    if name == "claims":
        assert (value.mark == "best") == (
            value.text.removesuffix(" <") in ("does not hold", "not observed", "stated: contradicts")
        ), value


@pytest.mark.parametrize("name", MARKS)
def test_the_best_and_the_second_best_of_a_column_carry_the_marks(name, tables):
    _, grid, _ = tables(name)
    for printed in (of_blocks(grid.blocks), of_blocks(grid.page_blocks or grid.blocks)):
        for column in {value.column for value in printed}:
            ranked = [value for value in printed if value.column == column and value.text != "–"]
            head = ranked[0].words[-1]
            shown = sorted({value.numbers[0][0] for value in ranked}, reverse=head.endswith("↑"))
            marks = dict(zip(shown, MARKS[name], strict=False)) if head[-1] in "↑↓" else {}
            assert [value.mark for value in ranked] == [marks.get(value.numbers[0][0], "") for value in ranked], head


CELLS = {
    "scale": {"backbone": "qwen3-14b"},
    "main_step40": {"step": 40},
    "main_step80": {"step": 80},
    "early_steps": {"step": 40},
}
FINAL_LAYER = {"qwen3-8b": 35, "qwen3-14b": 39}
OF_CUBES = ["main", "main_step40", "main_step80", "scale", "ood", "proper_scores", "recalibrated", "token_aggregation"]
OF_CUBES += ["pre_generation", "training_dynamics", "cross_policy", "budgets", "early_steps", "composition"]


@pytest.mark.parametrize("name", [*OF_CUBES, "cross_iteration", "layers"])
def test_every_number_comes_from_the_cell_that_its_columns_name(name, tables, figures):
    numbers, _, inputs = tables(name) if name in TABLES else figures(name)
    cubes = inputs["metrics"] if isinstance(inputs["metrics"], list) else [inputs["metrics"]]
    fixed = {"backbone": "qwen3-8b", "step": 120, "dataset": "macro-mathematics", "method": "cocal-binary"}
    fixed |= {"pooling": "last+mean"} | CELLS.get(name, {})
    for row in numbers[numbers["value"].notna() & numbers["metric"].isin(ALL)].to_dict("records"):
        cell = fixed | row | {"dataset": row.get("domain", row.get("dataset", fixed["dataset"]))}
        cell |= {"layer": FINAL_LAYER[cell["backbone"]]} if "layer" not in row else {}
        cell |= policy_of(cell["method"], cell["step"])
        (cube,) = (cube for cube in cubes if cell["backbone"] in cube["backbone"])
        assert row["value"] == cube["value"].sel({dim: cell[dim] for dim in cube["value"].dims}).item(), cell


CONDITIONS = {
    "Accuracy before training (%)": ("main", "base-verbal", "accuracy"),
    "Accuracy after GRPO (%)": ("main", "token-probability", "accuracy"),
    "Stated confidence before training": ("main", "base-verbal", "mean_confidence"),
    "Mean token probability after GRPO": ("main", "token-probability", "mean_confidence"),
    "Factual accuracy after GRPO (%)": ("ood", "token-probability", "accuracy"),
    "Stated confidence before training, factual": ("ood", "base-verbal", "mean_confidence"),
    "Mean token probability after GRPO, factual": ("ood", "token-probability", "mean_confidence"),
}
COUNTED = {
    "PostCal, training": (143_000, 152_065),
    "PostCal, validation": (14_000, 16_968),
    "Responses of GRPO's final policy (PostCal)": (1 - 157_000 / 245_760, 1 - (152_065 + 16_968) / 245_760),
    **{"Sampling temperature": (0.7, 0.7), "Top-p": (0.8, 0.8), "Top-k": (20, 20), "Presence penalty": (1.5, 1.5)},
    "Rollout steps": (120, 120),
    "CoCal, one pass": (586, 595),
}
"""The study's and the paper's value."""


def test_each_condition_is_what_its_name_says_in_the_study_and_in_the_paper(tables):
    numbers, _, inputs = tables("conditions")
    cells = inputs["published"].cells
    cube = inputs["metrics"]["value"].sel(backbone="qwen3-8b")

    def both(table: str, method: str, metric: str, dataset: str) -> tuple[float, float]:
        ours = cube.sel({**policy_of(method, 120), "method": method, "metric": metric, "dataset": dataset}).item()
        named_ = {"table": table, "method": method, "metric": metric, "dataset": dataset}
        (paper,) = cells["value"][np.logical_and.reduce([cells[name] == value for name, value in named_.items()])]
        return ours, paper / (100 if metric == "accuracy" else 1)

    for row in numbers.itertuples():
        if row.condition in CONDITIONS:
            table, method, metric = CONDITIONS[row.condition]
            macro = "macro-mathematics" if table == "main" else "macro-factual"
            expected = both(table, method, metric, DATASETS.get(row.of, macro))
        elif row.condition == "AUROC of what the policy knows itself":
            named = {"TokenProb": "token-probability", "SelfConsis": "self-consistency", "P(True)": "p-true"}
            expected = both("main", named.get(row.of, "verbal"), "auroc", "macro-mathematics")
        elif row.condition == "Responses to each evaluation set":
            where = {**policy_of("token-probability", 120), "method": "token-probability", "dataset": DATASETS[row.of]}
            size = {"MATH500": 500, "AIME24": 300, "AIME25": 300, "AMC23": 400, "AMC24": 450}[row.of]
            expected = inputs["metrics"]["n"].sel(where | {"backbone": "qwen3-8b"}).item(), size
        elif row.condition == "Valid stated confidences before training (%)":
            dataset = {"Mathematics": "macro-mathematics", "Factual": "macro-factual"}[row.of]
            where = {**policy_of("base-verbal", 120), "method": "base-verbal", "dataset": dataset}
            expected = inputs["metrics"]["valid_rate"].sel(where | {"backbone": "qwen3-8b"}).item(), np.nan
        elif row.of in COUNTED:
            expected = COUNTED[row.of]
        else:
            assert np.isnan(row.paper), row
            continue  # numbers of the rollouts, which test_conditions recomputes
        assert (row.value, row.paper) == pytest.approx(expected, nan_ok=True), row
        assert row.ratio == pytest.approx(expected[0] / expected[1], nan_ok=True), row


def test_the_times_of_a_method_are_those_of_its_jobs(tables):
    numbers = tables("cost")[0].set_index("method")
    no = float("nan")
    assert numbers.loc["CoCal"].tolist() == pytest.approx([61_812, no, 2460, 15.31, 1.372, 1.99e-4], nan_ok=True)
    assert numbers.loc["PostCal"].tolist() == pytest.approx([61_812, 47_052, 1740, 12.87, 1.372, 1.99e-4], nan_ok=True)
    assert numbers.loc["SelfConsis"].tolist() == pytest.approx([61_812, no, no, no, 3.225, no], nan_ok=True)


# Figures

PANELS = {
    "Accuracy (%)": "accuracy",
    "Mean confidence": "mean_confidence",
    "ECE $\\downarrow$": "ece",
    "AUROC $\\uparrow$": "auroc",
    "Incorrect training responses (%)": "training_error_share",
    "Mean test confidence": "mean_confidence",
}
CURVES = {
    "training_dynamics": ("Training step", "step"),
    "cross_policy": ("Training step", "step"),
    "budgets": ("Matched budget (rollout steps)", "source_step"),
    "composition": ("Matched budget (rollout steps)", "source_step"),
    "early_steps": ("Rollout steps learnt from", "source_step"),
    "layers": ("Layer (zero-based block index)", "layer"),
    "online": ("Rollout steps learnt from", "source_step"),
    "risk_coverage": ("Coverage (%)", "coverage"),
}
"""The label of the horizontal axis of each figure of curves, and the column that it shows."""
SHARING = {"self-consistency", "token-probability", "p-true", "postcal-group", "postcal-binary", "cocal-group"}
RISKS = {
    "Risk (%), on the same responses": SHARING | {"cocal-binary", "optimal", "random"},
    "Risk (%), on responses of their own": {"base-verbal", "verbal", "rlcr", "dcpo", "cocal-binary"},
}
DRAWN = METHODS | {
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-14B": "qwen3-14b",
    "optimal order": "optimal",
    "random order": "random",
}
DRAWN |= {"online (510 kB kept)": 1, "online, last 10 steps (5.1 MB kept)": 10}
DRAWN |= {"replayed (7.3 GB kept)": 0}
"""The curve of each entry of a legend: its method, backbone, or number of steps in the buffer."""


@pytest.fixture(scope="module")
def figures():
    """Numbers, drawing and inputs of each figure."""

    @cache
    def drawn(name: str):
        one = FIGURES[name]
        module, inputs = module_of(name), inputs_of(one)
        numbers = module.prepare(one.layout, **inputs)
        with paper_style():
            return numbers, module.draw(numbers, one.layout), inputs

    return drawn


def look(line) -> tuple:
    """The features that tell a curve from the others."""
    filled = line.get_marker() not in ("None", None, "")
    face = to_hex(line.get_markerfacecolor()) if filled else ""
    width = line.get_linewidth() if line.get_linestyle() != "None" else 0
    return to_hex(line.get_color()), line.get_marker(), face, line.get_linestyle(), width


@pytest.mark.parametrize("name", CURVES)
def test_every_curve_is_that_of_its_entry_in_the_legend_and_of_its_panel(name, figures):
    numbers, figure, _ = figures(name)
    label, x = CURVES[name]
    assert label in {text.get_text() for text in figure.texts}
    (legend,) = figure.legends
    entries = {
        look(handle): text.get_text() for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    assert len(entries) == len(legend.get_texts()), "entries look different"
    for ax in figure.axes:
        panel, scale = panel_of(name, numbers, ax.get_title())
        seen = []
        for line in ax.lines:
            curve = DRAWN.get(entries.get(look(line), ""))
            if curve is None:
                continue  # marks of the layers, thin lines, and the accuracy
            rows = panel[panel["curve"] == curve]
            values = rows["value"].rolling(10, min_periods=1).mean() if name == "online" and curve else rows["value"]
            at = 100 * rows[x] if x == "coverage" else rows[x]
            assert line.get_xdata(orig=True) == pytest.approx(at.to_numpy()), (ax.get_title(), curve)
            assert line.get_ydata(orig=True) == pytest.approx(scale * values.to_numpy()), (ax.get_title(), curve)
            seen.append(curve)
        assert sorted(map(str, seen)) == sorted(map(str, panel["curve"].unique())), ax.get_title()


def panel_of(name: str, numbers: pd.DataFrame, title: str) -> tuple[pd.DataFrame, float]:
    """The rows that a panel of this title shows, with the column curve, and the factor of its values."""
    if name == "risk_coverage":
        return numbers[numbers["curve"].isin(RISKS[title])].rename(columns={"risk": "value"}), 100
    curve = {"layers": "backbone", "online": "window"}.get(name, "method")
    rows = numbers[numbers["metric"] == PANELS[title]]
    return rows.assign(curve=rows[curve]), 100 if title.endswith("(%)") else 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in FIGURES.items() if one.layout and name != "claims_forest"])
def test_no_text_of_a_figure_lies_on_another_or_beyond_the_page(name, figures):
    with paper_style():
        assert_texts_apart(figures(name)[1])


def test_a_heat_map_shows_the_metric_of_its_title(figures):
    numbers, figure, _ = figures("cross_iteration")
    assert "Target policy (training step)" in {text.get_text() for text in figure.texts}
    assert [ax.get_ylabel() for ax in figure.axes] == ["Source (rollout steps)", ""]
    for ax in figure.axes:
        values = numbers[numbers["metric"] == PANELS[ax.get_title()]].set_index(["source_step", "step"])["value"]
        places = {(x, y): text.get_text() for text in ax.texts for x, y in [text.get_position()]}
        for row, source in enumerate((40, 80, 120)):
            for column, target in enumerate((40, 80, 120)):
                assert places[column + 0.5, row + 0.5] == f"{values[source, target]:.3f}"


@pytest.mark.parametrize("name", ["reliability", "reliability_all"])
def test_a_reliability_diagram_is_that_of_its_row_and_column(name, figures):
    numbers, figure, _ = figures(name)
    columns = {ax.get_position().x0: METHODS[ax.get_title().replace("\n", " ")] for ax in figure.axes if ax.get_title()}
    rows = {text.get_position()[1]: DATASETS[text.get_text()] for text in figure.texts if text.get_rotation() == 90}
    *_, hatched, plain, _ = figure.legends[0].legend_handles
    assert [hatched.get_label(), plain.get_label()] == [
        f"gap: confidence {where} accuracy" for where in ("above", "below")
    ]
    assert [bool(hatched.get_hatch()), plain.get_hatch()] == [True, None]
    for diagram, histogram in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        middle = (diagram.get_position().y1 + histogram.get_position().y0) / 2
        dataset = rows[min(rows, key=lambda y: abs(y - middle))]
        panel = numbers[numbers["dataset"].eq(dataset) & numbers["method"].eq(columns[diagram.get_position().x0])]
        filled = panel[panel["count"] > 0].set_index("left")
        assert {bar.get_x(): bar.get_height() for bar in histogram.patches} == filled["count"].to_dict()
        bars = [bar for box in diagram.containers for bar in box]
        ends = {bar.get_x(): (bar.get_y(), bar.get_y() + bar.get_height()) for bar in bars}
        assert ends.keys() == {*filled.index}
        for bar in bars:
            one = filled.loc[bar.get_x()]
            assert ends[bar.get_x()] == pytest.approx((one["mean_confidence"], one["accuracy"]))
            over = one["mean_confidence"] > one["accuracy"] and one["count"] >= 10
            assert bar.get_hatch() == (hatched.get_hatch() if over else None)
        one = panel.iloc[0]
        words = [
            [f"{m.upper()} {metric_text(m, one[m])}", f" ({metric_text(m, one[f'{m}_of_seeds'])})" * bool(one["seeds"])]
            for m in ("ece", "auroc")
        ]
        assert "\n".join(map("".join, words)) in {text.get_text() for text in diagram.texts}


def test_margins_stand_beside_their_claims_and_look_like_their_verdicts():
    layout = claims.Layout(study="s", caption="c.", labels=("Tiny A", "Tiny B"), scope=SCOPE)
    numbers = claims_forest.prepare(layout, **judged()[2])
    of_study = numbers[numbers["source"] == "study"]
    joint = of_study.assign(source="replicates", lower=of_study["value"] - 9, upper=of_study["value"] + 9)
    ones = [
        of_study.assign(source=f"replicate {k}", value=of_study["value"] + shift)
        for k, shift in ((2, 0.01), (9, -0.02))
    ]
    numbers = pd.concat([numbers, joint, *ones], ignore_index=True)
    with paper_style():
        figure = claims_forest.draw(numbers, layout)
    (legend,) = figure.legends
    entries = {
        text.get_text(): look(handle)[:3]
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    titles = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    panels = {"ece": "ECE", "auroc": "AUROC", "share": "Accuracy, confidence,\nother shares"}
    axes = {ax.get_title(): ax for ax in figure.axes}
    assert set(axes) == {panels[unit] for unit in numbers["margin"]}
    for unit, rows in numbers.groupby("margin"):
        lines = axes[panels[unit]].lines
        drawn = [(titles[round(line.get_ydata()[0])], look(line)[:3], list(line.get_xdata())) for line in lines[:-1]]
        places = [(title, ends) for title, _, ends in drawn]
        for row in rows.itertuples():
            title = row.title.replace("First backbone", "Tiny A").replace("Second backbone", "Tiny B")
            kind = "one replicate" if row.source.startswith("replicate ") else "published"
            if row.source in ("study", "replicates"):
                assert (title, [row.lower, row.upper]) in places, row
            if row.source == "replicates":
                colours = {colour for name, (colour, marker, _), ends in drawn if name == title and marker == "|"}
                assert colours == {entries[row.verdict][0]}, row
            else:
                assert (title, entries[row.verdict if row.source == "study" else kind], [row.value]) in drawn, row
