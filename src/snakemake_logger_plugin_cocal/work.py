"""How much of a run's work is done and how long the rest will take: plain arithmetic, without Snakemake."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

UNKNOWN = 5.0
"""Seconds assumed of a job whose rule nobody knows anything about."""
_INERTIA = 0.05
"""Share of the whole work that has to be done before its pace counts as much as the expectation."""
_OVERDUE = 0.2
"""Share of the time that it has run which a job is taken to need still, at least: nobody knows when one that takes
longer than expected will end."""


@dataclass
class Work:
    """The jobs of a run.

    Attributes:
        jobs: number of jobs of each rule, finished ones included.
        side_by_side: how many run at a time.
        needs: rules that each rule waits for.
        assumed: seconds of one job of a rule, guessed; a name that ends with an underscore stands for all rules that
            begin so, and `metrics` also for `sweep_metrics`.
        earlier: mean seconds of the jobs of a rule in an earlier run. They count before what is assumed.
        finished: seconds of the jobs of each rule that have finished in this run.
    """

    jobs: Mapping[str, int]
    side_by_side: int = 1
    needs: Mapping[str, Iterable[str]] = field(default_factory=dict)
    assumed: Mapping[str, float] = field(default_factory=dict)
    earlier: Mapping[str, float] = field(default_factory=dict)
    finished: dict[str, list[float]] = field(default_factory=dict)

    def finish(self, rule: str, seconds: float) -> None:
        """A job has finished."""
        self.finished.setdefault(rule, []).append(seconds)

    def expected(self) -> dict[str, float]:
        """Seconds to expect of a job of each rule that is still to come.

        All expectations are stretched by how long the finished jobs took in comparison, the more the more of the work
        they were. A rule without an earlier time takes as long as those of its jobs that have finished.
        """
        before = {rule: self._before(rule) for rule in self.jobs}
        inertia = _INERTIA * sum(count * before[rule] for rule, count in self.jobs.items())
        took = sum(sum(times) for times in self.finished.values())
        wanted = sum(len(times) * self._before(rule) for rule, times in self.finished.items())
        stretch = (took + inertia) / (wanted + inertia) if wanted + inertia else 1.0
        return {
            rule: fmean(times) if (times := self.finished.get(rule)) and rule not in self.earlier else seconds * stretch
            for rule, seconds in before.items()
        }

    def share(self, running: Sequence[tuple[str, float]] = ()) -> float:
        """Share of the work that is done, in [0, 1]; work is seconds of jobs, whatever their number.

        Args:
            running: rule of each running job, and the seconds that it has run.
        """
        done = sum(sum(times) for times in self.finished.values()) + sum(seconds for _, seconds in running)
        left = sum(sum(rests) for rests in self._rests(running).values())
        return done / (done + left) if done + left else 1.0

    def left(self, running: Sequence[tuple[str, float]] = ()) -> float:
        """Seconds until the last job ends: those of all jobs over as many as run side by side, or those of the longest
        chain of rules that wait for each other, whichever is more.

        Args:
            running: as for `share`.
        """
        rests = self._rests(running)
        waves = {
            rule: max(max(of_rule, default=0.0), sum(of_rule) / self.side_by_side) for rule, of_rule in rests.items()
        }
        chains: dict[str, float] = {}

        def chain(rule: str) -> float:
            if rule not in chains:
                chains[rule] = 0.0  # a rule that waits for itself, with other wildcards, ends here
                longest = max((chain(other) for other in self.needs.get(rule, ())), default=0.0)
                chains[rule] = waves.get(rule, 0.0) + longest
            return chains[rule]

        every = sum(sum(of_rule) for of_rule in rests.values()) / self.side_by_side
        return max(every, max((chain(rule) for rule in rests), default=0.0))

    def _before(self, rule: str) -> float:
        """Seconds expected of a job before any has run."""
        return self.earlier[rule] if rule in self.earlier else assumed_seconds(self.assumed, rule)

    def _rests(self, running: Sequence[tuple[str, float]]) -> dict[str, list[float]]:
        """Seconds that each job still needs, by rule."""
        expected = self.expected()
        rests = {}
        for rule, count in self.jobs.items():
            seconds = expected[rule]
            now = [max(seconds - ran, _OVERDUE * ran) for of, ran in running if of == rule]
            waiting = count - len(self.finished.get(rule, ())) - len(now)
            rests[rule] = now + [seconds] * max(waiting, 0)
        return rests


def assumed_seconds(assumed: Mapping[str, float], rule: str) -> float:
    """Seconds of a rule, of its family (`table_` of `table_main`) or of what it is a variant of (`metrics` of
    `sweep_metrics`); `UNKNOWN` where none is given."""
    if rule in assumed:
        return assumed[rule]
    for name, seconds in assumed.items():
        if (name.endswith("_") and rule.startswith(name)) or rule.endswith(f"_{name}"):
            return seconds
    return UNKNOWN


def earlier_seconds(folder: Path, rules: Iterable[str], backbones: Sequence[str]) -> dict[str, float]:
    """Mean seconds of the jobs of each rule in an earlier run, from Snakemake's benchmark files.

    Args:
        folder: of `{rule}/{backbone}*.tsv`.
        rules: those that are wanted; one without such files is absent.
        backbones: of the study. The files of others are of another study, whose jobs take another time.
    """
    found = {}
    for rule in rules:
        files = {file for name in backbones for file in (folder / rule).glob(f"{name}*.tsv")}
        times = [seconds for file in sorted(files) if not math.isnan(seconds := _seconds(file))]
        if times:
            found[rule] = fmean(times)
    return found


def _seconds(file: Path) -> float:
    """Seconds in a benchmark file; NaN if it is none."""
    try:
        header, *_, last = file.read_text(encoding="utf-8").splitlines()
        return float(dict(zip(header.split("\t"), last.split("\t"), strict=True))["s"])
    except (OSError, ValueError, KeyError):
        return math.nan
