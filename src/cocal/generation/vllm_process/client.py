"""The client of vLLM's process, which starts it, sends it requests and ends it."""

import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from cocal.config.engine import VllmSettings
from cocal.errors import ConfigError, EngineError
from cocal.generation.vllm_process.framing import receive, send
from cocal.runtime.progress import progress_line

INTERPRETER = "COCAL_VLLM_PYTHON"
"""The environment variable that names the Python interpreter of vLLM's environment."""

_REFUSALS = ("Refused", "VLLMValidationError", "ValidationError")
_POLL = 1.0
_LAST_LINES = 15
_GOODBYE_SECONDS = 20.0
_MEMORY = re.compile(
    r"out of ?memory|not? (available|enough) memory|cannot allocate memory"
    r"|less than desired \w+ memory|larger than the available .*memory",
    re.IGNORECASE,
)


def interpreter(settings: VllmSettings) -> str:
    """Return the interpreter from the settings, else from the environment variable, else the running one."""
    return settings.python or os.environ.get(INTERPRETER) or sys.executable


@contextmanager
def open_process(settings: VllmSettings, checkpoint: Path) -> Iterator["VllmProcess"]:
    """Start vLLM and load a checkpoint; vLLM and all its child processes are killed when the context ends.

    Raises:
        ConfigError: if vLLM cannot start with these settings.
        EngineError: if vLLM does not start.
    """
    process = VllmProcess(interpreter(settings))
    try:
        process.open(settings, checkpoint)
        yield process
    finally:
        process.close()


class VllmProcess:
    """One vLLM process, which answers one request after another.

    Args:
        python: Interpreter of vLLM's environment.

    Attributes:
        version: vLLM's version; empty until `open` has returned.

    Raises:
        ConfigError: if the interpreter cannot be run.
    """

    def __init__(self, python: str):
        self.version = ""
        self._python = python
        self._doing = "starting"
        self._idle = True
        # It gets its own process group, so that its children can be killed with it, and none of our Python paths,
        # since its packages differ.
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")}
        try:
            self._process = subprocess.Popen(
                [python, str(Path(__file__).with_name("worker.py")), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"engine.python: {python} cannot be run ({error.strerror}); {_where()}") from None
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read, self._forward)]
        for thread in self._threads:
            thread.start()

    def open(self, settings: VllmSettings, checkpoint: Path) -> None:
        """Load the checkpoint.

        Raises:
            ConfigError: if vLLM is not installed there, or the settings do not suit the model and the device.
            EngineError: if the process dies or takes longer than `settings.start_timeout`.
        """
        request = settings.model_dump(exclude={"kind", "python", "start_timeout"}) | {"checkpoint": str(checkpoint)}
        header, _ = self.ask("open", request, timeout=settings.start_timeout)
        self.version = header["version"]
        self._doing = "at work"

    def ask(
        self, kind: str, header: dict[str, Any], *arrays: array, timeout: float | None = None
    ) -> tuple[dict[str, Any], list[array]]:
        """Send a request, log its progress and return its answer.

        Raises:
            ConfigError: if the request does not suit the settings, or memory is short.
            EngineError: if vLLM fails, its process dies, or the answer takes longer than `timeout` seconds.
        """
        self._idle = False
        with suppress(BrokenPipeError):  # the process died; `_death` reports the cause
            send(self._process.stdin, {"kind": kind} | header, *arrays)
        deadline = time.monotonic() + timeout if timeout else None
        while True:
            try:
                message = self._answers.get(timeout=_POLL)
            except queue.Empty:
                if self._process.poll() is not None:
                    raise self._death() from None
                if deadline and time.monotonic() > deadline:
                    raise EngineError(
                        f"vLLM did not start within {timeout:g} s; raise engine.start_timeout if it was still loading; "
                        f"its last lines:\n{self._last_lines()}"
                    ) from None
                continue
            if message is None:
                raise self._death()
            answer, numbers = message
            if answer["kind"] == "progress":
                logging.info(progress_line("vLLM: response", answer["done"], answer["total"], answer["left"]))
                continue
            self._idle = True
            if answer["kind"] == "error":
                raise self._failure(answer["error"], answer["message"])
            return answer, numbers

    def close(self) -> None:
        """Let an idle process end by itself, then kill the process and its children if they still run."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._threads[0].join(_GOODBYE_SECONDS if self._idle else 0)
        with suppress(ProcessLookupError):  # before `wait`, after which another group could have this number
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        while (message := receive(self._process.stdout)) is not None:
            self._answers.put(message)
        self._answers.put(None)

    def _forward(self) -> None:
        for line in TextIOWrapper(self._process.stderr, errors="replace"):
            self._lines.append(line)
            sys.stderr.write(line)

    def _last_lines(self) -> str:
        return "".join(self._lines).rstrip() or "(none)"

    def _death(self) -> Exception:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_POLL)
        self._threads[1].join(_POLL)  # its last lines may not have arrived yet
        if _MEMORY.search(self._last_lines()):
            return self._failure("died", self._last_lines())
        return EngineError(
            f"vLLM's process ({self._python}) died {self._doing}, status {self._process.returncode}; its last lines:\n"
            f"{self._last_lines()}"
        )

    def _failure(self, name: str, message: str) -> Exception:
        if name in _REFUSALS:
            return ConfigError(f"engine: {message}")
        if name in ("ImportError", "ModuleNotFoundError"):
            return ConfigError(f"engine.python: vLLM cannot be loaded by {self._python} ({message}); {_where()}")
        if _MEMORY.search(message) or (self._doing == "starting" and _MEMORY.search(self._last_lines())):
            return ConfigError(
                "engine: vLLM is short of memory; change engine.memory_share (lower it if other processes use the "
                f"GPU), max_length, max_sequences or tensor_parallel. vLLM's message: {message}"
            )
        return EngineError(f"vLLM failed {self._doing} with {name}: {message}")


def _where() -> str:
    return (
        f"set engine.python or {INTERPRETER} to the interpreter of an environment with vLLM "
        "(envs/vllm.yaml is one for GPUs, `make vllm` makes one for processors)"
    )
