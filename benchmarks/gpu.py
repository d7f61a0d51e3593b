"""All that can be tried on one GPU, step after step, each under ten minutes, in one report to keep: `make gpu`, or

    python benchmarks/gpu.py [--only STEP ...] [--small] [--output docs/gpu.md]

A step that fails or takes too long is reported, and the next one begins. `--small` runs the same steps at tiny sizes,
also on a processor, to try the script itself.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cocal.store import write_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT = 600
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
    """

    title: str
    command: tuple[str, ...]
    small: tuple[str, ...] | None = None


def _measured(name: str) -> Step:
    words = (str(HERE / "run.py"), "--only", name)
    titles = {
        "companions": "Companions at the paper's size, beside the paper's figures",
        "extraction": "Extraction of states at Qwen3-8B's shape, with random weights",
        "serving": "vLLM's server with confidences, without them, and with a second pass",
    }
    return Step(titles[name], words, (*words, "--quick"))


def _tested(title: str, *words: str) -> Step:
    return Step(title, ("-m", "pytest", "-rs", *words))


def _own(title: str, name: str) -> Step:
    words = (str(HERE / "gpu_steps.py"), name)
    return Step(title, words, (*words, "--small"))


STEPS = {
    "device": _own("Device, driver and rates", "device"),
    "tests": _tested("Tests of what runs otherwise on a GPU", "tests/policy/test_gpu.py"),
    "companions": _measured("companions"),
    "extraction": _measured("extraction"),
    "serving": _measured("serving"),
    "training": _tested(
        "Training of the micro policy, with and without vLLM, killed and resumed", "tests/policy/test_gpu_training.py"
    ),
    "profile": _own("Profile of an update at Qwen3-1.7B's shape, with random weights", "profile"),
}
"""All steps in their order."""


def run(name: str, small: bool) -> str:
    """Run a step; returns its part of the report, in Markdown."""
    step = STEPS[name]
    words = step.small if small else step.command
    if words is None:
        return f"## {step.title}\n\nLeft out: it needs a GPU."
    began = time.monotonic()
    try:
        command = [sys.executable, *words]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
        output, verdict = done.stdout + done.stderr, "passed" if done.returncode == 0 else f"FAILED ({done.returncode})"
    except subprocess.TimeoutExpired as error:
        output, verdict = _text(error.stdout) + _text(error.stderr), f"STOPPED after {LIMIT} s"
    lines = output.strip().splitlines()[-KEPT:]
    spent = time.monotonic() - began
    return "\n".join([f"## {step.title}", "", f"{verdict}, {spent:.0f} s", "", "```text", *lines, "```"])


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print each part when it is done, and write the report."""
    parser = argparse.ArgumentParser(description="Try everything on one GPU, and write a report.")
    parser.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=f"some of {', '.join(STEPS)}")
    parser.add_argument("--small", action="store_true", help="tiny sizes, also on a processor")
    parser.add_argument("--output", type=Path, help="Markdown report to write")
    options = parser.parse_args(arguments)
    if not options.small and shutil.which("nvidia-smi") is None:
        print(
            "nvidia-smi is not here, so there is no GPU to try: run `make gpu` on a machine with one", file=sys.stderr
        )
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    vllm = "present" if find_spec("vllm") else "not in this environment"
    parts = ["# One GPU", f"Written by `make gpu`. vLLM is {vllm}."]
    for name in options.only or STEPS:
        parts.append(run(name, options.small))
        print(parts[-1], flush=True)
        if options.output:
            write_text(options.output, "\n\n".join(parts) + "\n")  # what is done is kept, whatever comes
    return 1 if any("\nFAILED" in part or "\nSTOPPED" in part for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
