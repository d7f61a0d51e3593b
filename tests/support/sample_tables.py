"""Layouts and inputs of tables, with the paper's published costs and times."""

import xarray as xr

from cocal_study.exhibits import cost, main, time_to_confidence, token_aggregation
from cocal_study.exhibits.base.exhibit import CurvesLayout
from cocal_study.planning.costs import Cost, Latency
from coded_inputs import coded_cube
from sample_predictions import METHODS

ORIGIN = {"study": "embedded", "caption": "Tiny policies of 0.4 M parameters & synthetic questions."}
BACKBONE = {**ORIGIN, "backbone": "tiny-a", "backbone_label": "Tiny A", "step": 60}
GPU, CPU = "NVIDIA B200", "Xeon, 2 threads"
TIMES = {
    "math500": ("MATH500", 38.7755, 58.46),
    "aime24": ("AIME 2024", 43.76, 230.11),
    "aime25": ("AIME 2025", 41.78, 184.56),
    "amc23": ("AMC 2023", 24.7055, 62.94),
    "amc24": ("AMC 2024", 25.2155, 79.72),
}
"""Label, milliseconds before and seconds after the response; published with two decimals, ratios from more."""


def accuracy_layout(*datasets: str, **changes) -> main.Layout:
    """The main table of the sample on these sets."""
    content = {
        **BACKBONE,
        "datasets": [{"name": name, "label": name.upper()} for name in datasets],
        "methods": list(METHODS),
        "highlight": "cocal-binary",
    }
    return main.Layout(**(content | changes))


def curves_layout(methods, steps, **changes) -> CurvesLayout:
    """Curves of these methods over these steps."""
    content = BACKBONE | {"caption": "Tiny policies.", "methods": methods, "steps": steps, "step": None}
    return CurvesLayout(**(content | changes))


def aggregation_cubes() -> list[xr.Dataset]:
    """Cubes over layers and poolings, in another order than the layout's backbones."""
    sweep = {"layer": [34, 35, 39], "pooling": ["last", "mean", "last+mean"]}
    return [coded_cube(name, ["cocal-binary"], **sweep) for name in ("qwen3-14b", "qwen3-8b")]


def aggregation_layout(**changes) -> token_aggregation.Layout:
    backbones = [
        {"name": "qwen3-8b", "label": "Qwen3-8B", "layers": [35]},
        {"name": "qwen3-14b", "label": "Qwen3-14B", "layers": [39]},
    ]
    return token_aggregation.Layout(**(ORIGIN | {"backbones": backbones, "step": 60} | changes))


def times_layout(**changes) -> time_to_confidence.Layout:
    datasets = [{"name": name, "label": label} for name, (label, _, _) in TIMES.items()]
    return time_to_confidence.Layout(**(BACKBONE | {"datasets": datasets} | changes))


def latency(**changes) -> Latency:
    """Times in another order than the table's."""
    measured = [
        {"dataset": name, "pre_ms": pre_ms, "post_s": post_s} for name, (_, pre_ms, post_s) in reversed(TIMES.items())
    ]
    content = {
        "device": GPU,
        "questions": 8,
        "engine": "transformers 5.19.0",
        "generation_dataset": "math500",
        "generation_questions": 500,
        "generation_seconds": 0.372,
        "pool": 10,
        "pool_questions": 500,
        "pool_seconds": 3.225,
        "predictions": 1000,
        "prediction_ms": 0.199,
        "time_to_confidence": measured,
    }
    return Latency(**(content | changes))


def cost_layout(**changes) -> cost.Layout:
    return cost.Layout(**(BACKBONE | {"generation_label": "MATH500"} | changes))


def costs(**changes) -> dict[str, Cost | Latency]:
    """By kind, the published costs; PostCal's companions, published as about the same, are a little quicker."""
    parts = {
        "training": Cost(seconds=60012.0, items=60, device=GPU),
        "sampling": Cost(seconds=51192.0, items=245760, device=GPU),
        "fit": Cost(seconds=15.1, items=10, device=GPU),
        "postcal_fit": Cost(seconds=14.86, items=10, device=GPU),
        "latency": latency(),
    }
    return parts | changes
