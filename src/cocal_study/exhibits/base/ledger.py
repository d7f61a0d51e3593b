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
from cocal_study.evidence.sources import PublishedSource, StudyScope, StudySource
from cocal_study.evidence.verdicts import joined, judge_all
from cocal_study.exhibits.base.exhibit import Layout, origin
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


def claims_layout(study: Study) -> ClaimsLayout:
    """The layout of both exhibits of claims."""
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


def claims_inputs(study: Study) -> dict[str, list[str]]:
    """The files from which a study's claims are judged, by kind; what the study does not have is left out."""
    main, *others = list(study.backbones)[:2]
    coupled = {"rlcr", "dcpo"} & set(study.policy.algorithms)
    transferred = any(name.startswith("cocal-on-") for name in available_methods(study))
    budgets = has_methods(study, "cocal-binary", "postcal-binary")
    kinds = ["", "-sweep", "-ablations"]
    kinds += ["-budgets"] * budgets + ["-cross-policy"] * bool(coupled and transferred)
    resamples = [resamples_file(main, kind) for kind in kinds]
    resamples += [resamples_file(other, kind) for other in others for kind in ("", "-ablations")]
    inputs: dict[str, list[str]] = {"resamples": resamples, "predictions": final_predictions(study, main)}
    if budgets:
        inputs["companions"] = budget_companions(study)
    if has_methods(study, "postcal-group", "cocal-group", "cocal-pre-generation"):
        inputs |= {kind: [cost_file(main, file)] for kind, file in _TIMES.items()}
    inputs |= {"published": ["config/paper"], "ledger": ["config/paper/claims.yaml"]}
    for kind in ("replicates", "central"):
        if folder := getattr(study.reports, kind):
            inputs[kind] = [f"{folder}/tables/claims.csv"]
    return inputs


def budget_companions(study: Study) -> list[str]:
    """The companions of all budgets, of a study that compares budgets."""
    folders = [companion_folder(study.main_backbone, kind) for kind in ("rollouts", "resampled")]
    return [f"{folder}/{prefix.folder}" for folder in folders for prefix in budget_prefixes(study)]


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
    """Judge every claim by the paper's numbers, by the study (resamples of every comparison of the first two backbones,
    companions of every budget, predictions at the end of training), and by its replicates (`judge_all`)."""
    files = {"companions": companions, "predictions": predictions, "sampling": sampling, "fit": fit, "latency": latency}
    sources = readers(layout, resamples, published, **files)
    return judge_all(ledger, *sources, joined(replicates, central), language_model)


def readers(
    layout: ClaimsLayout, resamples: Sequence[Resamples], published: Published, **files: Any
) -> tuple[Reader, Reader]:
    """The readers of the paper's numbers and of the study's, which come from the files that `StudySource` may have."""
    return PublishedSource(published), StudySource(layout.scope, resamples, **files)
