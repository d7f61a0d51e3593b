"""vLLM's process, which serves one checkpoint; `client` runs it with the interpreter of vLLM's environment.

It reads requests from standard input and writes answers to standard output, as `framing` encodes them. All printed
text goes to standard error. The first request opens the engine. The process ends when its standard input or its parent
does. It is called as `worker.py PARENT` with the parent's process id.
"""

import io
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from array import array
from functools import partial
from typing import Any, BinaryIO

from framing import flat, receive, rows, send

_REPORT_SECONDS = 10.0
_CPU_CACHE_BYTES = 2**30
_BATCH_INVARIANT_CAPABILITY = 90


class Refused(Exception):
    """A request that vLLM cannot serve with the user's settings."""


class Worker:
    """A loaded checkpoint; the other arguments are those of `cocal.config.engine.VllmSettings`.

    Args:
        answers: Stream to the parent, on which progress is reported.
    """

    def __init__(
        self,
        answers: BinaryIO,
        *,
        checkpoint: str,
        tensor_parallel: int,
        memory_share: float,
        max_length: int | None,
        max_sequences: int,
        prefix_caching: bool,
        attention_backend: str | None,
        batch_invariant: bool,
    ):
        # The scheduler runs in this process, so that every run forms the same batches.
        os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
        # FlashInfer's sampler is compiled when vLLM warms up, which fails without nvcc. Requests that have seeds, as
        # all of ours, never use it.
        os.environ["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
        # Parallel jobs must not be bound to the same core.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        from vllm.platforms import current_platform

        cpu = current_platform.is_cpu()
        if batch_invariant:
            if cpu or not current_platform.has_device_capability(_BATCH_INVARIANT_CAPABILITY):
                raise Refused("batch_invariant needs a GPU of compute capability 9.0 or newer; set it to false")
            os.environ["VLLM_BATCH_INVARIANT"] = "1"
        if cpu:
            import torch._dynamo

            torch._dynamo.config.disable = True  # it needs a compiler and gains nothing on a processor
        elif not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
            raise Refused(
                "vLLM's kernels need a C compiler (gcc or clang) on this node, which Triton calls; install one, or use "
                "the environment of envs/vllm.yaml, which has one"
            )
        from vllm import LLM

        self._answers = answers
        self._llm = LLM(
            checkpoint,
            trust_remote_code=False,
            load_format="safetensors",
            generation_config="vllm",  # the checkpoint's own sampling defaults are ignored
            dtype="float32" if cpu else "bfloat16",
            enforce_eager=cpu,
            kv_cache_memory_bytes=_CPU_CACHE_BYTES if cpu else None,
            tensor_parallel_size=tensor_parallel,
            gpu_memory_utilization=memory_share,
            max_model_len=max_length,
            max_num_seqs=max_sequences,
            enable_prefix_caching=prefix_caching,
            attention_backend=attention_backend,
            logprobs_mode="raw_logprobs",
            seed=0,
        )

    def generate(self, prompts: list[array], seeds: array, *, sampling: dict[str, Any], ends: list[int]) -> list[array]:
        """Sample responses; those to one prompt are consecutive.

        Args:
            prompts: Token ids of each prompt.
            seeds: One seed for each prompt; response j uses seed + j.
            sampling: Fields of `cocal.generation.engine.Sampling`.
            ends: The only tokens that stop a response.

        Returns:
            Concatenated token ids, length of each response, concatenated log-probabilities, and 1 for each response
            that an end token stopped.
        """
        from vllm import SamplingParams

        samples, longest = sampling.pop("samples"), sampling["max_tokens"]
        limit = self._llm.model_config.max_model_len
        prompt = max(map(len, prompts))
        if prompt + longest > limit:
            raise Refused(
                f"a prompt of {prompt} tokens and a response of {longest} do not fit into {limit} tokens; raise"
                " max_length if the model allows it, or allow shorter responses"
            )
        # Requests with equal seeds share their noise whatever their prompts, so each response has its own seed.
        parameters = [
            SamplingParams(
                **sampling,
                seed=seed + j,
                stop_token_ids=ends,
                ignore_eos=True,
                logprobs=0,
                flat_logprobs=True,
                detokenize=False,
            )
            for seed in seeds
            for j in range(samples)
        ]
        found = [output.outputs[0] for output in self._run([p for p in prompts for _ in range(samples)], parameters)]
        ids, lengths = flat("i", (one.token_ids for one in found))
        logprobs, _ = flat("f", (one.logprobs.logprobs for one in found))
        return [ids, lengths, logprobs, array("b", (one.finish_reason == "stop" for one in found))]

    def next_token_logprobs(self, prompts: list[array], tokens: array) -> list[array]:
        """Return the raw log-probabilities of `tokens` after each prompt, row by row."""
        from vllm import SamplingParams

        # vLLM returns the sampled token first, then the requested ones in their order.
        parameters = SamplingParams(
            temperature=0, max_tokens=1, logprob_token_ids=tokens.tolist(), flat_logprobs=True, detokenize=False
        )
        outputs = self._run(prompts, [parameters] * len(prompts))
        return [flat("d", (output.outputs[0].logprobs.logprobs[1:] for output in outputs))[0]]

    def _run(self, prompts: list[array], parameters: list) -> list:
        from tqdm import tqdm
        from vllm import TokensPrompt

        answers = self._answers

        class Report(tqdm):
            """Sends messages in place of vLLM's progress bar."""

            monitor_interval = 0

            def display(self, *_: object, **__: object) -> None:
                if 0 < self.n < self.total:
                    left = self.format_dict["elapsed"] / self.n * (self.total - self.n)
                    send(answers, {"kind": "progress", "done": self.n, "total": self.total, "left": left})

        self._llm.reset_prefix_cache()  # so that answers do not depend on earlier requests
        return self._llm.generate(
            [TokensPrompt(prompt_token_ids=prompt.tolist()) for prompt in prompts],
            parameters,
            use_tqdm=partial(Report, mininterval=_REPORT_SECONDS, file=io.StringIO()),
        )


def main(parent: int) -> None:
    """Answer requests until standard input ends."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    worker = None
    while (message := receive(requests)) is not None:
        header, arrays = message
        kind = header.pop("kind")
        try:
            if kind == "open":
                import vllm

                worker = Worker(answers, **header)
                send(answers, {"kind": "open", "version": vllm.__version__})
            else:
                ids, lengths, *more = arrays
                send(answers, {"kind": kind}, *getattr(worker, kind)(rows(ids, lengths), *more, **header))
        except Exception as error:
            if not isinstance(error, Refused):
                traceback.print_exc()
            send(answers, {"kind": "error", "error": type(error).__name__, "message": str(error)})


def _end_with(parent: int) -> None:
    """Kill this process and its children once the parent is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
