"""Snakemake's terminal output, as lines that name the job, the share of the work that is done and the time left.

`logger: cocal` in profiles/default selects it. Snakemake's own log file in .snakemake/log is unchanged and has all
inputs, outputs, commands and reasons. Warnings, errors and unknown messages are printed in Snakemake's words.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import WARNING, LogRecord
from pathlib import Path
from threading import Event, Thread

from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from cocal.runtime.progress import NAME_WIDTH, in_words, job_line
from snakemake_logger_plugin_cocal.text import called, reason_line, summary
from snakemake_logger_plugin_cocal.work import Running, Work, earlier_seconds, seconds_left

BENCHMARKS = Path("results/benchmarks")
TAIL = 30
"""Number of lines that are shown from the end of a failed job's log."""
_SILENCE = 300.0
"""Seconds without output after which a line names the running jobs."""

_SILENT = {LogEvent.WORKFLOW_STARTED, LogEvent.JOB_STARTED, LogEvent.PROGRESS, LogEvent.SHELLCMD}
"""Events that other lines describe better."""
_CHATTER = ("Building DAG", "Select jobs", "Using shell", "Conda environments: ignored", "Assuming unrestricted shared")
_CHATTER += ("Singularity containers: ignored", "Group jobs: inactive", "Reasons:")
_CHATTER += ("Some jobs were triggered by provenance", "Rules with provenance triggered jobs")
_NUMBERED = (
    (re.compile(r"Trying to restart job (\d+)\."), r"is tried again"),
    (re.compile(r"Job (\d+) has been submitted with SLURM jobid (.*)\."), r"submitted as SLURM job \2"),
)
"""Messages that give a job's number, and the text that follows its name instead."""
_COMMAND = re.compile(r"Command '.*' (?=returned|died)", re.DOTALL)
"""A job's command in an error message, which may have kilobytes of settings; the log file has it, too."""


@dataclass
class _Expected:
    """Expectations of the study that the workflow has read."""

    seconds: Mapping[str, float]
    backbones: Sequence[str]


_EXPECTED = _Expected({}, ())


def expect(seconds: Mapping[str, float], backbones: Sequence[str]) -> None:
    """Say what is known of a run before it is planned; workflow/rules/common.smk does.

    Args:
        seconds: Expected seconds of a job by rule (`cocal.resources.estimate`).
        backbones: Backbones of the study.
    """
    _EXPECTED.seconds, _EXPECTED.backbones = seconds, backbones


@dataclass
class Job:
    """A job that has been started.

    Attributes:
        name: Name in its lines.
        rule: Rule of the workflow.
        started: Value of `time.monotonic()` at its start.
        logs: Files to which it writes its progress.
    """

    name: str
    rule: str
    started: float
    logs: Sequence[Path] = ()

    def running(self) -> Running:
        """How long it has run and how much it says is left."""
        ran = time.monotonic() - self.started
        return Running(self.rule, ran, max((seconds_left(log, ran) for log in self.logs), default=0.0))


