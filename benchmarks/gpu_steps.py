"""Steps of `benchmarks/gpu.py` that are neither tests nor comparisons: `python benchmarks/gpu_steps.py STEP`."""

import argparse
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from cocal.models.loading import load_policy
from cocal_study.backbones.pretraining import train_tokenizer
from cocal_study.config.engine import VllmSettings
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.config.study import configured_study
from cocal_study.generation.engines import Sampling, open_engine
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.policy.train import opening_vllm, set_precision, trl_arguments
from cocal_study.policy.trainer import RecordingGRPOTrainer
from cocal_study.policy.update import HostAdamW
from timing import gpu_clock, timed

STUDY = Path(__file__).resolve().parents[1] / "config/single-gpu.yaml"
GIB = 2**30
CARD = 23.5
"""GiB of a card of 24 GB that its driver leaves."""
_ROOMY = 40 * GIB
"""Memory of a card that holds weights, gradients and moments of 1.7 billion parameters in float32."""
SIZES = {
    "device": ((8192, 2**30), (256, 2**20)),
    "first": ((28, 1024, 3072, 151_936, 256, 128), (2, 64, 128, 512, 8, 16)),
    "grpo": ((28, 1024, 3072, 151_936, 512), (2, 64, 128, 512, 16)),
    "rollouts": ((28, 2048, 6144, 151_936, 2048), (2, 64, 128, 512, 16)),
    "decoding": ((30, 576, 1536, 49_152, 2048, 64), (2, 64, 128, 512, 16, 8)),
    "sampling": ((36, 4096, 12_288, 151_936, 1024, 192), None),
    "profile": ((28, 2048, 6144, 151_936, 4, 1024), (2, 64, 128, 512, 2, 32)),
    "own": ((28, 1024, 3072, 151_936, 4096, 400), (2, 64, 128, 512, 64, 12)),
}
"""Of each step, those on a GPU and the small ones: side of a product and bytes of a copy; blocks, width, feed-forward
width and vocabulary, and then number and tokens of responses, tokens of a rollout (twice), number and tokens of
responses (twice), rows and tokens a row of a micro-batch, or number of rollouts and their mean length."""


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


