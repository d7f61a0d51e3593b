"""Steps of `benchmarks/gpu.py` that are neither tests nor comparisons: `python benchmarks/gpu_steps.py STEP`."""

import argparse
import shutil
import subprocess
import time

import torch
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import Qwen3Config, Qwen3ForCausalLM

SIZES = {
    "device": ((8192, 2**30), (256, 2**20)),
    "profile": ((28, 2048, 6144, 151_936, 4, 1024), (2, 64, 128, 512, 2, 32)),
}
"""Of each step, those on a GPU and the small ones: side of a product and bytes of a copy; blocks, width, feed-forward
width, vocabulary, rows and tokens a row of a micro-batch."""


def device(side: int, size: int) -> None:
    """The properties of the GPU as the machine states them, and how fast it multiplies and copies."""
    if shutil.which("nvidia-smi"):
        query = "--query-gpu=name,driver_version,memory.total,compute_cap,power.limit"
        command = ["nvidia-smi", query, "--format=csv"]
        print(subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip())
    place = _device()
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, computes on {place}")
    for kind in ("bfloat16", "float32"):
        square = torch.randn(side, side, device=place, dtype=getattr(torch, kind))
        seconds = _seconds(lambda square=square: square @ square)
        print(f"product of {side} x {side} in {kind}: {2 * side**3 / seconds / 1e12:,.3g} Tflop/s")
    block = torch.empty(size, dtype=torch.uint8, device=place)
    print(f"copy on the device: {2 * size / _seconds(block.clone) / 1e9:,.4g} GB/s")
    host = torch.empty(size, dtype=torch.uint8, pin_memory=place.type == "cuda")
    print(f"copy from the host: {size / _seconds(lambda: block.copy_(host)) / 1e9:,.4g} GB/s")


def update(layers: int, width: int, inner: int, vocabulary: int, rows: int, tokens: int) -> None:
    """One update of a policy: bfloat16 autocast over float32 weights, checkpointed activations, AdamW."""
    place = _device()
    config = Qwen3Config(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        vocab_size=vocabulary,
        num_attention_heads=width // 64 if width < 128 else width // 128,
        num_key_value_heads=1 if width < 128 else 8,
        head_dim=64 if width < 128 else 128,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    with place:
        model = Qwen3ForCausalLM(config).train()
    model.gradient_checkpointing_enable()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    ids = torch.randint(vocabulary, (rows, tokens), device=place)

    def step() -> None:
        with record_function("forward"), torch.autocast(place.type, torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
            loss = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        with record_function("backward"):
            loss.backward()
        with record_function("update"):
            optimiser.step()
            optimiser.zero_grad()

    step()  # allocates the moments
    seconds = _seconds(step)
    print(f"{rows} rows of {tokens} tokens: {seconds:.3g} s, {rows * tokens / seconds:,.0f} tokens/s")
    if place.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if place.type == "cuda" else [])]
    with profile(activities=kinds) as found:
        step()
        _wait()
    key = "self_cuda_time_total" if place.type == "cuda" else "self_cpu_time_total"
    print(found.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=48))


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _seconds(work) -> float:
    """The best of three runs after one that warms up."""
    times = []
    for _ in range(4):
        _wait()
        began = time.perf_counter()
        work()
        _wait()
        times.append(time.perf_counter() - began)
    return min(times[1:])


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=SIZES)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    {"device": device, "profile": update}[options.step](*SIZES[options.step][options.small])


if __name__ == "__main__":
    main()
