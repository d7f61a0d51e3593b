"""Writes the output folder of `cocal companions` with weights, spec and history."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from cocal.companion.companions import Companions, save_companions
from cocal.companion.spec import CompanionSpec
from cocal.store import atomic_path, write_document


def write_companions(
    output: Path, companions: Companions, history: pd.DataFrame, attributes: Mapping[str, str]
) -> None:
    """Write `companions.safetensors`, `spec.json` and `history.csv` into a folder, atomically.

    Args:
        output: The folder; an existing one is replaced.
        companions: Fitted companions.
        history: History of the fit, with a row for each member and pass; of online companions, with a row for each
            member and rollout step (`cocal.companion.prequential.scores`).
        attributes: Provenance.
    """
    with atomic_path(output) as folder:
        folder.mkdir()
        save_companions(folder / "companions.safetensors", companions, attributes)
        write_document(folder / "spec.json", {"spec": companions.spec.model_dump(mode="json")}, attributes)
        history.to_csv(folder / "history.csv", index=False, lineterminator="\n")


def log_best(output: Path, spec: CompanionSpec) -> None:
    """Log the best pass of each member."""
    best = ", ".join(
        f"{target} {seed}: {number}" for (target, seed), number in zip(spec.members, spec.best_pass, strict=True)
    )
    logging.info("%s: best of %d passes: %s", output, spec.settings.passes, best)
