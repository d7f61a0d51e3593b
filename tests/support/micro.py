"""The micro policy of the tests and its questions: two blocks, pre-trained in seconds."""

import json
import shutil
from pathlib import Path

import torch
import yaml
from safetensors.numpy import load_file, save_file

from cocal.models.loading import load_policy

MICRO_SETS, MICRO_POLICY = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).values()


def own_copy(checkpoint: Path, folder: Path) -> Path:
    """A copy of a checkpoint that says nothing of itself, as a user's own does; its files may be changed."""
    return shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("provenance.json"))


def change_json(file: Path, **changes) -> None:
    """Change some values of a file of settings."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def scale_weights(folder: Path, factor: float) -> None:
    """Multiply the weights of a checkpoint."""
    weights = load_file(folder / "model.safetensors")
    save_file({name: factor * one for name, one in weights.items()}, folder / "model.safetensors", {"format": "pt"})


def in_bfloat16(checkpoint: Path, folder: Path) -> Path:
    """Such a copy, with weights in bfloat16."""
    own_copy(checkpoint, folder)
    load_policy(folder).model.to(torch.bfloat16).save_pretrained(folder)
    return folder
