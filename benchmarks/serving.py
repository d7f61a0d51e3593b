"""A model served with confidences against the same one without, and against a second pass over its answers.

Two servers run beside one another, vLLM's own and that of `cocal serve`, and get the same requests in turns: prompts as
token ids, each with a seed, so that both give the same answers. The companion reads token probabilities beside states.
Ten pairs of rounds are run, each pair begun by the other server, and printed as they end with the load of the machine;
their median counts. In further ten, ours gives the confidence after every sixteen tokens, too. The model has random
weights, on a processor in the shape of the laptop study's, and so many tokens end its responses that they have some
hundred tokens in the mean. On a processor, each server has one compute thread. Times are seconds, since the servers'
processes spin while they wait for one another; nothing else should run on the machine.

The obvious way to a confidence is a second pass: the answers of vLLM's own server are read once more by transformers.
It is timed with `cocal.Companion.score`, which pools inside that pass.

Without vLLM beside this Python, or in .venv-vllm (`make vllm`), nothing is measured.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import psutil
import torch
from cocal.fitting.told import BaseModelInfo, CompanionConfig
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from cocal.companion.settings import CompanionSettings
from cocal.confidence.companion import Companion
from cocal.confidence.saved import write
from cocal.features.extract import TOKEN_INPUTS
from cocal.models.loading import load_policy
from cocal_study.backbones.pretraining import train_tokenizer
from timing import row, timed
from untrained import untrained

ROOT = Path(__file__).resolve().parents[1]
START = 1200
"""Seconds in which a server must have started."""
GPU = torch.cuda.is_available()


@dataclass(frozen=True)
class Case:
    """The model, and the load of one round."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    widths: tuple[int, ...]
    ends: int
    requests: int
    together: int
    longest: int
    pairs: int = 10

    def write(self, folder: Path) -> None:
        """Write the model into a folder, with its tokenizer, and a companion beside it."""
        config = Qwen3Config(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            head_dim=self.head_dim,
            intermediate_size=self.inner,
            vocab_size=self.vocabulary,
            max_position_embeddings=2 * self.longest,
            tie_word_embeddings=False,
        )
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config).to(torch.bfloat16 if GPU else torch.float32)
        tokenizer = train_tokenizer(["What is 12 plus 7? It is 19."] * 100, 300, 2 * self.longest)
        model.generation_config = GenerationConfig(
            eos_token_id=[tokenizer.eos_token_id, *range(self.vocabulary - self.ends + 1, self.vocabulary)]
        )
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        settings = CompanionSettings(widths=self.widths, targets=("binary",))
        companions = untrained(settings, 2 * self.hidden + TOKEN_INPUTS, self.layers - 1)
        base = BaseModelInfo.of(config, str(folder / "model"))
        told = CompanionConfig(spec=companions.spec, base_model=base, prefixes=16, token_probability=True)
        (folder / "companion").mkdir()
        write(folder / "companion", companions, told)


QUICK = Case(128, 2, 2, 1, 64, 256, 512, (64, 32, 16, 8), ends=16, requests=32, together=16, longest=64, pairs=2)
CPU = Case(576, 30, 9, 3, 64, 1536, 49_152, (256, 128, 64, 32), ends=490, requests=48, together=24, longest=192)
ON_GPU = Case(
    1024, 28, 16, 8, 128, 3072, 151_936, (2048, 1024, 512, 256), 300, requests=256, together=256, longest=384, pairs=5
)


class Answer(NamedTuple):
    """One answer: its ids, and the seconds until its first token."""

    prompt: list[int]
    response: list[int]
    first: float
    finish: str


class Round(NamedTuple):
    """One round: its time, and its answers."""

    seconds: float
    answers: list[Answer]

    @property
    def tokens(self) -> int:
        """Generated tokens."""
        return sum(len(one.response) for one in self.answers)

    @property
    def first(self) -> float:
        """Median seconds until the first token."""
        return float(np.median([one.first for one in self.answers]))


def measure(quick: bool) -> list[dict]:
    """Time both servers under the same load."""
    python = ROOT / ".venv-vllm/bin/python"
    python = Path(sys.executable) if find_spec("vllm") else python
    if not python.exists():
        print("vLLM is neither here nor in .venv-vllm (make vllm): serving is not measured.", flush=True)
        return []
    case = QUICK if quick else ON_GPU if GPU else CPU
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        case.write(folder)
        flags = ["--max-model-len", 2 * case.longest, "--max-num-seqs", case.together, "--host", "127.0.0.1"]
        flags += ["--disable-uvicorn-access-log", "--dtype", "bfloat16" if GPU else "float32"]
        # the processor's build cannot read a seeded prompt in several steps
        flags += ["--max-num-batched-tokens", 8192]
        plain = ["vllm.entrypoints.launchers.api_server.entry", "--model", folder / "model", *flags]
        if not GPU:
            plain += ["--block-size", 32, "--kv-cache-memory-bytes", 2**30, "--enforce-eager"]
        ours = ["cocal", "serve", "--model", folder / "model", "--companion", folder / "companion", *flags]
        logs = folder / "plain.log", folder / "ours.log"
        servers = []
        for words, log in zip((plain, ours), logs, strict=True):  # the second one with the caches of the first
            servers.append(stack.enter_context(_server([python, "-m", *words], log)))
            _wait_for(*servers[-1], log)
        return _compared(case, servers, folder)


