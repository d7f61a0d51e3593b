"""The parts that tables/claims and figures/claims share: their inputs, and the verdicts that they show."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from cocal.companion.spec import CompanionSpec
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.claims import Claim
from cocal_study.evidence.predicates import Reader
from cocal_study.evidence.published import Published
from cocal_study.evidence.sources import PublishedSource, StudyFiles, StudyScope, StudySource
from cocal_study.evidence.verdicts import joined, judge_all
from cocal_study.exhibits.base.exhibit import CENTRAL, LEDGER, PUBLISHED, REPLICATES, Files, Layout, origin
from cocal_study.planning.costs import Cost, Latency
from cocal_study.planning.plan import available_methods, budget_prefixes, final_predictions, has_methods, layers_of
from cocal_study.planning.results import companion_folder, cost_file, resamples_file

_TIMES = {"sampling": "resample", "fit": "companions-grpo", "latency": "latency"}


class ClaimsLayout(Layout):
    """Layout of the exhibits of claims."""

    labels: tuple[str, ...]
    """Names of the study's first two backbones in print."""
    scope: StudyScope
    """The parts of the study that stand for those of the paper."""

    @property
    def backbone_label(self) -> str:
        """Names of the backbones in the metadata of the figure."""
        return ", ".join(self.labels)

    def measured(self) -> tuple[str, ...]:
        return self.scope.backbones


def claims_fields(study: Study) -> dict[str, Any]:
    """The layout, the inputs and the products of an exhibit of claims, which a study with CoCal has."""
    folders = _budget_folders(study)
    products = {"companions": folders} if folders else {}
    return {"layout": claims_layout(study), "inputs": claims_inputs(study), "products": products}


def claims_layout(study: Study) -> ClaimsLayout:
    """The layout for a study."""
    backbones = tuple(study.backbones)[:2]
    scope = StudyScope(
        backbones=backbones,
        stages=study.policy.stages,
        early_steps=study.reports.early_steps,
        budgets=study.reports.budgets,
        datasets={title: name for name, title in study.reports.mirrors.items()},
        layers={name: tuple(layers_of(study, name)) for name in backbones},
        tiny=pretrained_here(study),
    )
    return ClaimsLayout(**origin(study), labels=tuple(study.backbones[name].label for name in backbones), scope=scope)


def pretrained_here(study: Study) -> bool:
    """True if the study pre-trains its main policy itself, from nothing."""
    main = study.backbones[study.main_backbone]
    return isinstance(main, PretrainingSettings) and main.start is None


def claims_inputs(study: Study) -> dict[str, Files]:
    """The files from which a study's claims are judged, by kind; what the study does not have is left out."""
    main, *others = list(study.backbones)[:2]
    coupled = {"rlcr", "dcpo"} & set(study.policy.algorithms)
    transferred = any(name.startswith("cocal-on-") for name in available_methods(study))
    folders = _budget_folders(study)
    kinds = ["", "-sweep", "-ablations"]
    kinds += ["-budgets"] * bool(folders) + ["-cross-policy"] * bool(coupled and transferred)
    resamples = [resamples_file(main, kind) for kind in kinds]
    resamples += [resamples_file(other, kind) for other in others for kind in ("", "-ablations")]
    inputs: dict[str, Files] = {"resamples": resamples, "predictions": final_predictions(study, main)}
    if folders:
        inputs["companions"] = [f"{folder}/{prefix.folder}" for folder in folders for prefix in budget_prefixes(study)]
    if has_methods(study, "postcal-group", "cocal-group", "cocal-pre-generation"):
        inputs |= {kind: cost_file(main, file) for kind, file in _TIMES.items()}
    inputs |= {PUBLISHED: "config/paper", LEDGER: "config/paper/claims.yaml"}
    if study.reports.replicates:
        inputs[REPLICATES] = f"{study.reports.replicates}/tables/claims.csv"
    if study.reports.central:
        inputs[CENTRAL] = f"{study.reports.central}/tables/claims.csv"
    return inputs


def _budget_folders(study: Study) -> list[str]:
    """The folders of the companions of all budgets, where the study compares budgets."""
    if not has_methods(study, "cocal-binary", "postcal-binary"):
        return []
    return [companion_folder(study.main_backbone, kind) for kind in ("rollouts", "resampled")]


def judged(
    layout: ClaimsLayout,
    resamples: Sequence[Resamples],
    published: Published,
    ledger: tuple[Claim, ...],
    companions: Sequence[CompanionSpec] = (),
    predictions: Sequence[pd.DataFrame] = (),
    sampling: Cost | None = None,
    fit: Cost | None = None,
    latency: Latency | None = None,
    replicates: pd.DataFrame | None = None,
    central: pd.DataFrame | None = None,
    language_model: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Judge every claim by the paper's numbers, by the study, and by its replicates.

    Args:
        layout: The parts of the study that stand for those of the paper.
        resamples: Resampled metrics of every comparison of the first two backbones.
        published: The paper's numbers.
        ledger: The claims.
        companions: Specs of the companions of every budget.
        predictions: Tables of the contract `PREDICTIONS` at the end of training.
        sampling: Time of PostCal's sampling.
        fit: Time of the fit of CoCal's companions.
        latency: Inference times.
        replicates: What `cocal spread` has gathered of tables/claims.csv.
        central: The same of replicates of the central comparison alone.
        language_model: The tables/claims.csv of a study of a language model.

    Returns:
        The result of `cocal_study.evidence.verdicts.judge_all`.
    """
    found = readers(layout, resamples, published, companions, predictions, sampling, fit, latency)
    return judge_all(ledger, *found, joined(replicates, central), language_model)


def readers(
    layout: ClaimsLayout,
    resamples: Sequence[Resamples],
    published: Published,
    companions: Sequence[CompanionSpec] = (),
    predictions: Sequence[pd.DataFrame] = (),
    sampling: Cost | None = None,
    fit: Cost | None = None,
    latency: Latency | None = None,
) -> tuple[Reader, Reader]:
    """What tells the paper's numbers and the study's; the arguments are those of `judged`."""
    costs = {kind: cost for kind, cost in (("sampling", sampling), ("fit", fit)) if cost is not None}
    study = StudySource(layout.scope, StudyFiles(resamples, companions, predictions, costs, latency))
    return PublishedSource(published).reader, study.reader
