"""The vLLM engine, which runs in the process of the job, so that it ends with the job however that ends."""

import logging
import os
import shutil
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from cocal.engines.engine import Completion
from cocal.errors import ConfigError, ContractError, EngineError
from cocal.models.loading import Policy, read_vocabulary, require_complete
from cocal.models.text import Tokens
from cocal.runtime.gpus import SECOND_RUNNER
from cocal.runtime.progress import INTERVAL, progress_line
from cocal_study.config.engine import VllmSettings
from cocal_study.generation.engines import Sampling

_MIN_TEMPERATURE = 0.01
"""vLLM silently raises lower temperatures to this one."""
_CPU_CACHE_BYTES = 2**30
_BATCH_INVARIANT_CAPABILITY = 90
_MEMORY = (
    "if memory is short, change engine.memory_share (lower it if other processes use the GPU), max_length, "
    "max_sequences or tensor_parallel"
)


@contextmanager
def open_vllm(settings: VllmSettings, checkpoint: Path, policy: Policy | None = None) -> Iterator["VllmEngine"]:
    """Load a checkpoint, whose memory is freed when the context ends; `policy` is not used. A process can have one such
    engine at a time. Raises what `open_engine` raises, also if vLLM is not installed or takes too long to start.
    """
    require_complete(checkpoint)
    with _failures("starting"), _within(settings.start_timeout):
        engine = VllmEngine(_load(settings, checkpoint), read_vocabulary(checkpoint).ends)
    try:
        yield engine
    finally:
        engine.close()


