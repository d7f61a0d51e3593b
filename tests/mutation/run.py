"""Plants each mutant in a clean copy of the repository and reports those that the tests meant for them do not notice.

The copies hold the files that git tracks, as they lie in the working tree. Every set of tests first runs without any
mutant and must pass. A run goes on where an earlier one stopped: `results.csv` keeps the outcome of each mutant until
the mutant, the file that it changes or one of its test files changes.
"""

import argparse
import csv
import hashlib
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from mutants import ROOT, Mutant, all_mutants

RESULTS = Path(__file__).parent / "results.csv"
COLUMNS = ("room", "name", "outcome", "noticed_by", "digest")
SLOW_IMPORTS = (
    *("pytest", "hypothesis", "numpy", "pandas", "pandera.pandas", "xarray", "zarr", "sympy", "math_verify"),
    *("sklearn.metrics", "matplotlib.pyplot", "torch", "transformers", "datasets", "trl.trainer.grpo_trainer"),
)
SHORTEST_LIMIT = 60.0
"""Seconds that any run of tests may take, and longer if without mutants all tests together take longer."""

WITHOUT_PART_IN_THE_MICRO_POLICY = ("policy", "generation", "features", "companion", "estimators", "metrics", "serving")
"""Rooms whose code does not make the micro policy. Their mutants get the one that was made without a mutant."""


class Copy:
    """A clean copy of the repository, in which one set of tests runs at a time.

    The process that runs the tests is forked from this one, which has imported the slow libraries but nothing of the
    repository.
    """

    def __init__(self, folder: Path):
        self._root = folder / "repository"
        self._output = folder / "output"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).exists() or (ROOT / name).is_symlink():
                (self._root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._root / name, follow_symlinks=False)
        self._child = 0
        self._lent = folder / "base"  # the micro policy, once a run without a mutant has made it

    def start(self, tests: tuple[str, ...], limit: float, file: str = "", wrong: str = "") -> None:
        """Start the tests, with another text in one of the files."""
        self._changed = file
        if file:
            self._write(wrong)
        self._began, self._limit = time.monotonic(), limit
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            os._exit(self._run(tests))

    def _run(self, tests: tuple[str, ...]) -> int:
        """Run the tests in the forked process and return pytest's exit status."""
        os.setsid()
        output = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self._root)
        os.environ["PYTHONPATH"] = str(self._root / "src")
        sys.path[:] = [str(self._root / "src"), *(p for p in sys.path if Path(p) != Path(__file__).parent)]
        del sys.modules["__main__"].__file__  # or processes that the tests start would import this module
        import pytest

        scratch = self._root.parent / "scratch"
        if self._lent.exists() and {*Path(self._changed).parts[2:3]} & {*WITHOUT_PART_IN_THE_MICRO_POLICY}:
            os.environ["COCAL_MICRO_POLICY"] = str(self._lent)
        return int(pytest.main(["-x", "-q", "-rfE", "-p", "no:cacheprovider", f"--basetemp={scratch}", *tests]))

    def finished(self) -> tuple[str, str, float] | None:
        """Outcome, what noticed it, and seconds, as soon as the tests have ended and the file is restored."""
        seconds = time.monotonic() - self._began
        ended, status = os.waitpid(self._child, os.WNOHANG)
        late = not ended and seconds > self._limit
        if not ended and not late:
            return None
        with suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGKILL)  # processes that the tests left behind, too
        if late:
            os.waitpid(self._child, 0)
        self._child = 0
        made = self._root.parent / "scratch/micro-policy/base"  # by the fixture of tests/conftest.py
        if not self._changed and made.exists() and not self._lent.exists():
            shutil.copytree(made, self._lent)
        if self._changed:
            self._write((ROOT / self._changed).read_text(encoding="utf-8"))
        if late:
            return "noticed", "the time-out", seconds
        text = self._output.read_text(encoding="utf-8", errors="replace")
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return ("survived" if re.search(r"^[.sx]*\.", text, re.MULTILINE) else "nothing ran"), "", seconds
        if code in (1, 2):
            found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
            return "noticed", found[1] if found else f"exit status {code}", seconds
        return f"pytest ended with {code}: {text[-500:]}", "", seconds

    def _write(self, text: str) -> None:
        path = self._root / self._changed
        path.write_text(text, encoding="utf-8")
        # A text of the same length in the same second would leave the compiled file in force.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()


