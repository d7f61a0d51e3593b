"""The share of a run's work that is done and the time that the rest will take, computed without Snakemake."""

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

UNKNOWN = 5.0
"""Seconds that are assumed for a job whose rule has no known duration."""
_INERTIA = 0.05
"""Share of the whole work after which the measured pace counts as much as the expectation."""
_OVERDUE = 0.2
"""Least remaining time of a running job, as a share of the time that it has run; it matters for jobs that take longer
than expected."""


_LEFT = re.compile(r", ([^,]+) left$", re.MULTILINE)
"""The time left at the end of a job's progress line (`cocal.runtime.progress.progress_line`)."""
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_END = 4096
"""Number of bytes at the end of a log that are searched for a progress line."""


class Running(NamedTuple):
    """A job that runs.

    Attributes:
        rule: Its rule.
        ran: Seconds that it has run.
        left: Seconds that it needs at least, as its log says (`seconds_left`); 0 if it says nothing.
    """

    rule: str
    ran: float
    left: float = 0.0


@dataclass
class Work:
    """The jobs of a run.

    Attributes:
        jobs: Number of jobs of each rule, including finished ones.
        side_by_side: Number of jobs that run at a time.
        needs: Rules that each rule waits for.
        assumed: Assumed seconds of one job by rule; names may stand for several rules (`assumed_seconds`).
        earlier: Mean seconds of a rule's jobs in an earlier run, which take precedence over `assumed`.
        finished: Seconds of the jobs of each rule that have finished in this run.
    """

    jobs: Mapping[str, int]
    side_by_side: int = 1
    needs: Mapping[str, Iterable[str]] = field(default_factory=dict)
    assumed: Mapping[str, float] = field(default_factory=dict)
    earlier: Mapping[str, float] = field(default_factory=dict)
    finished: dict[str, list[float]] = field(default_factory=dict)

    def finish(self, rule: str, seconds: float) -> None:
        """Record that a job has finished."""
        self.finished.setdefault(rule, []).append(seconds)

    def expected(self, running: Sequence[Running] = ()) -> dict[str, float]:
        """Expected seconds of a future job of each rule.

        All expectations are multiplied by the ratio of actual to expected time of the finished jobs, and of those that
        already are sure to take longer than expected. The ratio is damped at the beginning. A rule without an earlier
        time takes as long as those of its jobs that have finished.
        """
        before = {rule: self._prior(rule) for rule in self.jobs}
        inertia = _INERTIA * sum(count * before[rule] for rule, count in self.jobs.items())
        late = [job for job in running if job.ran + job.left > self._prior(job.rule)]
        took = sum(sum(times) for times in self.finished.values()) + sum(job.ran + job.left for job in late)
        wanted = sum(len(times) * self._prior(rule) for rule, times in self.finished.items())
        wanted += sum(self._prior(job.rule) for job in late)
        stretch = (took + inertia) / (wanted + inertia) if wanted + inertia else 1.0
        return {
            rule: fmean(times) if (times := self.finished.get(rule)) and rule not in self.earlier else seconds * stretch
            for rule, seconds in before.items()
        }

    def share(self, running: Sequence[Running] = ()) -> float:
        """Share of the work that is done, in [0, 1]; work is measured in seconds of jobs."""
        done = sum(sum(times) for times in self.finished.values()) + sum(job.ran for job in running)
        left = sum(sum(rests) for rests in self._remaining(running).values())
        return done / (done + left) if done + left else 1.0

    def left(self, running: Sequence[Running] = ()) -> float:
        """Seconds until the last job ends: the time of all jobs divided by `side_by_side`, or that of the longest chain
        of rules that wait for each other if it is larger.
        """
        rests = self._remaining(running)
        waves = {
            rule: max(max(of_rule, default=0.0), sum(of_rule) / self.side_by_side) for rule, of_rule in rests.items()
        }
        chains: dict[str, float] = {}

        def chain(rule: str) -> float:
            if rule not in chains:
                chains[rule] = 0.0  # ends the recursion of a rule that waits for itself
                longest = max((chain(other) for other in self.needs.get(rule, ())), default=0.0)
                chains[rule] = waves.get(rule, 0.0) + longest
            return chains[rule]

        every = sum(sum(of_rule) for of_rule in rests.values()) / self.side_by_side
        return max(every, max((chain(rule) for rule in rests), default=0.0))

    def _prior(self, rule: str) -> float:
        """Expected seconds of a rule's job before any job has run."""
        return self.earlier[rule] if rule in self.earlier else assumed_seconds(self.assumed, rule)

    def _remaining(self, running: Sequence[Running]) -> dict[str, list[float]]:
        """Seconds that each job still needs, by rule."""
        expected = self.expected(running)
        rests = {}
        for rule, count in self.jobs.items():
            seconds = expected[rule]
            now = [max(seconds - job.ran, job.left, _OVERDUE * job.ran) for job in running if job.rule == rule]
            waiting = count - len(self.finished.get(rule, ())) - len(now)
            rests[rule] = now + [seconds] * max(waiting, 0)
        return rests


def assumed_seconds(assumed: Mapping[str, float], rule: str) -> float:
    """Assumed seconds of a rule, of its family (`table_` for `table_main`) or of the rule that it is a variant of
    (`metrics` for `sweep_metrics`); `UNKNOWN` if none is given."""
    if rule in assumed:
        return assumed[rule]
    for name, seconds in assumed.items():
        if (name.endswith("_") and f"{rule}_".startswith(name)) or rule.endswith(f"_{name}"):
            return seconds
    return UNKNOWN


def seconds_left(log: Path, ran: float) -> float:
    """The seconds that a running job needs at least, as the last progress line of its log says; 0 without such a line.

    Other parts of the job may follow those that the line counts, so that it may need more.

    Args:
        log: File to which the job writes; one that is older than the job is not looked at.
        ran: Seconds that the job has run.
    """
    try:
        age = time.time() - log.stat().st_mtime
        with log.open("rb") as file:
            file.seek(-min(_END, log.stat().st_size), 2)
            said = _LEFT.findall(file.read().decode(errors="replace"))
    except OSError:
        return 0.0
    if not said or age > ran:
        return 0.0
    parts = re.findall(r"(\d+) (s|min|h|d)\b", said[-1])
    return max(sum(int(number) * _UNITS[unit] for number, unit in parts) - age, 0.0)


def earlier_seconds(folder: Path, rules: Iterable[str], backbones: Sequence[str]) -> dict[str, float]:
    """Mean seconds of the jobs of each rule in an earlier run, from Snakemake's benchmark files.

    Args:
        folder: Folder of the files `{rule}/{backbone}*.tsv`.
        rules: Rules of the run; a rule without files is absent from the result.
        backbones: Backbones of the study. Files of other backbones belong to other studies, whose jobs differ.
    """
    found = {}
    for rule in rules:
        files = {file for name in backbones for file in (folder / rule).glob(f"{name}*.tsv")}
        times = [seconds for file in sorted(files) if not math.isnan(seconds := _seconds(file))]
        if times:
            found[rule] = fmean(times)
    return found


def _seconds(file: Path) -> float:
    """Seconds in a benchmark file; NaN if it cannot be read as one."""
    try:
        header, *_, last = file.read_text(encoding="utf-8").splitlines()
        return float(dict(zip(header.split("\t"), last.split("\t"), strict=True))["s"])
    except (OSError, ValueError, KeyError):
        return math.nan