def _compared(case: Case, servers: Sequence[tuple[int, psutil.Process]], folder: Path) -> list[dict]:
    """The rows of the table."""
    draw = np.random.default_rng(0)
    prompts = [draw.integers(3, 256, draw.integers(8, case.longest // 2)).tolist() for _ in range(case.requests)]
    ended = _pairs(case, servers, prompts, "answers end")
    trajectory = _pairs(case, servers, prompts, "a confidence after every 16 tokens", ours={"confidence_every": 16})
    # nothing is scored, so that the sums' own cost is seen
    kept = _pairs(case, servers, prompts, "to the limit", {"ignore_eos": True})
    plain, ours = ended[0][0], ended[1][0]
    same = sum(a.response == b.response for a, b in zip(plain.answers, ours.answers, strict=True))
    scored = sum(one.finish == "stop" for one in ours.answers)
    second = _second_pass(plain.answers, folder)
    size = f"{case.requests} requests, {case.together} at a time, {ours.tokens / case.requests:.0f} tokens in the mean"
    name = f"serving with confidences on {'a GPU' if GPU else 'a processor'}"

    def compared(
        what: str, peer: str, rounds: tuple[list[Round], list[Round]], added: float = 0, note: str = ""
    ) -> dict:
        theirs, own = ([one.seconds / one.tokens for one in half] for half in rounds)
        extra = added / plain.tokens
        ratios = [(a + extra) / b for a, b in zip(theirs, own, strict=True)]
        spread = (
            f"median {np.median(ratios):.3f} of {len(ratios)} pairs in turns, {min(ratios):.3f} to {max(ratios):.3f}"
        )
        times = [float(np.median(values)) * ours.tokens for values in (own, np.array(theirs) + extra)]
        return row(name, what, times[0], peer, times[1], f"{spread}{note}", float(np.median(ratios)))

    firsts = [float(np.median([one.first for one in half])) for half in ended]
    told = f"; {scored} responses scored; {same} of {case.requests} answers are the same tokens"
    limit = "; nothing is scored, so this is what the sums cost"
    return [
        compared(size, "vLLM without confidences", ended, note=told),
        compared("the same, with confidences after every 16 tokens", "vLLM without confidences", trajectory),
        compared("the same requests up to the length limit", "vLLM without confidences", kept, note=limit),
        compared(size, "vLLM, then a pass of transformers", ended, second, f"; the pass: {second:.3g} s"),
        row(name, "first token", firsts[1], "vLLM without confidences", firsts[0], "median"),
    ]


def _pairs(
    case: Case,
    servers: Sequence[tuple[int, psutil.Process]],
    prompts: list[list[int]],
    what: str,
    both: Mapping = MappingProxyType({}),
    ours: Mapping = MappingProxyType({}),
) -> tuple[list[Round], list[Round]]:
    """The rounds of both servers, in turns, after one to warm up, with fields for requests to both and to ours."""
    found: tuple[list[Round], list[Round]] = ([], [])
    fields = {**both}, {**both, **ours}
    for number in range(1 + case.pairs):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append(_round(case, prompts, servers[which][0], fields[which]))
        plain, own = (half[-1].seconds / half[-1].tokens for half in found)
        print(f"{what}: pair {number}, {plain / own:.3f} of plain vLLM, load {os.getloadavg()[0]:.1f}", flush=True)
    return found[0][1:], found[1][1:]


def _second_pass(answers: Sequence[Answer], folder: Path) -> float:
    """Time of the scores by transformers, with the model loaded."""
    companion, policy = Companion.from_pretrained(folder / "companion"), load_policy(folder / "model", plain=True)
    whole = [one for one in answers if one.finish == "stop"]
    prompts, responses = [np.array(one.prompt) for one in whole], [np.array(one.response) for one in whole]
    work = partial(companion.score, policy.model, policy.tokenizer, prompts, responses)
    return min(timed(work, time.perf_counter) for _ in range(3))


def _round(case: Case, prompts: list[list[int]], port: int, fields: Mapping) -> Round:
    """One round of all requests."""
    began = time.perf_counter()
    with ThreadPoolExecutor(case.together) as pool:
        answers = list(pool.map(lambda k: _answer(case, prompts[k], k, port, fields), range(len(prompts))))
    return Round(time.perf_counter() - began, answers)


def _answer(case: Case, prompt: list[int], seed: int, port: int, fields: Mapping) -> Answer:
    body = {"prompt": prompt, "seed": seed, "max_tokens": case.longest, "temperature": 1, "stream": True}
    body |= {"return_token_ids": True, **fields}
    connection = HTTPConnection("127.0.0.1", port, timeout=START)
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    first, tokens, finish = None, [], ""
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            (choice,) = json.loads(line[6:])["choices"]
            first = time.perf_counter() - began if first is None else first
            tokens += choice["token_ids"] or []
            finish = choice["finish_reason"] or finish
    connection.close()
    return Answer(prompt, tokens, first, finish)


@contextmanager
def _server(words: Sequence, log: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A server that starts: its port and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    usual = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    usual |= {
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH")))),
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
    }
    usual |= {} if GPU else {"TORCH_COMPILE_DISABLE": "1"}
    with log.open("w") as output:
        share = ["--gpu-memory-utilization", "0.4"] if GPU else []  # two servers share a card
        command = [*map(str, words), *share, "--port", str(port)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **usual})
    try:
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(port: int, process: psutil.Process, log: Path) -> None:
    """Wait until a server answers.

    Raises:
        RuntimeError: if it has ended, or takes too long.
    """
    end = time.monotonic() + START
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < end:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-3000:]}")