def digest(mutant: Mutant) -> str:
    """Digest of the mutant, of the file that it changes, and of its test files."""
    files = [mutant.file, *dict.fromkeys(test.partition("::")[0] for test in mutant.tests)]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in files]
    parts = [mutant.find, mutant.replace, *mutant.tests, *texts]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_results() -> dict[tuple[str, str], dict[str, str]]:
    """The rows of `results.csv` by room and name."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return {(row["room"], row["name"]): row for row in csv.DictReader(file)}


def write_results(results: dict[tuple[str, str], dict[str, str]]) -> None:
    partial = RESULTS.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(results[key] for key in sorted(results))
    partial.replace(RESULTS)


def outcomes(todo: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant with its outcome and what noticed it, as they come; errors begin with "error: "."""
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    assert "cocal" not in sys.modules, "a forked process would test the library of this one"
    limits: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        free = [Copy(Path(folder) / str(k)) for k in range(jobs)]
        sets = list(dict.fromkeys(mutant.tests for mutant in todo))
        # Together, sets share their fixtures; if a test fails, each set runs by itself to find those that it is in.
        together = tuple(dict.fromkeys(test for tests in sets for test in tests))
        for plain in ([together], sets):
            if len(limits) < len(sets):
                for tests, _, (outcome, by, seconds) in _spread(free, [(one, None) for one in plain], lambda _: 3600.0):
                    if outcome == "survived":
                        passed = [one for one in sets if set(one) <= set(tests)]
                        limits |= dict.fromkeys(passed, max(SHORTEST_LIMIT, seconds))
                    else:
                        print(f"{len(tests)} tests without a mutant: {outcome} by {by}", flush=True)
        for mutant in todo:
            if mutant.tests not in limits:
                yield mutant, "error: its tests do not pass without it", ""
        ready = ((mutant.tests, mutant) for mutant in todo if mutant.tests in limits)
        for _, mutant, (outcome, by, _) in _spread(free, ready, limits.get):
            yield mutant, outcome if outcome in ("noticed", "survived") else f"error: {outcome}", by


def _spread(copies, work, limit):
    """Run the work on the copies, and yield each piece with its outcome."""
    free, busy = list(copies), []
    work = deque(work)
    while work or busy:
        while work and free:
            tests, mutant = work.popleft()
            copy = free.pop()
            if mutant is None:
                copy.start(tests, limit(tests))
            else:
                try:
                    wrong = mutant.applied_to((ROOT / mutant.file).read_text(encoding="utf-8"))
                except ValueError as error:
                    free.append(copy)
                    yield tests, mutant, (f"does not apply: {error}", "", 0.0)
                    continue
                copy.start(tests, limit(tests), mutant.file, wrong)
            busy.append((copy, tests, mutant))
        for one in list(busy):
            copy, tests, mutant = one
            if (found := copy.finished()) is not None:
                busy.remove(one)
                free.append(copy)
                yield tests, mutant, found
        time.sleep(0.02)


def report(mutants: list[Mutant], results: dict[tuple[str, str], dict[str, str]]) -> bool:
    """Print the numbers of each room and all survivors; whether every survivor is explained."""
    known = [(one, results[one.room, one.name]["outcome"]) for one in mutants if (one.room, one.name) in results]
    planted, noticed = Counter(one.room for one, _ in known), Counter(one.room for one, o in known if o == "noticed")
    print(f"\n{'room':<16}{'planted':>8}{'noticed':>8}")
    for room in sorted(planted):
        print(f"{room:<16}{planted[room]:>8}{noticed[room]:>8}")
    print(f"{'all':<16}{planted.total():>8}{noticed.total():>8}  {noticed.total() / max(planted.total(), 1):.1%}")
    well = True
    for one, outcome in known:
        if outcome == "survived":
            print(f"\n{one.room}/{one.name} survives: {one.survives or 'UNEXPLAINED'}")
            print(f"  {one.file}\n  - {one.find}\n  + {one.replace}")
            well = well and bool(one.survives)
        elif one.survives:
            print(f"\n{one.room}/{one.name} is noticed, although it is explained as a survivor")
            well = False
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", help="plant only the mutants of this room")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="plant these mutants, even if their outcome is known")
    parser.add_argument("--jobs", type=int, default=1, help="run this many sets of tests at a time")
    flags = parser.parse_args()
    mutants = [
        one for one in all_mutants() if flags.room in (None, one.room) and (not flags.only or one.name in flags.only)
    ]
    waiting = [one for one in mutants if not all((ROOT / test.partition("::")[0]).exists() for test in one.tests)]
    mutants = [one for one in mutants if one not in waiting]
    if waiting:
        print(f"{len(waiting)} mutants wait for tests that are not written yet")
    results = read_results()
    known = {key: row["digest"] for key, row in results.items()}
    digests = {(one.room, one.name): digest(one) for one in mutants}  # of the texts as they are copied
    todo = [one for one in mutants if flags.only or known.get((one.room, one.name)) != digests[one.room, one.name]]
    print(f"{len(mutants)} mutants, {len(mutants) - len(todo)} of them known", flush=True)
    well = True
    for done, (one, outcome, by) in enumerate(outcomes(todo, flags.jobs), start=1) if todo else ():
        print(f"{done}/{len(todo)} {one.room}/{one.name}: {outcome}{' by ' + by if by else ''}", flush=True)
        if outcome.startswith("error"):
            results.pop((one.room, one.name), None)
            well = False
        else:
            key = one.room, one.name
            results[key] = dict(zip(COLUMNS, (*key, outcome, by, digests[key]), strict=True))
        write_results(results)
    if flags.room is None and flags.only is None:
        named = {(one.room, one.name) for one in mutants}
        write_results({key: row for key, row in results.items() if key in named})
    return 0 if report(mutants, results) and well else 1


if __name__ == "__main__":
    sys.exit(main())