def first(layers: int, width: int, inner: int, vocabulary: int, together: int, tokens: int) -> None:
    """The engine of the studies, alone: how long it takes to start, and what it samples then."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        Qwen3ForCausalLM(_shape(layers, width, inner, vocabulary, tied=True)).to(torch.bfloat16).save_pretrained(folder)
        train_tokenizer([], 300, 4096).save_pretrained(folder)
        began = time.perf_counter()
        with open_engine(VllmSettings(kind="vllm", max_length=2048, memory_share=0.4), folder) as engine:
            print(f"{engine.label}: started in {time.perf_counter() - began:.0f} s", flush=True)
            sampling = Sampling(
                temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5, max_tokens=tokens, samples=1
            )
            prompts = [[3 + k % 200, 4, 5] for k in range(together)]
            for _ in range(2):
                began = time.perf_counter()
                groups = engine.generate(prompts, sampling, list(range(together)))
                seconds, number = time.perf_counter() - began, sum(len(one.token_ids) for (one,) in groups)
                print(f"{together} responses of {number} tokens in {seconds:.1f} s", flush=True)


def rollouts(layers: int, width: int, inner: int, vocabulary: int, tokens: int) -> None:
    """`grpo` in what memory a card of 24 GB has."""
    with _card():
        grpo(layers, width, inner, vocabulary, tokens)


def grpo(layers: int, width: int, inner: int, vocabulary: int, tokens: int) -> None:
    """Two steps of GRPO with random rewards at a high rate.

    Were the weights that vLLM samples with not those of the update, its log-probabilities would differ in the second
    step, and the training would stop.
    """
    gpu = torch.cuda.is_available()
    study = configured_study([STUDY], {})
    whole = torch.cuda.get_device_properties(0).total_memory if gpu else CARD * GIB
    share = study.policy.trl.vllm_memory_share * CARD * GIB / whole
    trl = {"vllm": gpu and find_spec("vllm") is not None, "vllm_memory_share": share}
    changes = {"steps": 2, "stages": (2,), "questions_per_step": 4, "learning_rate": 1e-3}
    changes |= {"max_response_length": {"grpo": tokens}, "trl": study.policy.trl.model_copy(update=trl)}
    settings = study.policy.model_copy(update=changes)
    draw = random.Random(0)
    with TemporaryDirectory() as folder, _peak() as peak:
        base = Path(folder) / "base"
        config = _shape(layers, width, inner, vocabulary, tied=True)
        Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(base)
        train_tokenizer([], 300, 8192).save_pretrained(base)
        policy = load_policy(base, training=True)
        with opening_vllm(settings.trl):
            trainer = RecordingGRPOTrainer(
                recorder=None,
                layers=range(layers),
                policy=settings,
                algorithm="grpo",
                stages={},
                dtype=torch.bfloat16,
                attributes={},
                model=policy.model,
                processing_class=policy.tokenizer,
                reward_funcs=[lambda completions, **_: [float(draw.random() < 0.5) for _ in completions]],
                args=trl_arguments(settings, "grpo", Path(folder)),
                train_dataset=Dataset.from_dict({"prompt": ["1 + 1"] * 8, "question_id": ["q"] * 8}),
            )
        set_precision(trainer.accelerator, settings.trl)
        trainer.train()
    difference = trainer.agreement.difference or "no vLLM"
    print(f"mean and largest difference of vLLM's log-probabilities in step 2: {difference}")
    if gpu:
        print(f"peak of PyTorch {torch.cuda.max_memory_allocated() / GIB:.1f} GiB, of the card {peak[0] / GIB:.1f} GiB")


def decoding(layers: int, width: int, inner: int, vocabulary: int, together: int, tokens: int) -> None:
    """A step of our own decoding at the shape of the card study's policy, for the rollouts of a step and for the
    evaluation, with the share of laying out and recording that so few steps have."""
    shape = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": inner, "vocab_size": vocabulary}
    heads = {"num_attention_heads": max(1, width // 64), "num_key_value_heads": max(1, width // 192)}
    with _device():
        model = LlamaForCausalLM(LlamaConfig(**shape, **heads)).to(torch.bfloat16).eval()
    sampling = Sampling(1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=tokens)
    for rows in (together * 3 // 32, together):
        engine = TransformersEngine(model, ends=[vocabulary], pad=0, batch_size=rows)
        prompts = [[3 + k % 200] * 60 for k in range(rows)]
        seconds = _seconds(partial(engine.generate, prompts, sampling, range(rows)))
        print(f"{rows} responses of {tokens} tokens: {seconds:.2f} s, {seconds / tokens * 1e3:.1f} ms a step")


def sampling(layers: int, width: int, inner: int, vocabulary: int, together: int, tokens: int) -> None:
    """Tokens per second of many responses at a time, with a seed each, without and with the penalty."""
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0")
    from vllm import LLM, SamplingParams, TokensPrompt

    with TemporaryDirectory() as folder:
        config = _shape(layers, width, inner, vocabulary, tied=False)
        config.architectures = ["Qwen3ForCausalLM"]
        config.save_pretrained(folder)
        llm = LLM(
            folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=4096,
            max_num_seqs=together,
            attention_backend="FLASH_ATTN",
        )
        draw, usual = random.Random(0), GenerationSettings()
        prompts = [[draw.randrange(vocabulary) for _ in range(150)] for _ in range(together)]
        chosen = {"temperature": usual.temperature, "top_k": usual.top_k, "top_p": usual.top_p}
        for words, more in (
            ("training: temperature alone", {}),
            ("evaluation: top-k, top-p and penalty", chosen | {"presence_penalty": usual.presence_penalty}),
        ):
            common = {"max_tokens": tokens, "ignore_eos": True, "logprobs": 0, "detokenize": False, **more}
            asked = [SamplingParams(seed=k, flat_logprobs=True, **common) for k in range(together)]
            llm.reset_prefix_cache()
            began = time.perf_counter()
            llm.generate([TokensPrompt(prompt_token_ids=ids) for ids in prompts], asked, use_tqdm=False)
            seconds = time.perf_counter() - began
            print(f"{words}: {together} responses of {tokens} tokens, {together * tokens / seconds:,.0f} tokens/s")


def update(layers: int, width: int, inner: int, vocabulary: int, rows: int, tokens: int) -> None:
    """One update of a policy: bfloat16 autocast over float32 weights, checkpointed activations, and AdamW. Its moments
    lie in the memory of the host where a card is small."""
    place = _device()
    config = _shape(layers, width, inner, vocabulary, tied=True)
    torch.manual_seed(0)
    with place:
        model = Qwen3ForCausalLM(config).train()
    model.gradient_checkpointing_enable()
    small = place.type == "cuda" and torch.cuda.get_device_properties(0).total_memory < _ROOMY
    rows, kind = (1, HostAdamW) if small else (rows, torch.optim.AdamW)  # as on the single-GPU study's small card
    optimiser = kind(model.parameters(), lr=1e-6, fused=True)
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
        gpu_clock()  # waits for its end
    key = "self_cuda_time_total" if place.type == "cuda" else "self_cpu_time_total"
    print(found.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=48))


def own(layers: int, width: int, inner: int, vocabulary: int, rollouts: int, tokens: int) -> None:
    """`cocal fit` and `cocal score` on rollouts of random ids at Qwen3-0.6B's shape, as processes of their own."""
    draw = random.Random(0)
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = _shape(layers, width, inner, vocabulary, tied=True)
        Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / "policy")
        tokenizer = train_tokenizer([], 300, 8192)
        tokenizer.save_pretrained(folder / "policy")
        with (folder / "rollouts.jsonl").open("w") as lines:
            for number in range(rollouts):
                length = draw.randint(tokens // 2, 3 * tokens // 2)
                response = [*draw.choices(range(3, 250), k=length), tokenizer.eos_token_id]
                row = {"prompt_ids": [3 + number // 8 % 200] * 9, "response_ids": response}
                print(json.dumps(row | {"correct": draw.random() < 0.6}), file=lines)
        for words in (
            ["fit", "--model", "policy", "--rollouts", "rollouts.jsonl", "--output", "companion"],
            ["score", "--companion", "companion", "--model", "policy", "rollouts.jsonl", "scored.jsonl"],
        ):
            run = partial(subprocess.run, [sys.executable, "-m", "cocal", *words], cwd=folder, check=True)
            print(f"cocal {words[0]}, {rollouts} rollouts of {tokens} tokens: {timed(run, time.perf_counter):.0f} s")


def _shape(layers: int, width: int, inner: int, vocabulary: int, tied: bool) -> Qwen3Config:
    small = width < 128
    return Qwen3Config(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        vocab_size=vocabulary,
        num_attention_heads=width // 64 if small else width // 128,
        num_key_value_heads=1 if small else 8,
        head_dim=64 if small else 128,
        tie_word_embeddings=tied,
    )


@contextmanager
def _card():
    """Another process holds what a GPU has beyond `CARD`."""
    if not torch.cuda.is_available():
        yield
        return
    taken = int(max(0, torch.cuda.mem_get_info()[0] - CARD * GIB))
    words = f"import sys, torch; t = torch.empty({taken}, dtype=torch.uint8, device='cuda'); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", words], **pipes) as process:
        process.stdout.readline()
        try:
            print(f"{torch.cuda.mem_get_info()[0] / GIB:.1f} GiB of the card are left", flush=True)
            yield
        finally:
            process.kill()


@contextmanager
def _peak():
    """A list of one number: the most bytes of the GPU that were taken in the block beyond those at its begin."""
    peak, over = [0], threading.Event()

    def watch() -> None:
        start = torch.cuda.mem_get_info()[0]
        while not over.wait(0.02):
            peak[0] = max(peak[0], start - torch.cuda.mem_get_info()[0])

    watching = threading.Thread(target=watch, daemon=True)
    if torch.cuda.is_available():
        watching.start()
    yield peak
    over.set()


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _seconds(work) -> float:
    """The best of three runs after one that warms up."""
    work()
    return min(timed(work, gpu_clock) for _ in range(3))


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=SIZES)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    steps = {
        "device": device,
        "first": first,
        "grpo": grpo,
        "rollouts": rollouts,
        "decoding": decoding,
        "sampling": sampling,
        "profile": update,
        "own": own,
    }
    steps[options.step](*SIZES[options.step][options.small])


if __name__ == "__main__":
    main()
