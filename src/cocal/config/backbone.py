"""Settings of a backbone: the policy before reinforcement learning."""

from typing import Annotated, Literal

from pydantic import Field

from cocal.config.base import Count, Model, Positive, Share


class Architecture(Model):
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


class Corpus(Model):
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


class Pretraining(Model):
    """A tiny policy trained here, from a tokenizer upwards."""

    source: Literal["pretraining"]
    label: str
    seed: int = 42
    architecture: Architecture = Architecture()
    corpus: Corpus = Corpus()
    steps: Count = 1200
    batch_size: Count = 64
    """Documents a step."""
    matrix_learning_rate: Positive = 0.02
    """Muon, for the matrices of the blocks."""
    learning_rate: Positive = 3.0e-3
    """AdamW, for embeddings, head and norms."""
    warmup: Share = 0.05
    """Share of the steps with a rising learning rate; it falls to zero linearly afterwards."""

    @property
    def depth(self) -> int:
        """Number of transformer blocks."""
        return self.architecture.layers

    @property
    def width(self) -> int:
        """Size of a hidden state."""
        return self.architecture.hidden_size


class Checkpoint(Model):
    """A Hugging Face checkpoint that exists already."""

    source: Literal["checkpoint"]
    label: str
    path: str
    """Folder or hub name."""
    revision: str | None = None
    """Commit on the hub; required to be reproducible when `path` is a hub name."""
    depth: Count
    """Number of transformer blocks: the jobs are planned before the checkpoint is here."""
    width: Count
    """Size of a hidden state."""


Backbone = Annotated[Pretraining | Checkpoint, Field(discriminator="source")]
