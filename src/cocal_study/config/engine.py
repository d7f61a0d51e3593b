"""Settings of the generation engines. Each names the function that opens its engine, which is imported only when it is
needed; the function takes the settings, the checkpoint and, if it is already loaded, the policy."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, RootModel

from cocal.settings.base import Count, Model, Positive

AttentionBackend = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
"""A name of vLLM's `AttentionBackendEnum`."""


class TransformersSettings(Model):
    """Decoding with transformers in this process."""

    opens: ClassVar[str] = "cocal_study.generation.transformers_engine:open_transformers"

    kind: Literal["transformers"] = "transformers"
    batch_size: Count = 256
    """Number of responses that are decoded together."""

    def of_concurrency(self, responses: int) -> "TransformersSettings":
        """This engine, decoding `responses` responses together."""
        return self.model_copy(update={"batch_size": responses})


class VllmSettings(Model):
    """Decoding with vLLM, with a new engine for each checkpoint. The job runs in an environment that has vLLM, as with
    `snakemake --sdm conda`, which makes it from envs/gpu.yaml."""

    opens: ClassVar[str] = "cocal_study.generation.vllm_engine:open_vllm"

    kind: Literal["vllm"]
    tensor_parallel: Count = 1
    """Number of GPUs that share the weights."""
    memory_share: Annotated[float, Field(gt=0, lt=1)] = 0.85
    """Share of the GPU's memory for weights and cache. The measurement of latency holds the policy on the same GPU as
    well, and so does resampling. On a processor, the cache takes 1 GiB."""
    max_length: Count | None = None
    """Longest sequence (prompt and response) in tokens; by default the model's own limit."""
    max_sequences: Count = 256
    """Largest number of responses that are decoded together."""
    prefix_caching: bool = True
    """True if responses to one question share the encoding of its prompt. The measurement of latency switches it off
    (appendix E.2)."""
    attention_backend: AttentionBackend | None = None
    """Name of vLLM's attention kernels, such as FLASH_ATTN; by default vLLM chooses them. On B200 it chooses
    FlashInfer, which compiles its kernels on the node and needs a CUDA toolkit (nvcc) there; FLASH_ATTN needs none."""
    batch_invariant: bool = False
    """True to use slower kernels whose sums do not depend on the batch, so that a response does not depend on those
    decoded with it. They need GPUs of compute capability 9.0 or newer. Equal jobs give equal responses in any case."""
    eager: bool = False
    """True to leave out vLLM's compilation, graphs and kernel warm-up, with which an engine starts later, by a minute
    or two, and samples faster. For trials and tests; on a processor they are always left out."""
    start_timeout: Positive = 1800.0
    """Seconds that loading the checkpoint may take."""

    def of_concurrency(self, responses: int) -> "VllmSettings":
        """This engine, decoding at most `responses` responses together, each of which encodes its own prompt."""
        return self.model_copy(update={"max_sequences": responses, "prefix_caching": False})


EngineSettings = Annotated[TransformersSettings | VllmSettings, Field(discriminator="kind")]


class EngineChoice(RootModel[EngineSettings]):
    """The settings of one engine as a model of their own."""


def gpus_of(*engines: EngineSettings) -> int:
    """GPUs of a job that opens these engines one after another."""
    return max((getattr(engine, "tensor_parallel", 1) for engine in engines), default=1)
