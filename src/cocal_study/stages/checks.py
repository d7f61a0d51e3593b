"""Checks that a study kept the protocol; a violation fails the run and is named."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Literal

from cocal.companion.settings import CompanionSettings, Experience
from cocal.companion.spec import ORDERS
from cocal.errors import ConfigError
from cocal.settings.base import Algorithm
from cocal.store import read_frame, write_document
from cocal.store.lineage import trace
from cocal_study.config.evaluation import QualitySettings
from cocal_study.stages.base import In, Out, Stage
from cocal_study.stages.shared import TrainingSet


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
    calibrators: dict[Algorithm, In] = {}
    """ALGORITHM=FILE: fitted calibrators of recalibrated rivals, by the algorithm of their policy"""
    recalibrated: dict[Algorithm, In] = {}
    """ALGORITHM=FILE: predictions of these rivals"""
    coupled: dict[Literal["rlcr", "dcpo"], Path] = {}
    """ALGORITHM=FOLDER: rollouts of RLCR and DCPO, from which these rivals learn"""
    evaluated: tuple[In, ...] = ()
    """evaluation sets, unseen by calibrators"""
    output: Out
    """JSON report of what each check looked at"""

    def reads(self):
        return [*super().reads(), *self.coupled.values()]

    def run(self) -> None:
        from cocal.companion.supervision import prompts_of, question_texts
        from cocal_study.checks.predictions import read_predictions
        from cocal_study.checks.report import check_protocol
        from cocal_study.checks.training import Fit, read_table

        folders = {"rollouts": self.rollouts, "resampled": self.resampled}
        tables = {name: read_table(path, self.questions) for name, path in folders.items() if path}
        if "prompts" in self.companions:
            tables["prompts"] = prompts_of(tables["rollouts"])
        if "online" in self.companions:
            tables["online"] = tables["rollouts"]
        fits = [
            Fit.read(kind if kind in ORDERS else "rollouts", folder)
            for kind, given in self.companions.items()
            for folder in given
        ]
        predictions = {path: read_predictions(path, self.backbone) for path in self.predictions}
        texts = question_texts(self.questions)
        checks = check_protocol(self.settings, tables, texts, fits, predictions, self.quality)
        checks |= self._rivals(tables, texts, predictions)
        recalibrated = [*self.calibrators.values(), *self.recalibrated.values()]
        traced = [product for _, product in trace(*predictions, *recalibrated, *(fit.folder for fit in fits))]
        stages = Counter(one.facts.get("stage", "given") for one in traced)
        checks["ancestors_unchanged"] = dict(sorted(stages.items()))
        depends_on = {"companion": self.settings, "quality": self.quality}
        attributes = self.attributes(self.output, depends_on, backbone=self.backbone)
        write_document(self.output, {"checks": checks}, attributes)
        held = len(checks), len(fits), len(predictions)
        logging.info("%s: %d checks of %d fits and %d files hold", self.output, *held)

    def _rivals(self, tables: dict[str, Any], texts: Any, predictions: dict[Path, Any]) -> dict[str, object]:
        """The checks of the recalibrated rivals of every policy, given GRPO's rollouts and PostCal's responses; none
        where there are no rivals."""
        import pandas as pd

        from cocal.store.contracts import QUESTIONS
        from cocal_study.checks.recalibration import check_confidences, check_unseen, read_recalibrated
        from cocal_study.checks.training import read_table
        from cocal_study.methods.recalibration.fits import read_fits

        calibrators, coupled = self.calibrators, self.coupled
        if not calibrators.keys() == self.recalibrated.keys() == (coupled.keys() | (calibrators.keys() & {"grpo"})):
            raise ConfigError("--calibrators, --recalibrated and --coupled must name the same policies")
        if not calibrators:
            return {}
        if not self.evaluated:
            raise ConfigError("--calibrators: give the evaluation sets with --evaluated")
        evaluated = pd.concat([read_frame(path, QUESTIONS) for path in self.evaluated], ignore_index=True)
        learnt, applied = {}, {}
        for algorithm, path in calibrators.items():
            fits, file = read_fits(path), self.recalibrated[algorithm]
            if "resampled" in fits.learnt and not self.resampled:
                raise ConfigError(f"{path}: rivals learnt from PostCal's responses; give these with --resampled")
            theirs = read_table(coupled[algorithm], self.questions) if algorithm in coupled else tables["rollouts"]
            given = {"all": theirs, "last": theirs, "resampled": tables.get("resampled")}
            learnt[str(path)] = check_unseen(fits, given, texts, self.settings, evaluated, path)
            confidences = read_recalibrated(file, self.backbone)
            applied[str(file)] = check_confidences(confidences, fits, list(predictions.values()), file)
        return {"evaluation_questions_unseen_by_calibrators": learnt, "recalibrated_confidences": applied}
