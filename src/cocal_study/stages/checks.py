"""Checks that a study kept the protocol; a violation fails the run and is named."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cocal.companion.settings import CompanionSettings
from cocal.errors import ContractError
from cocal.store import write_document
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.method import Experience
from cocal_study.planning import plan, results
from cocal_study.planning.results import ORDERS
from cocal_study.provenance.lineage import trace
from cocal_study.stages.base import In, Out, Stage, TrainingSet
from cocal_study.stages.jobs import Job, Rule, Rules

if TYPE_CHECKING:
    from cocal_study.checks.training import Fit


class Checks(Stage):
    """Refuses a study that breaks the protocol, and reports what was checked."""

    computed: ClassVar[bool] = False

    settings: CompanionSettings = CompanionSettings()
    quality: QualitySettings = QualitySettings()
    backbone: str
    rollouts: In
    resampled: In | None = None
    """folder of PostCal's resampled responses, if there is one"""
    questions: TrainingSet
    companions: dict[Experience | Literal["ablations", "one-layer"], tuple[In, ...]]
    """folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER,
    ablations=FOLDER and one-layer=FOLDER (on rollouts)"""
    predictions: tuple[In, ...]
    second: tuple[In, ...] = ()
    """predictions on responses of the second sampling"""
    output: Out
    """JSON report of what each check looked at"""

    def run(self) -> None:
        from cocal.companion.spec import read_spec
        from cocal_study.checks.predictions import read_predictions
        from cocal_study.checks.training import Fit, read_table
        from cocal_study.generation.labels import prompts_of

        folders = {"rollouts": self.rollouts, "resampled": self.resampled}
        tables = {name: read_table(path, self.questions) for name, path in folders.items() if path}
        if "prompts" in self.companions:
            tables["prompts"] = prompts_of(tables["rollouts"])
        if "online" in self.companions:
            tables["online"] = tables["rollouts"]
        given = [(kind, folder) for kind, folders in self.companions.items() for folder in folders]
        fits = [Fit(folder, kind if kind in ORDERS else "rollouts", read_spec(folder)) for kind, folder in given]
        fits.sort(key=lambda fit: (fit.experience, fit.spec.prefix, fit.spec.layer, fit.spec.pooling))
        predictions = {path: read_predictions(path, self.backbone) for path in (*self.predictions, *self.second)}
        checks = self._protocol(tables, fits, predictions)
        traced = [product for _, product in trace(*predictions, *(fit.folder for fit in fits))]
        stages = Counter(product.facts.get("stage", "given") for product in traced)
        checks["ancestors_unchanged"] = dict(sorted(stages.items()))
        depends_on = {"companion": self.settings, "quality": self.quality}
        attributes = self.attributes(self.output, depends_on, backbone=self.backbone)
        write_document(self.output, {"checks": checks}, attributes)
        held = len(checks), len(fits), len(predictions)
        logging.info("%s: %d checks of %d fits and %d files hold", self.output, *held)

    def _protocol(self, tables: dict[str, Any], fits: "list[Fit]", predictions: dict[Path, Any]) -> dict[str, object]:
        """The names and numbers that each check looked at, ready for JSON. Raises ContractError at the first violation;
        a rate of quality below its floor is only a warning."""
        from cocal.companion.supervision import in_validation
        from cocal_study.checks import predictions as predicted
        from cocal_study.checks import training
        from cocal_study.generation.labels import question_texts

        for fit in fits:
            if fit.experience not in tables:
                lacking = f"no table of {fit.experience} responses is given to check it against"
                raise ContractError(f"{fit.folder}: {lacking}")
        asked, share, seed = question_texts(self.questions), self.settings.validation_share, self.settings.split_seed
        held_out = {name: in_validation(table["question"], asked, share, seed) for name, table in tables.items()}
        given = [(fit, tables[fit.experience], held_out[fit.experience]) for fit in fits]
        budgets = sorted({fit.spec.steps for fit in fits if fit.experience == "resampled"})
        pair = [tables[experience] for experience in ("rollouts", "resampled") if experience in tables]
        sampled = {name: table for name, table in tables.items() if name != "prompts"}
        files = {str(path): table for path, table in predictions.items()}
        return {
            "chronological_order": {
                name: {"steps": table["step"].nunique(), "responses": len(table)} for name, table in tables.items()
            },
            "group_accuracy_before_filtering": {n: training.check_groups(table, n) for n, table in sampled.items()},
            "verdicts_of_training_responses": {n: training.count_verdicts(table) for n, table in sampled.items()},
            "equal_raw_budgets": training.check_equal_budgets(pair[0], pair[1], budgets) if len(pair) == 2 else [],
            "question_disjoint_validation": [training.check_disjoint(*inputs) for inputs in given],
            "validation_pools": [fit.with_numbers() for fit in fits],
            "truncated_responses_left_out": [training.check_truncation(*inputs) for inputs in given],
            "prediction_sources": {path: predicted.sources_of(table) for path, table in files.items()},
            "quality_of_responses": {p: predicted.check_quality(table, self.quality, p) for p, table in files.items()},
            "same_fixed_responses": [
                numbers
                for of_sampling in filter(None, (self.predictions, self.second))
                for numbers in predicted.check_fixed_responses([predictions[path] for path in of_sampling])
            ],
        }


class CheckRules(Rules):
    """The protocol, checked anew from the files of each backbone."""

    def rules(self) -> Iterator[Rule]:
        yield Rule(name="checks", make=self._checks, places={"output": results.checks_file("{backbone}")})

    def _checks(self, backbone: str, **made: str) -> Job:
        from cocal_study.planning import baselines, variants  # loads the baselines' modules
        from cocal_study.planning.comparisons import comparisons

        study, compared = self.study, list(comparisons(self.study, backbone))
        experiences = plan.experiences_of(plan.methods_of(study, backbone, "grpo", self._final))
        companions = {
            kind: plan.fitted(backbone, kind, *plan.companion_prefixes(study, backbone, kind)) for kind in experiences
        }
        companions[variants.ABLATIONS] = variants.ablation_folders(study, backbone)
        more: dict[str, Any] = {}
        if "resampled" in experiences:
            more["resampled"] = results.rollouts_folder(backbone, "postcal")
        if backbone == self._main:
            if folder := baselines.reader_folders(study, "grpo").get(baselines.ONE_LAYER):
                companions[baselines.ONE_LAYER] = [folder]
            if plan.has_methods(study, "cocal-binary"):
                companions["online"] = variants.online_folders(study)
        return self._job(
            Checks,
            settings=study.companion,
            quality=study.quality,
            backbone=backbone,
            rollouts=results.rollouts_folder(backbone, "grpo"),
            questions=self._training_set,
            companions=companions,
            predictions=[comparison.file for comparison in compared if not comparison.sampling],
            second=[comparison.file for comparison in compared if comparison.sampling],
            beside=[results.OVERLAP],
            **more,
            **made,
        )
