"""Opening the engine that a configuration names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cocal.checkpoints.loading import Policy, load_policy, stored_end_tokens
from cocal.config.engine import EngineSettings, VllmSettings
from cocal.generation.engine import Engine


@contextmanager
def open_engine(settings: EngineSettings, checkpoint: Path, policy: Policy | None = None) -> Iterator[Engine]:
    """A checkpoint that generates; its memory is free again when the context ends.

    Args:
        settings: which engine, and how.
        checkpoint: Hugging Face folder.
        policy: the checkpoint, where it is loaded already; an engine in this process uses it.

    Raises:
        ContractError: if the checkpoint is not complete.
        ConfigError: if the engine cannot start with these settings.
        EngineError: if its process does not start.
    """
    if isinstance(settings, VllmSettings):
        from cocal.generation.vllm_engine import VllmEngine

        with VllmEngine.open(settings, checkpoint, stored_end_tokens(checkpoint)) as engine:
            yield engine
        return
    from cocal.generation.transformers_engine import TransformersEngine

    yield TransformersEngine.of(policy or load_policy(checkpoint), settings.batch_size)