class VllmEngine:
    """Generation with vLLM, in bfloat16 on a GPU and in float32 elsewhere, by a loaded `LLM`.

    In vLLM a seed chooses the same noise stream for every prompt, so each response is a request with its own seed.
    Repeating the same requests gives the same responses. Depending on vLLM's kernels, the batch may change the last
    digits of the logits and so, at times, a token (setting `batch_invariant`).
    """

    def __init__(self, llm: Any, ends: Iterable[int]):
        self._llm = llm
        self._ends = sorted(ends)

    @property
    def label(self) -> str:
        """See `cocal_study.generation.engines.Engine.label`."""
        import vllm

        return f"vllm {vllm.__version__}"

    def generate(self, prompts: Sequence[Tokens], sampling: Sampling, seeds: Sequence[int]) -> list[list[Completion]]:
        """See `cocal_study.generation.engines.Engine.generate`. Raises ConfigError if prompt and response exceed the
        longest sequence, or the temperature is too low, and EngineError if vLLM fails."""
        if sampling.temperature < _MIN_TEMPERATURE:
            raise ConfigError(f"temperature {sampling.temperature:g} is below vLLM's {_MIN_TEMPERATURE}; use top_k 1")
        prompt, longest = max(map(len, prompts)), self._llm.model_config.max_model_len
        if prompt + sampling.max_tokens > longest:
            raise ConfigError(
                f"engine: a prompt of {prompt} tokens and a response of {sampling.max_tokens} do not fit into "
                f"{longest} tokens; raise max_length if the model allows it, or allow shorter responses"
            )
        settings = asdict(sampling)
        n, k = settings.pop("samples"), settings.pop("best_logprobs")
        parameters = [
            {"seed": int(seed) + j, "stop_token_ids": self._ends, "ignore_eos": True, "logprobs": k, **settings}
            for seed in seeds
            for j in range(n)
        ]
        completions = []
        for output in self._run([prompt for prompt in prompts for _ in range(n)], parameters):
            sample = output.outputs[0]
            # of each token vLLM returns the log-probability of the sampled one first, then the k largest
            logprobs = np.array(sample.logprobs.logprobs, dtype=np.float32).reshape(-1, 1 + k)
            best = logprobs[:, 1:] if k else None
            completions.append(
                Completion(list(sample.token_ids), logprobs[:, 0].copy(), sample.finish_reason, best=best)
            )
        return [completions[i * n : (i + 1) * n] for i in range(len(prompts))]

    def next_token_logprobs(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> np.ndarray:
        """See `cocal_study.generation.engines.Engine.next_token_logprobs`. Raises EngineError if vLLM fails."""
        asked = {"temperature": 0, "max_tokens": 1, "logprob_token_ids": list(tokens)}
        outputs = self._run(prompts, [asked] * len(prompts))
        # vLLM returns the sampled token first, then the requested ones in their order
        return np.array([output.outputs[0].logprobs.logprobs[1:] for output in outputs])

    def close(self) -> None:
        """Free the memory of weights and cache, which a judge may need in the same process."""
        from vllm.distributed import cleanup_dist_env_and_memory

        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        cleanup_dist_env_and_memory()

    def _run(self, prompts: Sequence[Tokens], parameters: Sequence[dict[str, Any]]) -> list[Any]:
        """vLLM's output for each prompt, which does not depend on earlier ones."""
        from tqdm import tqdm
        from vllm import SamplingParams, TokensPrompt

        class Report(tqdm):  # it logs lines in place of vLLM's bar
            monitor_interval = 0

            def display(self, *_: object, **__: object) -> None:
                if 0 < self.n < self.total:
                    left = self.format_dict["elapsed"] / self.n * (self.total - self.n)
                    logging.info(progress_line("vLLM: response", self.n, self.total, left))

        with _failures("at work"):
            asked = [SamplingParams(**settings, flat_logprobs=True, detokenize=False) for settings in parameters]
            self._llm.reset_prefix_cache()
            return self._llm.generate(
                [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts],
                asked,
                use_tqdm=partial(Report, mininterval=INTERVAL, file=StringIO()),
            )


def check_installed(key: str) -> None:
    """Raise a ConfigError that names the configuration's key where vLLM is not installed."""
    if find_spec("vllm") is None:
        raise ConfigError(
            f"{key}: vLLM is not installed for this Python: run with --sdm conda, or in the environment of "
            "envs/gpu.yaml"
        )


def check_compiler(key: str) -> None:
    """Raise a ConfigError that names the configuration's key where Triton would find no C compiler."""
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        raise ConfigError(
            f"{key}: vLLM's kernels need a C compiler (gcc or clang) on this node, which Triton calls: install one, or "
            "use the environment of envs/gpu.yaml, which has one"
        )


def _load(settings: VllmSettings, checkpoint: Path) -> Any:
    check_installed("engine")
    os.environ.update(
        # the scheduler runs in this process, so that every run forms the same batches
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_LOGGING_STREAM="ext://sys.stderr",
        VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1",
        # FlashInfer's sampler is compiled when vLLM warms up, which fails without nvcc. Requests that have seeds, as
        # all of ours, never use it.
        VLLM_USE_FLASHINFER_SAMPLER="0",
        VLLM_BATCH_INVARIANT=str(int(settings.batch_invariant)),
    )
    # parallel jobs must not be bound to the same core
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault(SECOND_RUNNER, "0")
    from vllm.platforms import current_platform

    cpu = current_platform.is_cpu()
    if settings.batch_invariant and (cpu or not current_platform.has_device_capability(_BATCH_INVARIANT_CAPABILITY)):
        raise ConfigError("engine: batch_invariant needs a GPU of compute capability 9.0 or newer; set it to false")
    if cpu:
        import torch._dynamo

        torch._dynamo.config.disable = True  # it needs a compiler and gains nothing on a processor
    else:
        check_compiler("engine")
    from vllm import LLM

    # since 0.29, GPUs would use the second, with which this code was never tried; vLLM plans to drop the first
    logging.info("vLLM with its %s model runner", "first" if os.environ[SECOND_RUNNER] == "0" else "second")
    return LLM(
        str(checkpoint),
        trust_remote_code=False,
        load_format="safetensors",
        generation_config="vllm",  # the checkpoint's own sampling defaults are ignored
        dtype="float32" if cpu else "bfloat16",
        enforce_eager=cpu or settings.eager,
        # vLLM's build for processors crashes on a seeded request whose prompt is read in several steps
        enable_chunked_prefill=False if cpu else None,
        kv_cache_memory_bytes=_CPU_CACHE_BYTES if cpu else None,
        tensor_parallel_size=settings.tensor_parallel,
        gpu_memory_utilization=settings.memory_share,
        max_model_len=settings.max_length,
        max_num_seqs=settings.max_sequences,
        enable_prefix_caching=settings.prefix_caching,
        attention_backend=settings.attention_backend,
        logprobs_mode="raw_logprobs",
        seed=0,
    )


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise EngineError in the block once it has taken `seconds` seconds; vLLM itself waits forever."""

    def late(*_: object) -> None:
        raise EngineError(
            f"vLLM did not start within {seconds:g} s; raise engine.start_timeout if it was still loading"
        )

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _failures(doing: str) -> Iterator[None]:
    """Turn vLLM's errors into ours: it raises ValueError or an error of its own for what it refuses, and for a cache
    that is too small. About its workers on several GPUs, which print their errors, it only says that they failed."""
    try:
        yield
    except (ConfigError, ContractError, EngineError):
        raise
    except ImportError as error:
        raise ConfigError(f"engine: vLLM cannot be loaded by this Python ({error})") from error
    except Exception as error:
        if isinstance(error, ValueError) or type(error).__name__ == "VLLMValidationError":
            raise ConfigError(f"engine: {error}; {_MEMORY}") from error
        raise EngineError(f"vLLM failed {doing}, and its lines above say why; {_MEMORY}: {error}") from error
