"""Every benchmark of this folder in one run: `make bench`, or

    python benchmarks/run.py [--quick] [--only NAME ...] [--output docs/benchmarks.md]

A benchmark is a module with `measure(quick: bool) -> list[dict]`, which returns one row (`timing.row`) per case:

- benchmark: what is measured; rows whose name contains "GPU" come last;
- case: sizes;
- seconds: time of our code;
- peer, peer_seconds: the code that it is compared with in the same run, and its time; None without a peer;
- ratio: peer_seconds / seconds, above 1 where ours is faster; None without a peer;
- note: other measurements, such as memory.

The modules run one after another, each in a process of its own so that none sees another's memory, and with one
compute thread unless OMP_NUM_THREADS says otherwise, as the workflow's jobs do.
"""

import argparse
import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cocal.runtime.numerics import processor
from cocal.store import write_text
from timing import alone

HERE = Path(__file__).resolve().parent


def found(folder: Path) -> list[str]:
    """Names of the benchmark modules in `folder`."""
    return [file.stem for file in sorted(folder.glob("*.py")) if "\ndef measure(" in file.read_text(encoding="utf-8")]


def _measure(folder: str, name: str, quick: bool) -> list[dict]:
    sys.path.insert(0, folder)
    return importlib.import_module(name).measure(quick)


def table(rows: Sequence[dict]) -> str:
    """Markdown table of the rows of one benchmark."""
    lines = ["| case | time | peer | its time | ratio | |", "|---|--:|---|--:|--:|---|"]
    for row in rows:
        times = _time(row["seconds"]), row["peer"] or "", _time(row["peer_seconds"])
        lines.append("| " + " | ".join((row["case"], *times, _ratio(row["ratio"]), row["note"])) + " |")
    return "\n".join(lines)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size, least in (("h", 3600, 7200), ("min", 60, 120), ("s", 1, 1), ("ms", 1e-3, 1e-3)):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"**{ratio:,.0f}x**" if ratio >= 100 else f"**{ratio:.2g}x**"


def document(rows: Sequence[dict], machine: dict[str, str]) -> str:
    """The summary: the machine, then one table per benchmark, with those on a GPU last."""
    about = "Written by `make bench`. The ratio says how many times faster ours is than its peer in the same run."
    parts = ["# Benchmarks", about]
    parts.append("\n".join(f"* {name}: {value}" for name, value in machine.items()))
    names = sorted(dict.fromkeys(row["benchmark"] for row in rows), key=lambda name: "GPU" in name)
    for name in names:
        parts += [f"## {name[0].upper()}{name[1:]}", table([row for row in rows if row["benchmark"] == name])]
    if not any("GPU" in name for name in names):
        parts.append("GPU: not measured on this machine.")
    return "\n\n".join(parts) + "\n"


def described() -> dict[str, str]:
    """Description of the machine and of the versions."""
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "none"
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        gpu = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    busy = os.getloadavg()[0]
    return {
        "Processor": f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "GPU": gpu,
        "Versions": f"Python {platform.python_version()}, torch {torch.__version__}",
        "Threads": f"{os.environ['OMP_NUM_THREADS']} per process",
        "Load average before the run": f"{busy:.1f}",
        "Commit": _commit(),
    }


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (", with changes" if changed else "")


def main(arguments: Sequence[str] | None = None, folder: Path = HERE) -> int:
    """Run the benchmarks, print each one's table, and write the summary in the end."""
    parser = argparse.ArgumentParser(description="Run the benchmarks, one after another.")
    parser.add_argument("--quick", action="store_true", help="use small sizes, to test that everything runs")
    parser.add_argument("--only", nargs="+", choices=found(folder), metavar="NAME", help="only these modules")
    parser.add_argument("--output", type=Path, help="Markdown summary to write")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    machine = described()
    rows = []
    for name in options.only or found(folder):
        try:
            new = alone(_measure, str(folder), name, options.quick)
        except Exception as error:
            print(f"benchmark {name} failed: {type(error).__name__}: {error}", file=sys.stderr)
            if error.__cause__ is not None:
                print(error.__cause__, file=sys.stderr)  # the traceback from the module's process
            return 1
        print(f"\n{name}\n{table(new)}", flush=True)
        rows += new
    if options.output:
        write_text(options.output, document(rows, machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
