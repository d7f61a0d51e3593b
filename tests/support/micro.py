"""The micro policy of the tests and its questions: two blocks, pre-trained in seconds."""

import shutil
from pathlib import Path

import torch

from cocal.models.loading import load_policy

MICRO_SETS = {
    "datasets": {
        "micro-train": {
            "label": "Micro-Train",
            "role": "training",
            "domain": "mathematics",
            # their answers are small, and now and then a guess is right
            "source": {
                "kind": "synthetic-mathematics",
                "questions": 24,
                "levels": {1: 1, 2: 1},
                "families": ["remainders"],
            },
        },
        "micro-eval": {
            "label": "Micro-Eval",
            "role": "evaluation",
            "domain": "mathematics",
            "source": {"kind": "synthetic-mathematics", "questions": 9, "levels": {1: 1}},
            "samples": 2,
            "max_response_length": 24,
        },
    },
    "world": {"people": 20},
}
MICRO_POLICY = {
    "source": "pretraining",
    "label": "Micro",
    "architecture": {
        "hidden_size": 32,
        "layers": 2,
        "heads": 2,
        "key_value_heads": 1,
        "intermediate_size": 64,
        "vocabulary": 384,
    },
    # short direct answers are learnt in seconds; the worked ones run into the length limit
    "corpus": {"facts": 0.0, "direct_answers": 0.6, "mathematics_wording": {"paraphrases": 0, "remarks": 0}},
    "learning_rate": 1e-2,
    "steps": 150,
    "batch_size": 16,
}


def own_copy(checkpoint: Path, folder: Path) -> Path:
    """A copy of a checkpoint that says nothing of itself, as a user's own does; its files may be changed."""
    return shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("provenance.json"))


def in_bfloat16(checkpoint: Path, folder: Path) -> Path:
    """Such a copy, with weights in bfloat16."""
    own_copy(checkpoint, folder)
    load_policy(folder).model.to(torch.bfloat16).save_pretrained(folder)
    return folder
