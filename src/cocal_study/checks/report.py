"""Runs all checks of one backbone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Experience
from cocal.companion.supervision import in_validation
from cocal.errors import ContractError
from cocal_study.checks.predictions import check_fixed_responses, check_quality, sources_of
from cocal_study.checks.training import (
    Fit,
    check_disjoint,
    check_equal_budgets,
    check_groups,
    check_truncation,
    count_verdicts,
)
from cocal_study.config.evaluation import QualitySettings


def check_protocol(
    settings: CompanionSettings,
    tables: Mapping[Experience, pd.DataFrame],
    questions: Sequence[str],
    fits: Sequence[Fit],
    predictions: Mapping[Path, pd.DataFrame],
    quality: QualitySettings,
) -> dict[str, object]:
    """Run every check.

    Args:
        settings: Settings of CoCal's companions, whose split all companions share.
        tables: Table of each experience, from `cocal_study.checks.training.read_table`.
        questions: Texts of the whole training set, which the split divides.
        fits: Fitted companions, in any order.
        predictions: Predictions of each file, from `cocal_study.checks.predictions.read_predictions`.
        quality: Floors of the quality rates; a rate below its floor is a warning, not a violation.

    Returns:
        The names and numbers that each check looked at, ready for JSON.

    Raises:
        ContractError: at the first violation.
    """
    fits = sorted(fits, key=lambda fit: (fit.experience, fit.spec.prefix, fit.spec.layer, fit.spec.pooling))
    for fit in fits:
        if fit.experience not in tables:
            raise ContractError(f"{fit.folder}: no table of {fit.experience} responses is given to check it against")
    held_out = {
        experience: in_validation(table["question"], questions, settings.validation_share, settings.split_seed)
        for experience, table in tables.items()
    }
    given = [(fit, tables[fit.experience], held_out[fit.experience]) for fit in fits]
    budgets = sorted({fit.spec.steps for fit in fits if fit.experience == "resampled"})
    pair = [tables[experience] for experience in ("rollouts", "resampled") if experience in tables]
    return {
        "chronological_order": {
            name: {"steps": table["step"].nunique(), "responses": len(table)} for name, table in tables.items()
        },
        "group_accuracy_before_filtering": {
            name: check_groups(table, name) for name, table in tables.items() if name != "prompts"
        },
        "verdicts_of_training_responses": {
            name: count_verdicts(table) for name, table in tables.items() if name != "prompts"
        },
        "equal_raw_budgets": check_equal_budgets(*pair, budgets) if len(pair) == 2 else [],
        "question_disjoint_validation": [check_disjoint(*one) for one in given],
        "validation_pools": [fit.with_numbers() for fit in fits],
        "truncated_responses_left_out": [check_truncation(*one) for one in given],
        "prediction_sources": {str(path): sources_of(table) for path, table in predictions.items()},
        "quality_of_responses": {str(path): check_quality(table, quality, path) for path, table in predictions.items()},
        "same_fixed_responses": check_fixed_responses(list(predictions.values())),
    }
