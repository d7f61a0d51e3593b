"""Where the time of a study went: `python benchmarks/overhead.py FOLDER -- COMMAND...` runs the command, which runs the
study in the folder, and prints the seconds of its jobs by rule, by the clock and of processors, which hardly depend on
other work on the machine.

A rehearsal's tensors are so small that nearly all of this is time beside them: imports, loading, reading and writing,
and Snakemake, which is what is left of the run while no job runs.
"""

import argparse
import subprocess
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pandas as pd


def main() -> None:
    """Run the command and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the study")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    given = parser.parse_args()
    began = time.time()
    subprocess.run(given.command, check=True)
    seconds, used = time.time() - began, getrusage(RUSAGE_CHILDREN)
    jobs = jobs_of(given.folder / "results/benchmarks")
    print(report(jobs[jobs["ended"] > began], seconds, used.ru_utime + used.ru_stime))


def jobs_of(folder: Path) -> pd.DataFrame:
    """Each job by the file that Snakemake has written of it: its rule, when it began and ended, and its seconds of
    processors."""
    rows = []
    for file in sorted(folder.glob("*/*.tsv")):
        measured, end = pd.read_csv(file, sep="\t").iloc[0], file.stat().st_mtime
        rows.append((file.parent.name, end - float(measured["s"]), end, float(measured["cpu_time"])))
    return pd.DataFrame(rows, columns=["rule", "began", "ended", "processor"])


def report(jobs: pd.DataFrame, seconds: float, processor: float) -> str:
    """The table of a run that took so many seconds by the clock and of processors, the longest rules first."""
    jobs = jobs.assign(clock=jobs["ended"] - jobs["began"], jobs=1)
    spent = jobs.groupby("rule")[["jobs", "clock", "processor"]].sum().sort_values("clock", ascending=False)
    lines = ["| rule | jobs | seconds by the clock | of processors |", "|---|--:|--:|--:|"]
    for rule, count, clock, own in spent.itertuples():
        lines.append(f"| {rule} | {count} | {clock:.1f} | {own:.1f} |")
    busy, until = 0.0, 0.0
    for began, ended in sorted(zip(jobs["began"], jobs["ended"], strict=True)):
        busy += max(0.0, ended - max(began, until))
        until = max(until, ended)
    lines.append(f"| all | {len(jobs)} | {jobs['clock'].sum():.1f} | {jobs['processor'].sum():.1f} |")
    alone = f"{busy:.0f} s with a job or several, {seconds - busy:.0f} s without"
    lines.append(f"\n{seconds:.0f} s by the clock, {alone}; {processor:.0f} s of processors, Snakemake's among them.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
