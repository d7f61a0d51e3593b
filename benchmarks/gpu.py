"""All that can be tried on one GPU, step after step, in one report to keep: `make gpu`, or

    python benchmarks/gpu.py [--only STEP ...] [--minutes 10] [--small] [--output docs/gpu.md]

The steps that teach most come first. Among those with vLLM, the first one starts an engine alone and fills the caches
(`VLLM_CACHE_ROOT`, Triton's), since several that start with empty ones starve one another; up to "extraction" all take
some ten minutes. A step that fails or takes too long is reported, and the next one begins. Each part of the report is
kept as soon as its step ends, in the place of that of an earlier run, so that a card that is lent for minutes is tried
step by step.
All that a step prints goes to `logs/gpu/STEP.txt` while it runs. `--small` runs the same steps at tiny sizes, also on a
processor, to try the script itself.
"""

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from cocal.runtime.gpus import SECOND_RUNNER
from cocal.store import write_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT = 240
"""Seconds that a step may take."""
KEPT = 60
"""Number of the last lines of a step's output that the report keeps."""


@dataclass(frozen=True)
class Step:
    """One step of the report.

    Attributes:
        title: Its purpose in a few words.
        command: Words after the Python interpreter.
        small: Words that take their place with `--small`; None where a step needs a GPU in any case.
        environment: Variables that it is given beside those of this process.
        vllm: Whether it needs vLLM.
    """

    title: str
    command: tuple[str, ...]
    small: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    vllm: bool = False


def _measured(title: str, name: str, vllm: bool = False) -> Step:
    words = (str(HERE / "run.py"), "--only", name)
    return Step(title, words, (*words, "--quick"), vllm=vllm)


def _tested(title: str, *words: str, vllm: bool = False, **environment: str) -> Step:
    return Step(title, ("-m", "pytest", "-rs", *words), None, environment, vllm or "vllm" in words)


_VLLM = [f"tests/study/generation/{name}.py" for name in ("test_vllm_engine", "test_judge_commands")]
_VLLM += ["tests/study/generation/test_latency.py"]
_ENGINES = ("-m", "vllm", "tests/study/generation/test_engines.py")
_TRAINING = ("tests/study/policy/test_gpu_training.py", "-k")
_ON_GPU = ("tests/study/policy/test_gpu.py", "tests/study/generation/test_decoding.py")
_LIBRARY = [f"tests/cocal/{room}" for room in ("features", "companion", "models", "rollouts", "fitting", "confidence")]


_STEP = (str(HERE / "gpu_steps.py"),)


def _own(title: str, name: str, vllm: bool = False) -> Step:
    words = (*_STEP, name)
    return Step(title, words, (*words, "--small"), vllm=vllm)


STEPS = {
    "device": _own("Device, driver and rates", "device"),
    "first": _own("One engine of vLLM alone, which samples at Qwen3-0.6B's shape", "first", vllm=True),
    "engine": _tested("Tests of vLLM", *_ENGINES),
    "serving": _measured("vLLM's server with confidences, without them, and with a second pass", "serving", vllm=True),
    "grpo": _own("Two steps of GRPO at Qwen3-0.6B's shape, with vLLM in the same process", "grpo"),
    # every job of ours chooses the first runner, unless this variable says otherwise
    "second-runner": _tested("Tests of vLLM with its second model runner", *_ENGINES, **{SECOND_RUNNER: "1"}),
    "extraction": _measured("Extraction of states at Qwen3-8B's shape, with random weights", "extraction"),
    "companions": _measured("Companions at the paper's size, beside the paper's figures", "companions"),
    "decoding": _own("Decoding by our own engine at the shape of the card study's policy", "decoding"),
    "tests": _tested("Tests of what runs otherwise on a GPU", *_ON_GPU),
    "training": _tested("Training, killed and resumed, with vLLM where it is", *_TRAINING, "not FSDP2"),
    "sharded": _tested("Training with vLLM and sharded weights, killed and resumed", *_TRAINING, "FSDP2", vllm=True),
    "rollouts": _own("Two steps of GRPO at Qwen3-1.7B's shape in 23.5 GiB", "rollouts"),
    "own": _own("A companion for one's own policy at Qwen3-0.6B's shape, by the two commands", "own"),
    "library": _tested("The library's tests on a machine with a GPU", "-m", "not slow", "-n", "4", *_LIBRARY),
    "commands": _tested("Tests of commands with vLLM", "-m", "vllm", *_VLLM),
    "sampling": Step("Tokens that vLLM samples at Qwen3-8B's shape", (*_STEP, "sampling"), vllm=True),
    "profile": _own("Profile of an update at Qwen3-1.7B's shape, with random weights", "profile"),
}
"""All steps; those that teach most come first."""


def run(name: str, small: bool, limit: float) -> str:
    """Run a step for at most so many seconds; returns its part of the report, in Markdown."""
    step = STEPS[name]
    words = step.small if small else step.command
    if words is None:
        return f"## {step.title}\n\nLeft out: it needs a GPU."
    if step.vllm and find_spec("vllm") is None:
        return f"## {step.title}\n\nNot run: vLLM is not in this environment."
    log = ROOT / f"logs/gpu/{name}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        command = [sys.executable, *words]
        streams = {"stdout": output, "stderr": output, "start_new_session": True}
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **step.environment}, **streams)
        try:
            code = process.wait(limit)
            verdict = "passed" if code == 0 else f"FAILED ({code})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # all that it has started, too
            process.wait()
            verdict = f"STOPPED after {limit:.0f} s"
    lines = log.read_text(errors="replace").strip().splitlines()[-KEPT:]
    spent = time.monotonic() - began
    return "\n".join([f"## {step.title}", "", f"{verdict}, {spent:.0f} s", "", "```text", *lines, "```"])


def with_part(report: str, part: str) -> str:
    """A report with a part in the place of an earlier one of the same step; parts are in the order of the steps."""
    parts = [*re.split(r"\n+(?=## )", report.strip())[1:], part]
    newest = {text.splitlines()[0].removeprefix("## "): text for text in parts}
    vllm = "present" if find_spec("vllm") else "not in this environment"
    begin = f"# One GPU\n\nWritten by `make gpu`. vLLM is {vllm}."
    return "\n\n".join([begin, *(newest[step.title] for step in STEPS.values() if step.title in newest)]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print each part when it is done, and write the report."""
    parser = argparse.ArgumentParser(description="Try everything on one GPU, and write a report.")
    parser.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=f"some of {', '.join(STEPS)}")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop after so many, and leave out what is left"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, also on a processor")
    parser.add_argument("--output", type=Path, help="Markdown report to write")
    options = parser.parse_args(arguments)
    if not options.small and shutil.which("nvidia-smi") is None:
        print(
            "nvidia-smi is not here, so there is no GPU to try: run `make gpu` on a machine with one", file=sys.stderr
        )
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["COCAL_CUDA_GRAPHS"] = "1"  # recordings are tried here first
    parts, end = [], time.monotonic() + 60 * options.minutes
    for name in options.only or STEPS:
        if (left := end - time.monotonic()) < 1:
            print(f"No time is left for {name} and what follows.", file=sys.stderr)
            break
        parts.append(run(name, options.small, min(LIMIT, left)))
        print(parts[-1], flush=True)
        if options.output:
            earlier = options.output.read_text() if options.output.exists() else ""
            write_text(options.output, with_part(earlier, parts[-1]))
    return 1 if any("\nFAILED" in part or "\nSTOPPED" in part for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
