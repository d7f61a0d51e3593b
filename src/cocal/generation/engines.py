"""Opens the engine that a configuration names."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from cocal.config.engine import EngineSettings
from cocal.generation.engine import Engine
from cocal.models.loading import Policy


@contextmanager
def open_engine(settings: EngineSettings, checkpoint: Path, policy: Policy | None = None) -> Iterator[Engine]:
    """Open an engine with a checkpoint; its memory is freed when the context ends.

    Args:
        settings: Kind of engine and its settings.
        checkpoint: Hugging Face folder.
        policy: The checkpoint, if it is loaded already; only an engine in this process uses it.

    Raises:
        ContractError: if the checkpoint is not complete.
        ConfigError: if the engine cannot start with these settings.
        EngineError: if the engine's process does not start.
    """
    module, _, function = settings.opens.partition(":")
    with getattr(import_module(module), function)(settings, checkpoint, policy) as engine:
        yield engine
