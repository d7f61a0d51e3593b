"""Writes the output folder of `cocal companions` with weights, spec and history."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from cocal.companion.companions import Companions, save_companions
from cocal.store import atomic_path


def write_companions(
    output: Path, companions: Companions, history: pd.DataFrame, attributes: Mapping[str, str]
) -> None:
    """Write `companions.safetensors`, `spec.json` and `history.csv` into a folder, atomically, and log the best passes.

    Args:
        output: The folder; an existing one is replaced.
        companions: Fitted companions.
        history: History of the fit, with a row for each member and pass.
        attributes: Provenance.
    """
    with atomic_path(output) as folder:
        folder.mkdir()
        spec = save_companions(folder / "companions.safetensors", companions, attributes)
        (folder / "spec.json").write_text(spec, encoding="utf-8")
        history.to_csv(folder / "history.csv", index=False, lineterminator="\n")
    best = ", ".join(
        f"{target} {seed}: {number}"
        for (target, seed), number in zip(companions.members, companions.spec.best_pass, strict=True)
    )
    logging.info("%s: best of %d passes: %s", output, companions.spec.settings.passes, best)
