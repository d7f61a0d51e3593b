"""The preparation of a long job: its model is found, and its working folder is claimed."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cocal.fitting.config import CompanionConfig
from cocal.fitting.models import Checkpoint
from cocal.store import digest
from cocal.store.run_folder import RunFolder, file_states


def claim(
    options: argparse.Namespace, inputs: Iterable[Path], config: CompanionConfig | None = None, **depends_on: Any
) -> tuple[Checkpoint, RunFolder]:
    """Find the model of a command, which is not loaded yet, and claim the working folder beside its output.

    Raises a BusyError if another process has the folder, a ConfigError if something else lies there, and a
    ContractError if there is no such model, or it does not fit the companion.

    Args:
        options: Flags of the command: model, revision, adapter, precision and output.
        inputs: The files that it reads.
        config: Config of the companion, which the model has to fit.
        depends_on: What else the work depends on; an earlier job's work is resumed if all of it is the same.
    """
    checkpoint = Checkpoint.find(options.model, options.revision, options.adapter)
    if config is not None:
        config.check_model(checkpoint.architecture)
        config.warn_of_other(checkpoint.info)
    # another processor of a cluster may choose another format
    precision = checkpoint.usual_precision() if options.precision == "auto" else options.precision
    depends_on |= {"inputs": file_states(inputs), "model": checkpoint.identity(), "precision": precision}
    output = options.output.absolute()  # `.` has no name
    folder = output.with_name(f".{output.name}.{options.command}")
    return checkpoint, RunFolder(folder, digest(depends_on))
