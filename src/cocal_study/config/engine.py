"""Settings of the generation engines. Each names the function that opens its engine, which is imported only when it is
needed; the function takes the settings, the checkpoint and, if it is already loaded, the policy."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, RootModel

from cocal.engines.settings import VllmSettings
from cocal.settings.base import Count, Model


class TransformersSettings(Model):
    """Decoding with transformers in this process."""

    opens: ClassVar[str] = "cocal_study.generation.transformers_engine:open_transformers"

    kind: Literal["transformers"] = "transformers"
    batch_size: Count = 256
    """Number of responses that are decoded together."""

    def of_concurrency(self, responses: int) -> "TransformersSettings":
        """This engine, decoding `responses` responses together."""
        return self.model_copy(update={"batch_size": responses})


EngineSettings = Annotated[TransformersSettings | VllmSettings, Field(discriminator="kind")]


class EngineChoice(RootModel[EngineSettings]):
    """The settings of one engine as a model of their own."""


def gpus_of(*engines: EngineSettings) -> int:
    """GPUs of a job that opens these engines one after another."""
    return max((getattr(engine, "tensor_parallel", 1) for engine in engines), default=1)
