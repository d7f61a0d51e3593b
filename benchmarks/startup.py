"""Share of a study's time that goes to starting processes: interpreters and imports, before any work begins.

    PYTHONPROFILEIMPORTTIME=1 snakemake ...        Python then logs the time of every import
    python benchmarks/startup.py [FOLDER]          FOLDER holds logs/ and results/benchmarks/ of that run

The wall-clock times of the jobs come from their benchmark files, and the times of their imports from their logs. The
profile itself makes imports a little slower, so the share is an upper bound.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

_IMPORT = re.compile(r"^import time:\s+(\d+) \|", re.MULTILINE)
_INTERPRETER = 0.05
"""Seconds that a bare interpreter takes to start, which the import times do not include."""


def main(folder: Path) -> None:
    """Print time and share by stage."""
    spent, starting, jobs = defaultdict(float), defaultdict(float), defaultdict(int)
    for file in sorted((folder / "results/benchmarks").rglob("*.tsv")):
        name = file.relative_to(folder / "results/benchmarks").with_suffix("")
        header, values = (line.split("\t") for line in file.read_text().splitlines()[:2])
        log = folder / "logs" / f"{name}.log"
        microseconds = sum(map(int, _IMPORT.findall(log.read_text(errors="replace"))))
        if not microseconds:
            sys.exit(f"{log}: no import times; run the study with PYTHONPROFILEIMPORTTIME=1")
        stage = name.parts[0]
        spent[stage] += float(values[header.index("s")])
        starting[stage] += _INTERPRETER + microseconds / 1e6
        jobs[stage] += 1
    print(f"{'stage':<12} {'jobs':>5} {'job s':>8} {'start s':>8} {'share':>6}")
    for stage in sorted(spent, key=spent.get, reverse=True):
        share = starting[stage] / spent[stage]
        print(f"{stage:<12} {jobs[stage]:>5} {spent[stage]:>8.1f} {starting[stage]:>8.1f} {share:>6.1%}")
    total, begun = sum(spent.values()), sum(starting.values())
    print(f"{'all':<12} {sum(jobs.values()):>5} {total:>8.1f} {begun:>8.1f} {begun / total:>6.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
