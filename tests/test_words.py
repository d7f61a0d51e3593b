"""What tables and figures say in words is what their numbers say: heads, labels, titles and marks against the CSV."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import test_tables_decisions as decided
from claims_study import SCOPE, study_files, study_frame
from cocal.config import load_study
from cocal.evidence.claims import read_claims
from cocal.evidence.published import read_published
from cocal.exhibits import claims, claims_forest
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.registry import exhibits_of, module_of
from cocal.exhibits.drawing.style import paper_style
from cocal.exhibits.typesetting.html import page
from cocal.exhibits.typesetting.latex import latex
from cocal.metrics.scores import ALL
from cocal.metrics.shown import metric_text
from cocal.study.costs import Cost, Latency, TimeToConfidence
from coded_inputs import DOMAINS, SETS, coded_cube, coded_resamples, coded_scores, coded_specs, policy_of
from printed import Printed, of_latex, of_page
from sample_predictions import sample_predictions
from smoke_study import ROOT


def named(*labels: str) -> dict[str, str]:
    """Names by label: "CoCal (group)" is cocal-group."""
    return {label: re.sub("[ (]+", "-", label.lower()).rstrip(")") for label in labels}


METHODS = named("Verbal", "RLCR", "DCPO", "CoCal (pre-generation)", "CoCal on RLCR", "CoCal on DCPO")
METHODS |= named(*(f"{kind} ({target})" for kind in ("CoCal", "PostCal") for target in ("group", "binary")))
METHODS |= {"SelfConsis": "self-consistency", "TokenProb": "token-probability", "P(True)": "p-true"}
METHODS |= {"Base + Verbal": "base-verbal"}
RIVALS = named("RLCR", "DCPO", "CoCal (group)", "CoCal (binary)", "Least token probability", "Semantic entropy")
RIVALS |= {"TokenProb": "token-probability", "SelfConsis (leave-one-out)": "self-consistency-loo"}
RIVALS |= {"Linear probe (group)": "linear-group", "Linear probe (binary)": "linear-binary"}
RIVALS |= {"One-layer MLP (group)": "one-layer-group", "One-layer MLP (binary)": "one-layer-binary"}
RIVALS |= {"Length (shorter is surer)": "length"}
DATASETS = named("MATH500", "AIME24", "AIME25", "AMC23", "AMC24", "SQuAD", "MuSiQue", "PopQA")
DATASETS |= {"WebQuestions": "webq", "ComplexWebQuestions": "cwq"}
HEADS = {"Acc.↑": "accuracy", "MeanConf": "mean_confidence", "ECE↓": "ece", "AUROC↑": "auroc", "Brier↓": "brier"}
HEADS |= {"Rel.↓": "brier_reliability", "Res.↑": "brier_resolution", "Unc.": "brier_uncertainty"}
HEADS |= {"LogLoss↓": "log_loss", "AdaECE↓": "adaptive_ece", "SmECE↓": "smooth_ece", "AURC↓": "aurc", "AUGRC↓": "augrc"}
HEADS |= {"PRR↑": "prr", "Acc@80↑": "accuracy_at_80", "Acc@50↑": "accuracy_at_50"}
SHARES = {
    "Valid": "valid_rate",
    "Answered": "answered_rate",
    "Decided": "decided_rate",
    "Truncated": "truncation_rate",
    "True or False": "p_true_mass",
    "Exact match": "exact_match_accuracy",
}


def said(**columns: dict[str, str]) -> dict[str, dict]:
    """What words say of the columns of a CSV."""
    return {word: {column: value} for column, words in columns.items() for word, value in words.items()}


def accuracies(macro: str) -> dict[str, dict]:
    words = said(method=METHODS, dataset=DATASETS | {"Macro Average": macro}, metric=HEADS, shows=SHARES)
    return words | {"Separable from the best": {"shows": "separable_from_best"}}


MACROS = {"Macro average, mathematics": "macro-mathematics", "Macro average, factual questions": "macro-factual"}
SCORED = {
    "Macro average over five mathematical sets": "macro-mathematics",
    "Macro average over five factual sets": "macro-factual",
}
OURS = {"CoCal (binary) minus": "cocal-binary", "CoCal (group) minus": "cocal-group"}
WORDS = {
    "main": accuracies("macro-mathematics"),
    "main_step40": accuracies("macro-mathematics"),
    "main_step80": accuracies("macro-mathematics"),
    "scale": accuracies("macro-mathematics"),
    "ood": accuracies("macro-factual"),
    "comparisons": said(method=OURS, rival=METHODS, dataset=DATASETS | MACROS, metric=HEADS)
    | {corner: {"method": method, "shows": "value lower upper"} for corner, method in OURS.items()},
    "recalibrated": said(
        rival=RIVALS,
        calibration={"As they are": "raw", "Platt scaling": "platt", "Isotonic regression": "isotonic"},
        dataset={"Mathematics": "macro-mathematics", "Factual QA": "macro-factual"},
        metric=HEADS,
    ),
    "proper_scores": said(method=METHODS, metric=HEADS, dataset=SCORED),
    "token_aggregation": said(
        pooling={"Last token": "last", "Response mean": "mean", "Last + mean": "last+mean"},
        backbone={"Qwen3-8B": "qwen3-8b", "Qwen3-14B": "qwen3-14b"},
        metric=HEADS,
    ),
    "pre_generation": said(
        method={"Pre-generation": "cocal-pre-generation", "Post-generation (group)": "cocal-group"},
        domain={"Mathematics": "macro-mathematics", "Factual QA": "macro-factual"},
        metric=HEADS,
    ),
    "decisions": said(
        method={label: name for label, name in METHODS.items() if name in decided.METHODS},
        part={"Accuracy (%)": "choice", "Abstention (%)": "abstention", "Accuracy of the kept (%)": "routing"},
        dataset={"AMC": "amc", "AIME": "aime", "Average": "macro"},
        metric={"Answered": "coverage", "Wrong": "risk", "Certified": "certified"},
        rule={
            "Most confident response (best of n)": "best-of-n",
            "Confidence-weighted vote": "vote",
            "First response": "first",
            "Majority vote": "majority",
            "Any of the responses (oracle)": "oracle",
            "0 % sent": "0",
            "20 % sent": "0.2",
            "50 % sent": "0.5",
        },
    )
    | {"30 × 4": {"questions": 30, "responses": 4}, "20 × 2": {"questions": 20, "responses": 2}}
    | {"Mathematics, 350 questions": {"dataset": "mathematics", "questions": 350}}
    | {"Factual QA, 150 questions": {"dataset": "factual", "questions": 150}},
    "cost": said(
        method={"CoCal": "CoCal", "PostCal": "PostCal", "SelfConsis": "SelfConsis"},
        shows={
            **{"Training LLM (h)": "training_llm", "Training Sampling (h)": "training_sampling"},
            **{"Training States (min)": "training_states", "Training MLP (s)": "training_mlp"},
            **{"Inference LLM (s)": "inference_llm", "Inference MLP (ms)": "inference_mlp"},
        },
    ),
    "time_to_confidence": said(
        dataset=DATASETS, shows={"Pre (ms)": "pre_seconds", "Post (s)": "post_seconds", "Post/Pre": "ratio"}
    ),
    "conditions": said(shows={"Paper": "paper", "This study": "value", "Ratio": "ratio"}),
    "claims": {
        "Paper's numbers": {"source": "paper", "shows": "verdict"},
        "This study": {"source": "study", "shows": "verdict"},
        "Margin": {"source": "study", "shows": "value lower upper"},
        "Replicates": {"source": "replicates", "shows": "verdict"},
    },
    "hyperparameters": {"Value": {"shows": "value"}},
}
"""What the words of each table say; group titles and row names that are values of the CSV themselves are not listed."""
ITSELF = {"conditions": ("condition", "of"), "claims": ("section", "title"), "hyperparameters": ("section", "setting")}
"""The columns that a table prints as the titles of its groups and the names of its rows."""
UNITS = {"(h)": 1 / 3600, "(min)": 1 / 60, "(ms)": 1000}
MARKS = dict.fromkeys(("main", "main_step40", "main_step80", "scale", "ood", "proper_scores"), ("best", "second"))
MARKS |= {"recalibrated": ("best", "second"), "token_aggregation": ("best",), "pre_generation": ()}
"""The marks of the tables that rank the values of a column, in the direction of the arrow in its head."""


# Inputs


def inputs_of(one) -> dict:  # noqa: PLR0911
    """Inputs of a table or figure of the paper study, with a number of its own in every place."""
    name, layout = one.module, one.layout
    if not one.inputs:
        return {}
    everything = list(METHODS.values())
    if name in ("token_aggregation", "layers"):
        sweep = {"layer": range(40), "pooling": ["last", "mean", "last+mean"]}
        return {"metrics": [coded_cube(b, ["cocal-group", "cocal-binary"], **sweep) for b in ("qwen3-14b", "qwen3-8b")]}
    if name in ("budgets", "early_steps", "cross_iteration", "composition"):
        cube = coded_cube("qwen3-8b", everything, source_step=[1, 2, 5, 10, 20, 30, 40, 80, 120])
        if name != "composition":
            return {"metrics": cube}
        cube["value"].loc[{"metric": "accuracy"}] = 0.583  # all methods score the same responses
        return {"metrics": cube, "companions": coded_specs(layout.steps)}
    if name == "recalibrated":
        methods = [f"{rival}{after}" for after in ("", "+platt", "+isotonic") for rival in layout.rivals]
        return {"metrics": coded_cube(layout.backbone, methods)}
    if name == "conditions":
        frame = sample_predictions(*SETS, methods=("base-verbal", "verbal", "rlcr", "dcpo"), step=120)
        files = {"companions": coded_specs([120]), "published": read_published(ROOT / "config/paper")}
        return {"metrics": coded_cube(layout.backbone, everything), "predictions": [frame], **files}
    if name == "decisions":
        return {"predictions": decided.predictions(), "responses": [decided.pool("amc"), decided.pool("aime")]}
    if name in ("cost", "time_to_confidence"):
        return {kind: COSTS[kind] for kind in one.inputs}
    if name == "online":
        return {"scores": coded_scores(layout.windows, 60)}
    if name in ("reliability", "reliability_all", "risk_coverage"):
        names = [getattr(dataset, "name", dataset) for dataset in layout.datasets]
        return {
            "predictions": [sample_predictions(*names, methods=layout.methods, step=120).assign(backbone="qwen3-8b")]
        }
    found = {"metrics": coded_cube(layout.backbone, everything, ALL)}
    resampled = {"resamples": coded_resamples(layout.backbone, everything)}
    return {kind: (found | resampled)[kind] for kind in one.inputs}


COSTS = {
    "training": Cost(seconds=61_812, items=120, states_seconds=2460, device="A"),
    "sampling": Cost(seconds=47_052, items=245_760, states_seconds=1740, device="A"),
    "fit": Cost(seconds=15.31, items=10, device="A"),
    "postcal_fit": Cost(seconds=12.87, items=8, device="B"),
    "latency": Latency(
        device="B",
        questions=8,
        engine="e",
        generation_dataset="math500",
        generation_questions=500,
        generation_seconds=1.372,
        pool=10,
        pool_seconds=3.225,
        predictions=1000,
        prediction_ms=0.199,
        time_to_confidence=[
            TimeToConfidence(dataset=name, pre_ms=20 + 3 * place, post_s=31 + 17 * place)
            for place, name in enumerate(reversed(DOMAINS["macro-mathematics"]))
        ],
    ),
}
PAPER = exhibits_of(load_study(ROOT / "config/paper.yaml"), {})
TABLES = {one.name: one for one in PAPER if isinstance(one, TableExhibit)}
FIGURES = {one.module: one for one in PAPER if one.name not in TABLES or one.module == "claims_forest"}


def made(name: str):
    """The numbers of a table, and what it prints."""
    one = TABLES[name]
    if name == "claims":
        return judged()
    layout = decided.LAYOUT if name == "decisions" else one.layout
    inputs = inputs_of(one)
    module = module_of(one.module)
    numbers = module.prepare(layout, **inputs)
    return numbers, module.grid(numbers, layout, source="here", **inputs), inputs


def judged():
    files = study_files(study_frame())
    layout = claims.Layout(study="embedded", caption="Made up.", label="Tiny A", scope=SCOPE)
    ledger = read_claims(ROOT / "config/paper/claims.yaml")
    inputs = {"resamples": files.resamples, "published": read_published(ROOT / "config/paper"), "ledger": ledger}
    inputs |= {"companions": files.companions, "predictions": files.predictions, **files.costs}
    inputs |= {"latency": files.latency}
    numbers = claims.prepare(layout, **inputs)
    draw = np.random.default_rng(0)
    places = numbers["source"].eq("replicates") & ~numbers["verdict"].eq("under-specified")
    numbers.loc[places, "verdict"] = [f"in {draw.integers(6)} of 5" for _ in range(places.sum())]
    return numbers, claims.grid(numbers, layout, source="here", **inputs), inputs


# Tables


@pytest.fixture(scope="module")
def tables():
    """Numbers, grid and inputs of each table, made when they are asked for."""
    return cache(made)


def meant(name: str, words: tuple[str, ...]) -> tuple[dict, list[str]]:
    """What the words of a value say: the values of columns of the CSV, and the columns that it shows."""
    _, group, row, *heads = words
    spoken = [WORDS[name].get(word, {}) for word in (*words, " ".join(heads))]
    found = {column: value for one in spoken for column, value in one.items()}
    found |= dict(zip(ITSELF.get(name, ()), (group, row), strict=False))
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
    for printed in (of_latex(latex(grid)), of_page(page(grid))):
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
        same = name == "claims" and value.words[-1] == "Replicates" and value.text == "–"
        assert same or value.text == (row[shown[0]] or "–"), value
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
        assert (value.mark == "best") == (value.text == "does not hold" and value.words[-1] != "Replicates"), value


@pytest.mark.parametrize("name", MARKS)
def test_the_best_and_the_second_best_of_a_column_carry_the_marks(name, tables):
    _, grid, _ = tables(name)
    for printed in (of_latex(latex(grid)), of_page(page(replace(grid, details=())))):
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
    """What tells a curve from the others."""
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
    hatches = {handle.get_label(): handle.get_hatch() for handle in figure.legends[0].legend_handles[2:4]}
    for diagram, histogram in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        middle = (diagram.get_position().y1 + histogram.get_position().y0) / 2
        dataset = rows[min(rows, key=lambda y: abs(y - middle))]
        panel = numbers[numbers["dataset"].eq(dataset) & numbers["method"].eq(columns[diagram.get_position().x0])]
        filled = panel[panel["count"] > 0].set_index("left")
        assert {bar.get_x(): bar.get_height() for bar in histogram.patches} == filled["count"].to_dict()
        bars, gaps = ([bar for box in diagram.containers[k::2] for bar in box] for k in (0, 1))
        assert {bar.get_x(): bar.get_height() for bar in bars} == filled["accuracy"].to_dict()
        for gap in gaps:
            one = filled.loc[gap.get_x()]
            over = "above" if one["mean_confidence"] > one["accuracy"] else "below"
            assert gap.get_hatch() in (None, hatches[f"confidence {over} accuracy"])
            assert (gap.get_hatch() is None) == (one["count"] < 10)
        one = panel.iloc[0]
        words = [
            [f"{m.upper()} {metric_text(m, one[m])}", f" ({metric_text(m, one[f'{m}_of_seeds'])})" * bool(one["seeds"])]
            for m in ("ece", "auroc")
        ]
        assert "\n".join(map("".join, words)) in {text.get_text() for text in diagram.texts}


def test_margins_stand_beside_their_claims_and_look_like_their_verdicts():
    numbers, _, _ = judged()
    numbers.loc[numbers["source"].eq("replicates"), ["value", "lower", "upper"]] = [0.21, -0.17, 0.38]
    with paper_style():
        figure = claims_forest.draw(numbers, claims.Layout(study="s", caption="c.", label="Tiny A", scope=SCOPE))
    (ax,), (legend,) = figure.axes, figure.legends
    entries = {
        text.get_text(): look(handle)[:3]
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    titles = [label.get_text() for label in ax.get_yticklabels()]
    drawn = [(titles[round(line.get_ydata()[0])], look(line)[:3], list(line.get_xdata())) for line in ax.lines[:-1]]
    for row in numbers[numbers["value"].notna()].itertuples():
        kinds = {"paper": "published numbers", "replicates": "replicates: least, mean, greatest"}
        wanted = [row.lower, row.value, row.upper] if row.source == "replicates" else [row.value]
        assert (row.title, entries[kinds.get(row.source, row.verdict)], wanted) in drawn, row
        if row.source == "study":
            assert (row.title, [row.lower, row.upper]) in [(title, ends) for title, _, ends in drawn], row
