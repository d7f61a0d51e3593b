"""Settings of a backbone: the policy before reinforcement learning."""

import re
from typing import Annotated, Literal

from pydantic import Field, RootModel, model_validator

from cocal.config.base import Count, Model, Positive, Share
from cocal.config.policy import Algorithm


class ArchitectureSettings(Model):
    """Shape of a Qwen3 decoder with untied embeddings."""

    hidden_size: Count = 96
    layers: Count = 3
    heads: Count = 4
    key_value_heads: Count = 2
    head_dim: Literal[32, 64, 80, 96, 112, 128] = 32
    """Sizes that vLLM's attention kernels support."""
    intermediate_size: Count = 288
    vocabulary: Annotated[int, Field(ge=320)] = 512
    """Byte-level BPE; every digit is a token of its own."""
    max_length: Count = 512
    """Longest sequence, prompt and response, in tokens."""


class CorpusSettings(Model):
    """Mixture of the pre-training documents; the shares make a policy of partial competence."""

    facts: Share = 0.15
    """Share of factual documents; the rest is mathematics."""
    worksheets: Share = 0.35
    """Share of the mathematics that is practice: bare steps of unrelated solutions in a row. Without them, so
    little text does not teach arithmetic."""
    direct_answers: Share = 0.30
    """Share of the mathematical answers without working."""
    wrong_steps: Share = 0.10
    """Share of the worked answers that carry one wrong step to the end."""
    plain: Share = 0.46
    """Share of documents in the plain answer format ..."""
    verbal: Share = 0.23
    """... in the confidence-reporting format (answer, then CONFIDENCE) ..."""
    rlcr: Share = 0.23
    """... in RLCR's format (answer, reason, CONFIDENCE) ..."""
    p_true: Share = 0.08
    """... and in the P(True) format. The four formats sum to one."""
    p_true_noise: Share = 0.35
    """Share of P(True) labels that are flipped."""


class ImportedRolloutSettings(Model):
    """Rollouts that another engine dumped: a folder, one file a step."""

    format: Literal["slime", "trl", "jsonl"]
    path: str
    """Folder: `0.pt` is step 1 of slime, `step-00001.parquet` of our own recorder, `step-00001.jsonl` of JSON lines."""
    correctness: Literal["verifier", "reward"] = "verifier"
    """Who says which responses are correct: our verifier, or the reward of the dumps."""
    reward_key: str = "reward"
    """The reward's name where the dumps have several."""
    weights: str | None = None
    """Folder of the weights of every step (slime's `--update-weight-disk-dir`), each of which reads its own rollouts;
    by default the steps up to a stage are read by that stage's checkpoint (appendix F.4)."""
    tokenise: bool = False
    """Tokenise text where dumps lack token ids, which may not be those that were sampled."""


class ImportedSettings(Model):
    """A training that another engine ran."""

    stages: dict[Count, str]
    """Step -> folder of the Hugging Face checkpoint after it; the steps are those of `policy.stages`. Relative folders
    start at the root of the repository, those of the rollouts too."""
    rollouts: ImportedRolloutSettings | None = None
    """Required of GRPO, whose rollouts companions learn from."""
    seconds: Positive | None = None
    """Wall-clock time of the training; without it tables/cost is left out."""
    device: str = "not stated"
    """What the training ran on."""


class PretrainingSettings(Model):
    """A tiny policy trained here, from a tokenizer upwards."""

    source: Literal["pretraining"]
    label: str
    seed: int = 42
    architecture: ArchitectureSettings = ArchitectureSettings()
    corpus: CorpusSettings = CorpusSettings()
    steps: Count = 1200
    batch_size: Count = 64
    """Documents a step."""
    matrix_learning_rate: Positive = 0.02
    """Muon, for the matrices of the blocks."""
    learning_rate: Positive = 3.0e-3
    """AdamW, for embeddings, head and norms."""
    warmup: Share = 0.05
    """Share of the steps with a rising learning rate; it falls to zero linearly afterwards."""
    imported: dict[Algorithm, ImportedSettings] = {}
    """Trainings that another engine ran, by algorithm; no training job runs for these."""

    @property
    def depth(self) -> int:
        """Number of transformer blocks."""
        return self.architecture.layers

    @property
    def width(self) -> int:
        """Size of a hidden state."""
        return self.architecture.hidden_size


class CheckpointSettings(Model):
    """A Hugging Face checkpoint that exists already."""

    source: Literal["checkpoint"]
    label: str
    path: str
    """Folder, or name on the Hugging Face hub (`owner/name`). A relative folder starts at the root of the
    repository."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Commit on the hub; required where `path` is a hub name."""
    depth: Count
    """Number of transformer blocks: the jobs are planned before the checkpoint is here."""
    width: Count
    """Size of a hidden state."""
    imported: dict[Algorithm, ImportedSettings] = {}
    """Trainings that another engine ran, by algorithm; no training job runs for these."""

    @property
    def on_hub(self) -> bool:
        """Whether `path` is a hub name: two words and one slash. A folder of that form is written `./owner/name`."""
        return re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", self.path) is not None

    @model_validator(mode="after")
    def _pinned(self) -> "CheckpointSettings":
        if self.on_hub and self.revision is None:
            raise ValueError(f"{self.path} is a hub name: give its revision, a commit of 40 hexadecimal digits")
        return self


BackboneSettings = Annotated[PretrainingSettings | CheckpointSettings, Field(discriminator="source")]


class BackboneChoice(RootModel[BackboneSettings]):
    """One backbone, given alone."""
