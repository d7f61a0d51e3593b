"""Features pooled inside the forward pass, in batches of similar length, against `output_hidden_states=True`.

A Qwen3 decoder with random weights reads responses as long as the paper's. Each variant runs in a process of its own,
so that its peak memory can be measured. The share of the dense rate compares the speed of the products that the
responses need, without padding, with that of one large product of the same number type on the same machine. On a CPU,
all have one thread, and times are processor time, which does not depend on other work on the machine.
"""

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from cocal.features.forward import score
from cocal.models.attention import GROUPED
from cocal.models.text import batches_of_tokens
from timing import alone, gpu_clock, row, timed

_CHECKED = 4
"""Number of responses for which both variants must give the same states of the first block."""


@dataclass(frozen=True)
class Case:
    """A decoder, the responses that it reads, and its device."""

    benchmark: str
    name: str
    device: str
    responses: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    batch_tokens: int = 16384

    @property
    def dtype(self) -> torch.dtype:
        """The number type that `cocal.models.loading.load_policy` chooses."""
        return torch.bfloat16 if self.device == "cuda" else torch.float32

    def model(self) -> PreTrainedModel:
        """The decoder with random weights, made on the device."""
        config = Qwen3Config(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            head_dim=self.head_dim,
            intermediate_size=self.intermediate,
            vocab_size=self.vocabulary,
        )
        torch.manual_seed(0)
        attention = "sdpa" if self.device == "cuda" else GROUPED
        with torch.device(self.device):
            return AutoModelForCausalLM.from_config(config, dtype=self.dtype, attn_implementation=attention).eval()

    @property
    def clock(self) -> Callable[[], float]:
        """Processor time on a CPU."""
        return time.process_time if self.device == "cpu" else gpu_clock

    def texts(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Token ids of prompts and responses, with eight responses per prompt, as in a rollout."""
        prompt, response = lengths(self.responses)
        generator = np.random.default_rng(1)
        return tuple([generator.integers(self.vocabulary, size=n) for n in sizes] for sizes in (prompt, response))

    def operations(self) -> float:
        """Floating-point operations that the blocks need: two per weight and token, and causal attention."""
        width = self.heads * self.head_dim
        projections = 2 * self.hidden * width + 2 * self.hidden * self.key_value_heads * self.head_dim
        weights = self.layers * (projections + 3 * self.hidden * self.intermediate)
        tokens = sum(lengths(self.responses)).astype(float)
        return float((2 * weights * tokens + 2 * self.layers * width * tokens**2).sum())


SMALL = Case("extraction", "small Qwen3 in float32 on one thread", "cpu", 48, 128, 6, 4, 2, 32, 384, 1024)
LARGE = Case("extraction on GPU", "Qwen3-8B's shape in bfloat16", "cuda", 256, 4096, 36, 32, 8, 128, 12288, 151936)


def lengths(responses: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of prompts (100 to 300, shared by eight responses) and of responses (900 on average, at most 3,000)."""
    generator = np.random.default_rng(0)
    prompt = np.repeat(generator.integers(100, 301, -(-responses // 8)), 8)[:responses]
    response = np.clip(generator.lognormal(np.log(900) - 0.18, 0.6, responses), 50, 3000).astype(int)
    return prompt, response


def measure(quick: bool) -> list[dict]:
    """Time all layers and the final one alone, on the GPU where there is one, and on the CPU elsewhere."""
    case = LARGE if torch.cuda.is_available() else SMALL
    return _compared(case, 8 if quick else case.responses)


def _compared(case: Case, responses: int) -> list[dict]:
    case = Case(**{**vars(case), "responses": responses})
    naive = alone(_naive, case)
    rate = alone(_dense_rate, case)
    rows = []
    for name, layers in (("all layers", range(case.layers)), ("final layer", [case.layers - 1])):
        ours = alone(_pooled, case, layers)
        if 0 in layers:
            apart = np.linalg.norm(ours["states"] - naive["states"]) / np.linalg.norm(naive["states"])
            assert apart < 0.02, f"the states differ by {apart:.1%} of their norm"
        tokens = sum(map(sum, lengths(responses)))
        share = case.operations() / ours["seconds"] / rate
        note = (
            f"{tokens / ours['seconds']:,.0f} tokens/s, {share:.0%} of the dense rate of {_flops(rate)}; memory beyond "
            f"the weights {_memory(ours['peak'])}, peer's {_memory(naive['peak'])}; {_padding(case.batch_tokens)}"
        )
        what = f"{case.name}, {name}: {responses} responses, {tokens:,} tokens"
        peer = "output_hidden_states=True, responses as they come"
        rows.append(row(case.benchmark, what, ours["seconds"], peer, naive["seconds"], note))
    return rows


def _pooled(case: Case, layers: range | list[int]) -> dict:
    prompts, responses = case.texts()
    model = case.model()

    def extract(count: int) -> np.ndarray:
        sizes = [len(p) + len(r) for p, r in zip(prompts[:count], responses[:count], strict=True)]
        batches = batches_of_tokens(sizes, case.batch_tokens)
        found = score(model, prompts[:count], responses[:count], batches, layers=layers, pad=0)
        return found.features[:_CHECKED, 0]

    return _measured(case, extract)


@torch.no_grad()
def _naive(case: Case) -> dict:
    """Time the simplest code, whose states of the last layer are those after the final norm."""
    prompts, responses = case.texts()
    model = case.model()

    def extract(count: int) -> np.ndarray:
        found = np.empty((count, case.layers, 2, case.hidden), dtype=np.float32)
        for rows in _as_they_come([len(p) + len(r) for p, r in zip(prompts, responses, strict=True)][:count], case):
            texts = [torch.from_numpy(np.concatenate([prompts[i], responses[i]])) for i in rows]
            ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(case.device)
            sizes = torch.tensor([len(text) for text in texts], device=case.device)
            mask = torch.arange(ids.shape[1], device=case.device) < sizes[:, None]
            output = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
            states = torch.stack(output.hidden_states[1:], dim=1)
            for k, i in enumerate(rows):
                answer = states[k, :, len(prompts[i]) : len(texts[k])]
                found[i, :, 0] = answer[:, -1].float().cpu()
                found[i, :, 1] = answer.float().mean(dim=1).cpu()
        return found[:_CHECKED, 0]

    return _measured(case, extract)


def _as_they_come(sizes: list[int], case: Case) -> Iterator[range]:
    """Batches of neighbouring responses, each with at most `batch_tokens` padded tokens."""
    start = 0
    for stop in range(1, len(sizes) + 1):
        if stop == len(sizes) or (stop + 1 - start) * max(sizes[start : stop + 1]) > case.batch_tokens:
            yield range(start, stop)
            start = stop


def _measured(case: Case, extract: Callable[[int], np.ndarray]) -> dict:
    extract(_CHECKED)
    if case.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = psutil.Process().memory_info().rss
    started = case.clock()
    states = extract(case.responses)
    seconds = case.clock() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if case.device == "cuda":
        most = torch.cuda.max_memory_allocated()
    return {"seconds": seconds, "peak": most - before, "states": states}


def _dense_rate(case: Case) -> float:
    """Operations per second of the widest product of a block over one batch, the best of ten runs."""
    left = torch.randn(case.batch_tokens, case.hidden, dtype=case.dtype, device=case.device)
    right = torch.randn(case.hidden, case.intermediate, dtype=case.dtype, device=case.device)
    seconds = min(timed(lambda: left @ right, case.clock) for _ in range(10))
    return 2 * left.numel() * case.intermediate / seconds


def _padding(batch_tokens: int) -> str:
    """Share of padding among 2,048 responses, if sorted in one block as by `cocal features`, and as they come."""
    sizes = sum(lengths(2048)).tolist()
    shares = []
    for batches in (batches_of_tokens(sizes, batch_tokens), _as_they_come(sizes, SMALL)):
        padded = sum(len(batch) * max(sizes[i] for i in batch) for batch in batches)
        shares.append(1 - sum(sizes) / padded)
    return "padding of 2,048 responses {:.1%}, peer's {:.1%}".format(*shares)


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.0f} TFLOP/s" if rate > 1e13 else f"{rate / 1e9:.0f} GFLOP/s"


def _memory(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
