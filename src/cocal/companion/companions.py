"""Fitted companions: their spec, their confidences and their files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cocal.companion.model import MEAN, SCALE, CompanionMLP
from cocal.companion.settings import CompanionSettings, Target
from cocal.companion.spec import CompanionSpec, parse_spec
from cocal.errors import ConfigError, ContractError
from cocal.store import atomic_path, write_document
from cocal.store.atomic import usual_mode
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.origin import SEAL
from cocal.store.seals import BLANK, check_seal, seal

if TYPE_CHECKING:
    import pandas as pd

_PREDICTION_BATCH = {"cpu": 512, "cuda": 8192}
"""Number of responses scored at a time; on a processor, the states of small companions then fit into its cache."""


def build_model(settings: CompanionSettings, inputs: int, standardised: bool = False) -> CompanionMLP:
    """Build the uninitialised module of all members, in the order of `companion_members`."""
    return CompanionMLP(inputs, settings.widths, settings.seeds, len(settings.targets), standardised)


@dataclass(frozen=True)
class Companions:
    """Fitted companions."""

    spec: CompanionSpec
    """Settings and data of the fit."""
    model: CompanionMLP
    """Module with the weights of all members, in evaluation mode."""

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member."""
        return self.spec.members

    def to(self, device: torch.device) -> "Companions":
        self.model.to(device)
        return self

    def first(self, target: Target, seeds: int) -> "Companions":
        """Select the members of one target and its first `seeds` seeds. Raises a ConfigError if they do not exist."""
        if seeds > len(self.spec.settings.seeds):
            raise ConfigError(f"the companion has {len(self.spec.settings.seeds)} seeds, and not {seeds}; choose fewer")
        chosen, settings = self.spec.chosen(target)[:seeds], self.spec.settings
        settings = settings.model_copy(update={"targets": (target,), "seeds": settings.seeds[:seeds]})
        best = tuple(self.spec.best_pass[place] for place in chosen)
        spec = self.spec.model_copy(update={"settings": settings, "best_pass": best})
        common = MEAN, SCALE
        weights = {name: of if name in common else of[chosen] for name, of in self.model.state_dict().items()}
        model = build_model(settings, spec.inputs, standardised=MEAN in weights).eval()
        model.load_state_dict(weights)
        return Companions(spec, model)

    @torch.inference_mode()
    def predict(self, features: np.ndarray | Tensor) -> np.ndarray:
        """Predict the confidences of responses, truncated ones included. Raises a ContractError for another width.

        Args:
            features: (n, inputs), states of the layer and poolings in `spec`, as a float32 array or a tensor of any
                float format. Prediction is fastest if they are on the companions' device.

        Returns:
            float64 (members, n) in [0, 1].
        """
        if features.ndim != 2 or features.shape[1] != self.spec.inputs:
            raise ContractError(
                f"features have shape {tuple(features.shape)}, but the companions need width {self.spec.inputs} "
                f"(layer {self.spec.layer}, poolings {', '.join(self.spec.poolings)})"
            )
        device = self.model.device
        batches = torch.as_tensor(features).split(_PREDICTION_BATCH[device.type])
        parts = [self.model(batch.to(device, non_blocking=True)) for batch in batches]
        return torch.cat(parts, dim=1).double().cpu().numpy()


def save_companions(path: Path, companions: Companions, attributes: Mapping[str, str]) -> None:
    """Write the weights as safetensors, inside `atomic_path`, with spec and provenance as metadata, and seal them."""
    spec = companions.spec.model_dump(mode="json")
    metadata = {"spec": spec, "provenance": {**attributes, SEAL: BLANK}}
    # There is only one key, since safetensors does not fix the order of keys and equal fits must give equal bytes.
    save_file(companions.model.state_dict(), path, {"cocal": json.dumps(metadata, sort_keys=True)})
    usual_mode(path)
    seal(path)


def write_companions(
    output: Path, companions: Companions, history: "pd.DataFrame", attributes: Mapping[str, str]
) -> None:
    """Write `companions.safetensors`, `spec.json` and `history.csv` into a folder, atomically, in place of an existing
    one. The history is that of `fit_companions`, or the `scores` of companions that learn step by step."""
    with atomic_path(output) as folder:
        folder.mkdir()
        save_companions(folder / "companions.safetensors", companions, attributes)
        write_document(folder / "spec.json", {"spec": companions.spec.model_dump(mode="json")}, attributes)
        history.to_csv(folder / "history.csv", index=False, lineterminator="\n")


def load_companions(path: str | Path) -> Companions:
    """Load companions from their output folder or its companions.safetensors. Raises a ContractError if the file is
    missing, truncated or changed, has no spec, or its weights do not fit the spec or are not finite."""
    path = Path(path)
    path = path / "companions.safetensors" if path.is_dir() else path
    if not path.exists():
        raise ContractError(absent(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get("cocal", "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        check_seal(path)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise ContractError(unreadable(path, "safetensors file", error)) from None
    return with_weights(parse_spec(metadata, path), weights, path)


def with_weights(spec: CompanionSpec, weights: Mapping[str, Tensor], path: Path) -> Companions:
    """Companions with the weights of a file (`path`), or a ContractError if they are not finite or do not fit it."""
    model = build_model(spec.settings, spec.inputs, standardised=MEAN in weights).eval()
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ContractError(f"{path}: the weights do not fit the companions' spec ({error})") from None
    if strange := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
        raise ContractError(f"{path}: weights of {strange[0]} are not finite numbers; {remedy(path)}")
    return Companions(spec, model)
