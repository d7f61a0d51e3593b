"""The campaign of faults: damaged files and hostile inputs, each met by a real command.

    python tests/faults/run.py --output docs/faults.md [--study FOLDER OF A FINISHED SMOKE STUDY] [--only WORD]

A case is harmless if the command refuses the fault in one message, gives the same bytes as without it, or reads a value
that a user may have meant, and if nothing but its output has changed in the world. The campaign takes hours and is no
part of `make test`. Every case has a copy of its world and a process of its own.
"""

import argparse
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import cases
from world import ROOT, Command, make_own, make_study

LIMIT = 90.0
"""Seconds that a case may take."""
MEMORY = 24 * 2**30
"""Bytes of address space that a case may take; the libraries alone reserve several gigabytes."""
HARMLESS = "refused", "same bytes", "read"


def main() -> None:
    """Makes the worlds, runs every case, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="Markdown file of the table")
    parser.add_argument("--study", type=Path, help="folder of a finished smoke study (default: it is made)")
    parser.add_argument("--only", default="", help="run only the cases whose kind or name holds this word")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        own, study = Path(scratch) / "own", Path(scratch) / "study"
        commands = make_own(own)
        jobs = make_study(study, options.study)
        chosen = [(own, case) for case in cases.damaged(own, commands)]
        for hostile in (cases.hostile_lines, cases.hostile_files, cases.outputs, cases.hostile_flags):
            chosen += [(own, case) for case in hostile(commands)]
        chosen += [(study, case) for case in cases.damaged(study, jobs)]
        chosen = [(world, case) for world, case in chosen if options.only in f"{case.kind} {case.name}"]
        found: dict[str, Counter] = defaultdict(Counter)
        for place, (world, case) in enumerate(chosen):
            outcome, said = _met(world, case)
            found[case.kind][outcome] += 1
            shown = said[-700:] if outcome not in HARMLESS else said.strip().rpartition("\n")[2][:160]
            print(f"{place + 1}/{len(chosen)} {outcome}: {case.kind}: {case.name} | {shown}", flush=True)
    _write_table(options.output, found)
    sys.exit(any(counts.keys() - {*HARMLESS} for counts in found.values()))


def _write_table(output: Path, found: dict[str, Counter]) -> None:
    """Puts the counts of each kind's outcomes between the two marks of the page."""
    total = Counter(outcome for counts in found.values() for outcome in counts.elements())
    heads = [*HARMLESS, *sorted(total.keys() - {*HARMLESS})]
    rows = [*sorted(found.items()), ("all", total)]
    lines = [f"| {kind} | {' | '.join(str(counts[head]) for head in heads)} |" for kind, counts in rows]
    table = "\n".join([f"| fault | {' | '.join(heads)} |", f"|---{'|---:' * len(heads)}|", *lines])
    pattern = r"(<!-- faults -->\n).*(<!-- end of faults -->)"
    output.write_text(re.sub(pattern, lambda m: f"{m[1]}{table}\n{m[2]}", output.read_text(), flags=re.DOTALL))


def _met(world: Path, case: cases.Case) -> tuple[str, str]:
    """Outcome of a case, and what its command has printed."""
    with tempfile.TemporaryDirectory(dir=world.parent) as scratch:
        folder = Path(shutil.copytree(world, Path(scratch) / "world", symlinks=True))
        case.prepare(folder)
        before = _states(folder)
        try:
            done = _run(folder, case.command)
        except subprocess.TimeoutExpired:
            return "hangs", ""
        said, after = done.stdout, _states(folder)
        written = [folder / path for path in (*case.command.writes, "logs")]
        ours = tuple(str(path.with_suffix("")) for path in written)  # a table lies beside its page and its numbers
        hidden = tuple(f"{path.parent}/.{path.name}" for path in written)
        lost = [path for path in before if after.get(path) != before[path] and not path.startswith((*ours, *hidden))]
        left = [path for path in after if path not in before and not path.startswith(ours)]
        harms = {
            "runs code": (folder / "EXECUTED").exists(),
            "loses a file": lost,
            "traceback": "Traceback" in said,
            f"status {done.returncode}": done.returncode not in (0, 2) or (done.returncode and "error:" not in said),
            "leaves files": done.returncode and left,
        }
        if harm := next((name for name, found in harms.items() if found), None):
            return harm, said
        if done.returncode:
            return "refused", said
        if case.kind == "output":
            return "writes there", said
        if case.command.writes and _result(folder, case.command) == _right(world, case.command):
            return "same bytes", said
        return ("read" if case.given or case.kind.startswith(("hostile", "flag")) else "another result"), said


@cache
def _right(world: Path, command: Command) -> str:
    """The digest of a command's results without a fault."""
    with tempfile.TemporaryDirectory(dir=world.parent) as scratch:
        folder = Path(shutil.copytree(world, Path(scratch) / "world", symlinks=True))
        done = _run(folder, command)
        assert done.returncode == 0, (command, done.stdout)
        return _result(folder, command)


def _run(folder: Path, command: Command) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["cocal", *command.words],
        check=False,
        cwd=folder,
        text=True,
        errors="replace",
        input="y\n" * 50,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def _result(folder: Path, command: Command) -> str:
    """Digest of all that a command has written."""
    found = hashlib.sha256()
    for place in (folder / given for given in command.writes):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


def _states(folder: Path) -> dict[str, tuple]:
    """Size and date of every file, and the names of folders."""
    found = {}
    for root, folders, files in os.walk(folder):
        found |= {f"{root}/{name}": () for name in folders}
        for path in (Path(root, name) for name in files):
            state = path.lstat()
            found[str(path)] = (state.st_size, state.st_mtime_ns, state.st_mode)
    return found


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
