"""The micro policy of the tests and its questions: two blocks, pre-trained in seconds."""

import shutil
from pathlib import Path

import torch
import yaml

from cocal.models.loading import load_policy

MICRO_SETS, MICRO_POLICY = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).values()


def own_copy(checkpoint: Path, folder: Path) -> Path:
    """A copy of a checkpoint that says nothing of itself, as a user's own does; its files may be changed."""
    return shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("provenance.json"))


def in_bfloat16(checkpoint: Path, folder: Path) -> Path:
    """Such a copy, with weights in bfloat16."""
    own_copy(checkpoint, folder)
    load_policy(folder).model.to(torch.bfloat16).save_pretrained(folder)
    return folder
