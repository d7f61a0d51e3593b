"""Tables and figures of the paper study, made of inputs whose numbers all differ."""

import re

import numpy as np

import decided
from claims_study import SCOPE, study_files, study_frame
from cocal.metrics.scores import ALL
from cocal_study.config import load_study
from cocal_study.evidence.claims import read_claims
from cocal_study.evidence.published import read_published
from cocal_study.exhibits import claims
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of, module_of
from cocal_study.planning.costs import Cost, Latency, TimeToConfidence
from coded_inputs import (
    DOMAINS,
    coded_cube,
    coded_questions,
    coded_resamples,
    coded_rollouts,
    coded_scores,
    coded_specs,
)
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
RIVALS |= named("PostCal (group)", "PostCal (binary)")
CALIBRATIONS = {
    f"{kind}, {basis}": f"{name}-{word}"
    for kind, name in (("Platt scaling", "platt"), ("Isotonic regression", "isotonic"))
    for basis, word in (
        ("all rollouts", "all"),
        ("rollouts of the last stage", "last"),
        ("PostCal's responses", "resampled"),
    )
}
RIVALS |= {"TokenProb": "token-probability", "SelfConsis (leave-one-out)": "self-consistency-loo"}
RIVALS |= {"Linear probe (group)": "linear-group", "Linear probe (binary)": "linear-binary"}
RIVALS |= {"One-layer MLP (group)": "one-layer-group", "One-layer MLP (binary)": "one-layer-binary"}
RIVALS |= {"Length (shorter is surer)": "length"}
DATASETS = named("MATH500", "AIME24", "AIME25", "AMC23", "AMC24", "SQuAD", "MuSiQue", "PopQA")
DATASETS |= {"WebQuestions": "webq", "ComplexWebQuestions": "cwq"}

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
        afters = ("", *(f"+{name}" for name in CALIBRATIONS.values()))
        methods = [f"{rival}{after}" for after in afters for rival in layout.rivals["raw"]]
        return {"metrics": coded_cube(layout.backbone, methods)}
    if name == "conditions":
        files = {"companions": coded_specs([120])[1], "published": read_published(ROOT / "config/paper")}
        files |= {"rollouts": list(coded_rollouts().values()), "questions": coded_questions()}
        return {"metrics": coded_cube(layout.backbone, everything), **files}
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
    if name == "verdict":
        published = read_published(ROOT / "config/paper")
        return {"resamples": coded_resamples("qwen3-8b", everything), "published": published}
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
    return numbers, module.grid(numbers, layout, **inputs), inputs


def judged():
    files = study_files(study_frame())
    layout = claims.Layout(study="embedded", caption="Made up.", labels=("Tiny A",), scope=SCOPE)
    ledger = read_claims(ROOT / "config/paper/claims.yaml")
    inputs = {"resamples": files.resamples, "published": read_published(ROOT / "config/paper"), "ledger": ledger}
    inputs |= {"companions": files.companions, "predictions": files.predictions, **files.costs}
    inputs |= {"latency": files.latency}
    numbers = claims.prepare(layout, **inputs)
    draw = np.random.default_rng(0)
    places = numbers["source"].eq("replicates") & ~numbers["verdict"].eq("under-specified")
    numbers.loc[places, "verdict"] = [f"in {draw.integers(6)} of 5" for _ in range(places.sum())]
    return numbers, claims.grid(numbers, layout, **inputs), inputs
