"""The language model that a command is given: a folder, or a name on the Hub."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from cocal.fitting.config import BaseModelInfo
from cocal.models.adapters import adapter_files, check_base, merged
from cocal.models.hub import folder_of
from cocal.models.loading import Policy, load_policy, load_tokenizer, read_config
from cocal.runtime.numerics import active, computes_bfloat16
from cocal.store import digest, read_provenance
from cocal.store.folders import check_folder, file_digest
from cocal.store.origin import PROVENANCE

_STEP = re.compile(r"(?:checkpoint|global_?step|step|iter)[_-]?(\d{1,9})", re.IGNORECASE)
"""Names that trainers give to the folder of a checkpoint, with its step."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that exists, and has not been loaded yet."""

    name: str
    """Name on the Hub, or path, as it was given."""
    folder: Path
    revision: str | None
    """Commit on the Hub; None for a folder."""
    adapter: Path | None = None
    """Folder of an adapter that PEFT has trained on this model, which is merged into it in memory."""

    @classmethod
    def find(cls, name: str, revision: str | None = None, adapter: Path | None = None) -> "Checkpoint":
        """Find a checkpoint in a folder or on the Hub, from which it is downloaded unless the Hub's cache has it.
        Raises a ContractError if there is none, a file of it has changed, or the adapter cannot be used."""
        folder = folder_of(name, "model", revision=revision)
        if local := Path(name).is_dir():
            check_folder(folder, weights=False)
        if adapter is not None:
            check_base(adapter, name, folder)
        return cls(name, folder, None if local else folder.name, adapter)

    def load(self, precision: str = "auto") -> Policy:
        """Load the policy, whose tokenizer may lack a chat template; an adapter's own tokenizer is preferred, as it was
        trained with it. The `precision` of its passes is "float32", "bfloat16" or "auto" (`usual_precision`)."""
        import torch

        chosen = self.usual_precision() if precision == "auto" else precision
        adapted = self.adapter is not None
        policy = load_policy(self.folder, plain=True, dtype=getattr(torch, chosen), adapted=adapted)
        if self.adapter is None:
            return policy
        own = (self.adapter / "tokenizer_config.json").exists()
        tokenizer = load_tokenizer(self.adapter, plain=True) if own else policy.tokenizer
        return Policy(merged(policy.model, self.adapter).eval(), tokenizer)

    def usual_precision(self) -> Literal["float32", "bfloat16"]:
        """The number format of passes where none is named: bfloat16 on a GPU, and on a processor with instructions for
        it where the weights are stored so; otherwise, and with portable numerics, float32."""
        import torch

        if torch.cuda.is_available():
            return "bfloat16"
        quick = active() != "portable" and computes_bfloat16() and read_config(self.folder).dtype == torch.bfloat16
        return "bfloat16" if quick else "float32"

    @cached_property
    def architecture(self) -> BaseModelInfo:
        """The facts that `CompanionConfig.check_model` compares, for which no file of weights is read."""
        architecture = BaseModelInfo.of(read_config(self.folder), self.name)
        return architecture.model_copy(update={"tokenizer": self.tokenizer})

    @cached_property
    def info(self) -> BaseModelInfo:
        """The facts that a saved companion states of its model, for which no weights are loaded."""
        told = {"revision": self.revision, "step": self.step, "adapter": self._adapter_digest, "weights": self.weights}
        return self.architecture.model_copy(update=told)

    @cached_property
    def weights(self) -> str | None:
        """Digest of the files of weights; None for a checkpoint of the Hub, which its commit identifies."""
        files = () if self.revision else sorted(self.folder.glob("*.safetensors"))
        return digest([file_digest(file) for file in files]) if files else None

    @cached_property
    def tokenizer(self) -> str | None:
        """Digest of the vocabulary's ids, without added tokens; None if no `tokenizer.json` names them."""
        file = (self.adapter or self.folder) / "tokenizer.json"
        file = file if file.exists() else self.folder / "tokenizer.json"
        try:
            return digest(json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    @property
    def _adapter_digest(self) -> str | None:
        return self.adapter and digest([file_digest(file) for file in adapter_files(self.adapter)])

    @property
    def step(self) -> int | None:
        """Rollout step of the policy's training, by the provenance or the name of its folder; None if unknown."""
        file, named = self.folder / PROVENANCE, _STEP.fullmatch((self.adapter or self.folder).absolute().name)
        step = read_provenance(file).get("step") if file.exists() else named and named[1]
        return None if step is None else int(step)

    def identity(self) -> str:
        """Digest that tells this checkpoint from others, which may have the same weights and another tokenizer."""
        alone = self.revision or digest([self.weights, _settings(self.folder)])
        return alone if self.adapter is None else digest([alone, self._adapter_digest, _settings(self.adapter)])


def _settings(folder: Path) -> dict[str, str]:
    """Digests of the files of settings, tokenizer and chat template, by their names."""
    endings = (".json", ".jinja", ".txt", ".model")
    return {file.name: file_digest(file) for file in sorted(folder.iterdir()) if file.suffix in endings}
