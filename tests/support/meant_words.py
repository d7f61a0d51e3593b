"""Tables and figures of the paper study, made of inputs whose numbers all differ."""

import decided
from claims_study import SCOPE, study_files, study_frame
from cocal.metrics.calibration import METRICS as PAPER_METRICS
from cocal.metrics.scores import ALL, WITHIN
from cocal_study.evidence.claims import read_claims
from cocal_study.evidence.published import read_published
from cocal_study.exhibits import claims
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.registry import exhibits_of, module_of
from coded_inputs import (
    coded_cube,
    coded_fits,
    coded_questions,
    coded_resamples,
    coded_rollouts,
    coded_scores,
    coded_specs,
    hashed,
)
from planned_jobs import fixed_study
from sample_predictions import OURS, sample_predictions
from sample_tables import costs
from smoke_study import ROOT

CALIBRATIONS = [f"{kind}-{basis}" for kind in ("platt", "isotonic") for basis in ("all", "last", "resampled")]

# Inputs


def inputs_of(one) -> dict:  # noqa: PLR0911
    """Inputs of a table or figure of the paper study, with a number of its own in every place."""
    name, layout = one.module, one.layout
    if not one.inputs:
        return {}
    if name in ("token_aggregation", "layers"):
        sweep = {"layer": range(40), "pooling": ["last", "mean", "last+mean"]}
        return {"metrics": [coded_cube(b, ["cocal-group", "cocal-binary"], **sweep) for b in ("qwen3-14b", "qwen3-8b")]}
    if name in ("budgets", "early_steps", "cross_iteration", "composition"):
        cube = coded_cube("qwen3-8b", OURS, source_step=[1, 2, 5, 10, 20, 30, 40, 80, 120])
        if name != "composition":
            return {"metrics": cube}
        cube["value"].loc[{"metric": "accuracy"}] = 0.583  # all methods score the same responses
        return {"metrics": cube, "companions": coded_specs(layout.steps)}
    if name == "recalibrated":
        afters = ("", *(f"+{name}" for name in CALIBRATIONS))
        methods = [f"{baseline}{after}" for after in afters for baseline in layout.baselines["raw"]]
        fits = [coded_fits({("length", -1, "all"): -9.0, ("length", -1, "last"): 2.0}), coded_fits({})]
        return {"metrics": coded_cube(layout.backbone, methods, (*PAPER_METRICS, WITHIN)), "calibrators": fits}
    if name == "conditions":
        files = {"companions": coded_specs([120])[1], "published": read_published(ROOT / "config/paper")}
        files |= {"rollouts": list(coded_rollouts().values()), "questions": coded_questions()}
        return {"metrics": coded_cube(layout.backbone, OURS), **files}
    if name == "decisions":
        return {"predictions": decided.predictions(), "responses": [decided.pool("amc"), decided.pool("aime")]}
    if name == "strata":
        sets = [one.name for one in layout.sets]
        predictions = sample_predictions(*sets, methods=layout.methods, step=120).assign(backbone="qwen3-8b")
        answers = predictions.drop_duplicates(["dataset", "response_id"])
        answers = answers.assign(length=700 + 97 * answers["response_id"] % 4001)
        levels = answers.drop_duplicates(["dataset", "question_id"])
        levels = levels.assign(level=1 + levels["question_id"].factorize()[0] % 3)
        asked, lengths = ([one[one["dataset"] == name] for name in sets] for one in (levels, answers))
        return {"predictions": predictions, "asked": asked, "lengths": lengths}
    if name in ("cost", "time_to_confidence"):
        jobs = {"answers_job": 4011.0, "states_job": 902.0}
        return {kind: (costs() | jobs)[kind] for kind in one.inputs}
    if name == "online":
        return {"scores": coded_scores(layout.windows, 60)}
    if name in ("reliability", "reliability_all", "risk_coverage"):
        names = [getattr(dataset, "name", dataset) for dataset in layout.datasets]
        return {
            "predictions": [sample_predictions(*names, methods=layout.methods, step=120).assign(backbone="qwen3-8b")]
        }
    if name == "verdict":
        published = read_published(ROOT / "config/paper")
        return {"resamples": coded_resamples("qwen3-8b", OURS), "published": published}
    found = {"metrics": coded_cube(layout.backbone, OURS, ALL)}
    resampled = {"resamples": coded_resamples(layout.backbone, OURS)}
    return {kind: (found | resampled)[kind] for kind in one.inputs}


PAPER = exhibits_of(fixed_study("paper"), {})
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
    inputs = {"published": read_published(ROOT / "config/paper"), "ledger": ledger, **files}
    numbers = claims.prepare(layout, **inputs)
    places = numbers["source"].eq("replicates") & ~numbers["verdict"].eq("under-specified")
    numbers.loc[places, "verdict"] = [f"in {hashed(claim) % 6} of 5" for claim in numbers.loc[places, "claim"]]
    return numbers, claims.grid(numbers, layout, **inputs), inputs