class LogHandler(LogHandlerBase):
    """Prints the lines. Snakemake calls it from one thread with one record after another."""

    writes_to_stream = True
    """Its lines replace Snakemake's own lines in the terminal."""
    writes_to_file = False
    """The log file is left to Snakemake."""
    has_filter = False
    """Snakemake adds its own filter, which obeys --quiet."""
    has_formatter = True
    """It formats its lines itself."""
    needs_rulegraph = True
    """It computes the longest chain of jobs from the graph of the rules."""

    def __post_init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._running: set[int] = set()
        self._targets: set[str] = set()
        self._outputs: dict[int, list[str]] = {}
        self._built: list[str] = []
        self._began = time.monotonic()
        self._failures: dict[int, str] = {}
        self._spoken = time.monotonic()
        self._over = Event()
        self._work = Work({})
        self._words = DefaultFormatter(self.common_settings.quiet)
        self._stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self._colours = ColorizingTextHandler(nocolor=self.common_settings.nocolor, stream=self._stream)

    def emit(self, record: LogRecord) -> None:
        """Print the lines of an event, if it has any."""
        try:
            text = self._say(record)
            if text:
                self._print(self._colours.decorate(record, text) if record.levelno >= WARNING else text)
        except BrokenPipeError:
            raise
        except Exception:  # an error here must not hide Snakemake's messages
            self.handleError(record)

    def _print(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._spoken = time.monotonic()

    def _say(self, record: LogRecord) -> str:
        event = getattr(record, "event", None)
        events = {
            LogEvent.RUN_INFO: self._planned,
            LogEvent.JOB_INFO: self._started,
            LogEvent.JOB_FINISHED: self._finished,
            LogEvent.JOB_ERROR: self._failed,
            LogEvent.RULEGRAPH: self._rulegraph,
            LogEvent.RESOURCES_INFO: self._resources,
        }
        if event in events:
            return events[event](record)
        silent = _SILENT - ({LogEvent.SHELLCMD} if self.common_settings.printshellcmds else set())
        return "" if event in silent else self._plain(self._words.format(record))

    def _plain(self, text: str) -> str:
        """A message of Snakemake about the whole run, with the names of jobs instead of their numbers."""
        for pattern, words in _NUMBERED:
            if (found := pattern.fullmatch(text)) and int(found[1]) in self._jobs:
                return self._line(self._jobs[int(found[1])].name, found.expand(words))
        if self._failures and text.startswith("Exiting because a job execution failed"):
            return "\n".join([f"{len(self._failures)} job(s) failed; their logs:", *self._failures.values()])
        if text == "None" or (text.startswith(_CHATTER) and not self.common_settings.verbose):
            return ""
        return _COMMAND.sub("the command ", text)

    def _rulegraph(self, record: LogRecord) -> str:
        """Record which rules each rule waits for."""
        nodes = [node["rule"] for node in record.rulegraph["nodes"]]
        needs: dict[str, set[str]] = {}
        for link in record.rulegraph["links"]:
            needs.setdefault(nodes[link["target"]], set()).add(nodes[link["source"]])
        self._work.needs = needs
        return ""

    def _resources(self, record: LogRecord) -> str:
        """Record how many jobs run at a time: the number of cores, or of jobs in the queue of a cluster."""
        given = getattr(record, "cores", None) or getattr(record, "nodes", None)
        self._work.side_by_side = given or self._work.side_by_side
        return ""

    def _planned(self, record: LogRecord) -> str:
        """The number of jobs and the expected time; at the end of a dry-run, the table of jobs precedes them."""
        rules = {rule: count for rule, count in record.stats.items() if rule != "total"}
        again, count = bool(self._work.jobs), record.stats["total"]
        self._work.jobs = rules
        self._work.assumed = _EXPECTED.seconds
        self._work.earlier = earlier_seconds(BENCHMARKS, rules, _EXPECTED.backbones)
        jobs = f"{count} job{'s' * (count > 1)}"
        if not self.common_settings.dryrun:
            Thread(target=self._watch, daemon=True).start()
            return f"{jobs}, {self._work.side_by_side} at a time: about {in_words(self._work.left())}"
        if not again:
            return ""
        self._work.side_by_side = 1
        return f"\n{self._words.format(record)}\n{jobs}, about {in_words(self._work.left())} if one ran after the other"

    def _started(self, record: LogRecord) -> str:
        name = called(record.rule_name, record.wildcards, record.shellcmd)
        job = Job(name, record.rule_name, time.monotonic(), [Path(log) for log in record.log])
        self._jobs[record.jobid] = job
        if not record.output:  # a target without outputs, such as all
            self._targets.add(record.rule_name)
        if self.common_settings.dryrun:
            return f"{job.name:<{NAME_WIDTH}}  {reason_line(record.reason)}" if record.output else ""
        self._running.add(record.jobid)
        self._outputs[record.jobid] = list(map(str, record.output))
        return ""  # a long job says itself how far it is; each has a line when it ends

    def _finished(self, record: LogRecord) -> str:
        job = self._jobs[record.job_id]
        self._running.discard(record.job_id)
        self._failures.pop(record.job_id, None)
        took = time.monotonic() - job.started
        self._built += self._outputs.pop(record.job_id, [])
        self._work.finish(job.rule, took)
        return (
            "" if job.rule in self._targets else self._line(job.name, f"done in {in_words(took):<12}  {self._rest()}")
        )

    def _rest(self) -> str:
        """The share of the work that is done and the time left."""
        running = [self._jobs[number].running() for number in self._running]
        left = self._work.left(running)
        share = f"{min(int(100 * self._work.share(running)), 99)} % of the work"
        return f"{share}, about {in_words(left)} left" if left >= 1 else share

    def _watch(self) -> None:
        """Print a line if there was no output for long, as while a cluster trains for hours; runs in its own thread."""
        while not self._over.wait(_SILENCE / 10):
            with self.lock:
                now = time.monotonic()
                if self._running and now - self._spoken >= _SILENCE:
                    jobs = [self._jobs[number] for number in sorted(self._running)]
                    names = ", ".join(f"{job.name} ({in_words(now - job.started)})" for job in jobs)
                    self._print(self._line("running", f"{names}; {self._rest()}"))

    def close(self) -> None:
        """Stop the thread that watches for silence, and say what a run has built."""
        self._over.set()
        if self._built and not (self._failures or self._running):
            self._print(summary(self._built, time.monotonic() - self._began))
            self._built = []
        super().close()

    def _failed(self, record: LogRecord) -> str:
        """Lines with the name of the failed job, the path of its log and the end of that log."""
        self._running.discard(record.jobid)
        job = self._jobs.get(record.jobid) or Job(record.rule_name, record.rule_name, time.monotonic())
        lines = [self._line(job.name, f"FAILED after {in_words(time.monotonic() - job.started)}")]
        self._failures[record.jobid] = f"  {job.name:<{NAME_WIDTH}}  {', '.join(record.log)}"
        lines += [f"    {text}" for text in (record.rule_msg, *(f"{k}: {v}" for k, v in record.aux.items())) if text]
        for log in record.log:
            lines.append(f"    log: {log}")
            if self.common_settings.show_failed_logs:
                lines += [f"    | {text}" for text in _tail(Path(log))]
        return "\n".join(lines)

    def _line(self, name: str, text: str) -> str:
        return job_line(time.strftime("%H:%M:%S"), name, text)


def _tail(log: Path) -> list[str]:
    """The last `TAIL` lines of a log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ["(there is no such file)"]
    return [*(["..."] if len(lines) > TAIL else []), *lines[-TAIL:]] or ["(empty)"]
