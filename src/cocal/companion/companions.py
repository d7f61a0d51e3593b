"""Fitted companions: what made them, their confidences, their file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from cocal.companion.model import CompanionMLP
from cocal.config.base import Count, Model
from cocal.config.protocol import Companion, Target
from cocal.errors import ContractError

Order = Literal["chronological", "shuffled"]

_PREDICTION_BATCH = 4096


class CompanionSpec(Model):
    """What a set of companions was fitted on and how."""

    settings: Companion
    inputs: Count
    """Width of the features."""
    layer: int
    """Zero-based block index of the features."""
    poolings: tuple[str, ...]
    steps: Count
    """Rollout steps 1 to this one."""
    order: Order
    shuffle_seed: int | None
    training_responses: Count
    validation_responses: Count
    best_pass: tuple[Count, ...]
    """By member, counted from 1."""

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member, in the order of weights and predictions."""
        return companion_members(self.settings)


def companion_members(settings: Companion) -> list[tuple[Target, int]]:
    """Every target with every seed, targets first."""
    return [(target, seed) for target in settings.targets for seed in settings.seeds]


def build_model(settings: Companion, inputs: int) -> CompanionMLP:
    """The module of all members, not initialised."""
    seeds = [seed for _, seed in companion_members(settings)]
    return CompanionMLP(inputs, settings.widths, settings.dropout, seeds)


@dataclass(frozen=True)
class Companions:
    """Fitted companions.

    Attributes:
        spec: what made them.
        model: the weights of all members, in evaluation mode.
    """

    spec: CompanionSpec
    model: CompanionMLP

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member."""
        return self.spec.members

    @torch.inference_mode()
    def predict(self, features: np.ndarray) -> np.ndarray:
        """Confidences of responses, truncated or not.

        Args:
            features: float32 (n, inputs), of the layer and poolings in `spec`.

        Returns:
            float64 (members, n) in [0, 1].

        Raises:
            ContractError: if the features have another width.
        """
        if features.ndim != 2 or features.shape[1] != self.spec.inputs:
            raise ContractError(
                f"features of shape {features.shape} given to companions of input width {self.spec.inputs} "
                f"(layer {self.spec.layer}, poolings {', '.join(self.spec.poolings)})"
            )
        confidences = np.empty((len(self.members), len(features)), dtype=np.float64)
        for start in range(0, len(features), _PREDICTION_BATCH):
            batch = np.ascontiguousarray(features[start : start + _PREDICTION_BATCH], dtype=np.float32)
            confidences[:, start : start + len(batch)] = self.model(torch.from_numpy(batch)).numpy()
        return confidences


def save_companions(path: Path, companions: Companions, attributes: Mapping[str, str]) -> str:
    """Write the weights as safetensors, spec and provenance in the metadata.

    Args:
        path: file to write; within `cocal.store.atomic_path`.
        attributes: provenance.

    Returns:
        The metadata as indented JSON text.
    """
    metadata = {"spec": companions.spec.model_dump(mode="json"), "provenance": dict(attributes)}
    # One key alone: safetensors does not fix the order of several, and equal fits must give equal bytes.
    save_file(companions.model.state_dict(), path, {"cocal": json.dumps(metadata, sort_keys=True)})
    return json.dumps(metadata, indent=2, sort_keys=True) + "\n"


def load_companions(path: str | Path) -> Companions:
    """Companions from their output folder, or from its companions.safetensors.

    Raises:
        ContractError: if the file is missing, truncated, carries no spec, or its weights do not fit the spec.
    """
    path = Path(path)
    path = path / "companions.safetensors" if path.is_dir() else path
    if not path.exists():
        raise ContractError(f"{path}: no such file; rerun the rule that fits the companions")
    try:
        with safe_open(path, framework="pt") as file:
            spec = CompanionSpec.model_validate(json.loads(file.metadata()["cocal"])["spec"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise ContractError(f"{path}: not a readable safetensors file ({error}); delete it and rerun") from None
    except (KeyError, TypeError, json.JSONDecodeError, ValidationError) as error:
        raise ContractError(f"{path}: carries no valid spec of companions ({error})") from None
    model = build_model(spec.settings, spec.inputs).eval()
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ContractError(f"{path}: the weights do not fit their spec ({error})") from None
    return Companions(spec, model)
