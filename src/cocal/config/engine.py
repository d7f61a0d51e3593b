"""Settings of the engines that generate. Each names the function that opens its engine, which is imported when it is
asked for, and takes settings, checkpoint and, where it is loaded already, the policy."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, RootModel

from cocal.config.base import Count, Model, Positive


class TransformersSettings(Model):
    """Decoding with transformers, in this process."""

    opens: ClassVar[str] = "cocal.generation.transformers_engine:open_transformers"
    kept_apart: ClassVar[tuple[str, ...]] = ()

    kind: Literal["transformers"] = "transformers"
    batch_size: Count = 256
    """Responses decoded together."""

    def of_concurrency(self, responses: int) -> "TransformersSettings":
        """This engine with so many responses decoded together."""
        return self.model_copy(update={"batch_size": responses})


class VllmSettings(Model):
    """vLLM in a process and an environment of its own, one fresh engine a checkpoint."""

    opens: ClassVar[str] = "cocal.generation.vllm_engine:open_vllm"
    kept_apart: ClassVar[tuple[str, ...]] = ("cocal.generation.vllm_process.worker",)
    """Modules that run in a process of their own, which the engine does not import."""

    kind: Literal["vllm"]
    python: str | None = None
    """Interpreter of vLLM's environment; by default the environment variable COCAL_VLLM_PYTHON, else this one, which
    with `snakemake --sdm conda` is that of envs/vllm.yaml."""
    tensor_parallel: Count = 1
    """GPUs that share the weights."""
    memory_share: Annotated[float, Field(gt=0, lt=1)] = 0.85
    """Of the GPU's memory, for weights and cache. Resampling and the measurement of latency keep the policy itself on
    the same GPU besides. On a processor, the cache takes 1 GiB."""
    max_length: Count | None = None
    """Longest sequence, prompt and response, in tokens; the model's own by default."""
    max_sequences: Count = 256
    """Responses decoded together, at most."""
    batch_invariant: bool = False
    """Kernels whose sums do not depend on the batch, at a loss of speed: a response is then the same whatever is
    decoded beside it. Needs GPUs of compute capability 9.0 or newer. Without it, an equal job gives equal responses."""
    start_timeout: Positive = 1800.0
    """Seconds until the checkpoint must have been loaded."""

    def of_concurrency(self, responses: int) -> "VllmSettings":
        """This engine with so many responses decoded together, at most."""
        return self.model_copy(update={"max_sequences": responses})


EngineSettings = Annotated[TransformersSettings | VllmSettings, Field(discriminator="kind")]


class EngineChoice(RootModel[EngineSettings]):
    """One engine, given alone."""
