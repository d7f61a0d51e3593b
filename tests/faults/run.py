"""The campaign of faults: damaged files and hostile inputs, each met by a real command.

    python tests/faults/run.py --output docs/faults.md [--study FOLDER OF A FINISHED SMOKE STUDY] [--only WORD]

A case is harmless if the command refuses the fault in one message, gives the same bytes as without it, or reads a value
that a user may have meant, and if nothing but its output has changed in the world. The campaign takes an hour and is no
part of `make test`. Every case runs in a fork of this process, which has loaded the libraries once.
"""

import argparse
import hashlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import cases
from world import ROOT, Command, make_own, make_study

LIMIT = 90.0
"""Seconds that a case may take."""
MEMORY = 8 * 2**30
"""Bytes of address space that a case may take beyond those of this process."""
HARMLESS = "refused", "same bytes", "read"


def main() -> None:
    """Makes the world, runs every case, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="Markdown file of the table")
    parser.add_argument("--study", type=Path, help="folder of a finished smoke study (default: it is made)")
    parser.add_argument("--only", default="", help="run only the cases whose kind or name holds this word")
    options = parser.parse_args()
    options.output = options.output.absolute()
    from cocal.runtime import numerics

    os.environ.update(numerics.environment("portable"))
    with tempfile.TemporaryDirectory() as scratch:
        own, study = Path(scratch) / "own", Path(scratch) / "study"
        commands = make_own(own)
        jobs = make_study(study, options.study)
        chosen = [(own, case) for case in cases.damaged(own, commands)]
        for hostile in (cases.hostile_lines, cases.hostile_files, cases.outputs, cases.hostile_flags):
            chosen += [(own, case) for case in hostile(commands)]
        chosen += [(study, case) for case in cases.damaged(study, jobs)]
        chosen = [(world, case) for world, case in chosen if options.only in f"{case.kind} {case.name}"]
        bad = _campaign(chosen, options.output)
    sys.exit(f"{bad} cases are not harmless" if bad else 0)


def _campaign(chosen: list[tuple[Path, cases.Case]], output: Path) -> int:
    found: dict[str, Counter] = defaultdict(Counter)
    bad, worlds, began = [], {}, time.monotonic()
    for place, (folder, case) in enumerate(chosen):
        world = worlds.get(folder) or worlds.setdefault(folder, World(folder))
        outcome, said = world.meet(case)
        found[case.kind][outcome] += 1
        if outcome not in HARMLESS:
            bad.append(
                f"{outcome}: {case.kind}: {case.name}\n    {' '.join(case.command.words)[:200]}\n    {said[-700:]}"
            )
            print(bad[-1], flush=True)
        print(f"{place + 1}/{len(chosen)} {time.monotonic() - began:.0f} s {outcome}: {case.kind}: {case.name} | "
              f"{said.strip().splitlines()[-1][:160] if said.strip() else ''}", flush=True)  # fmt: skip
    heads = [*HARMLESS, *sorted({outcome for counts in found.values() for outcome in counts} - {*HARMLESS})]
    rows = [f"| {kind} | {' | '.join(str(counts[head]) for head in heads)} |" for kind, counts in sorted(found.items())]
    total = Counter(outcome for counts in found.values() for outcome in counts.elements())
    rows.append(f"| all | {' | '.join(str(total[head]) for head in heads)} |")
    table = "\n".join([f"| fault | {' | '.join(heads)} |", f"|---{'|---:' * len(heads)}|", *rows])
    old = output.read_text() if output.exists() else "<!-- faults -->\n<!-- end of faults -->\n"
    pattern = r"(<!-- faults -->\n).*(<!-- end of faults -->)"
    output.write_text(re.sub(pattern, lambda m: f"{m[1]}{table}\n{m[2]}", old, flags=re.DOTALL))
    print(table)
    return len(bad)


class World:
    """A folder that every case finds as it was made."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._whole = folder.with_name(f"{folder.name}-whole")
        shutil.copytree(folder, self._whole, symlinks=True)
        self._states = _states(folder)
        self._right: dict[Command, str] = {}

    def meet(self, case: cases.Case) -> tuple[str, str]:
        """Outcome of a case, and what its command has printed."""
        command = case.command
        if command.writes and command not in self._right:
            status, said, _ = self._run(command)
            assert status == 0, (command, said)
            self._right[command] = self._result(command)
            self._restore()
        case.prepare(self._folder)
        before = _states(self._folder)
        status, said, seconds = self._run(command)
        outcome = self._judged(case, status, said, before)
        self._restore()
        return (outcome, said) if seconds < LIMIT else ("hangs", said)

    def _judged(self, case: cases.Case, status: int, said: str, before: dict) -> str:
        after = _states(self._folder)
        written = [self._folder / path for path in (*case.command.writes, "logs")]
        ours = tuple(str(path.with_suffix("")) for path in written)  # a table lies beside its page and its numbers
        hidden = tuple(f"{path.parent}/.{path.name}" for path in written)
        lost = [path for path in before if after.get(path) != before[path] and not path.startswith((*ours, *hidden))]
        left = [path for path in after if path not in before and not path.startswith(ours)]
        harms = {
            "runs code": (self._folder / "EXECUTED").exists(),
            "loses a file": lost,
            "traceback": "Traceback" in said,
            f"status {status}": status not in (0, 2) or (status == 2 and "error:" not in said),
            "leaves files": status == 2 and left,
        }
        if harm := next((name for name, found in harms.items() if found), None):
            return harm
        return "refused" if status else self._accepted(case)

    def _accepted(self, case: cases.Case) -> str:
        if case.kind == "output":
            return "writes there"
        if self._result(case.command) == self._right.get(case.command):
            return "same bytes"
        return "read" if case.given or case.kind.startswith(("hostile", "flag")) else "another result"

    def _run(self, command: Command) -> tuple[int, str, float]:
        """Status, output and seconds of a command in the folder; negative status of a signal."""
        log, began = self._folder.with_name("log"), time.monotonic()
        process = multiprocessing.get_context("fork").Process(target=_child, args=(self._folder, command.words, log))
        process.start()
        process.join(LIMIT)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        return process.exitcode, log.read_text(errors="replace"), time.monotonic() - began

    def _result(self, command: Command) -> str:
        """Digest of all that a command has written."""
        found = hashlib.sha256()
        for given in command.writes:
            place = self._folder / given
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if path.is_file():
                    found.update(str(path.relative_to(self._folder)).encode() + path.read_bytes())
        return found.hexdigest()

    def _restore(self) -> None:
        """Put back every file that has changed, and delete what is new."""
        now = _states(self._folder)
        for path in sorted(now.keys() - self._states.keys(), reverse=True):
            _delete(Path(path))
        for path in sorted(self._states):
            if now.get(path) != self._states[path]:
                source, target = self._whole / Path(path).relative_to(self._folder), Path(path)
                _delete(target)
                if self._states[path][0] == "folder":
                    shutil.copytree(source, target, symlinks=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target, follow_symlinks=False)
        self._states = _states(self._folder)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _states(folder: Path) -> dict[str, tuple]:
    """Kind, size and date of every file, kind alone of every folder."""
    found = {}
    for root, folders, files in os.walk(folder):
        found |= {os.path.join(root, name): ("folder", None) for name in folders}  # noqa: PTH118 - light
        for name in files:
            path = os.path.join(root, name)  # noqa: PTH118
            state = os.lstat(path)
            found[path] = ("file", state.st_size, state.st_mtime_ns, state.st_mode)
    return found


def _child(folder: Path, words: tuple[str, ...], log: Path) -> None:
    import resource
    import traceback

    os.setsid()
    os.chdir(folder)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(stream, number)
    answers, question = os.pipe()
    os.write(question, b"y\n" * 50)
    os.close(question)
    os.dup2(answers, 0)
    sys.stdin = os.fdopen(0)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    from cocal.cli import main as command

    status = 1
    try:
        status = command(list(words))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
