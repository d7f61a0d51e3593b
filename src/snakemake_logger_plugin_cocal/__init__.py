"""Snakemake's terminal output: a line for each job that ends, with how many of the jobs have ended.

`logger: cocal` in profiles/default selects it. Snakemake's own log in .snakemake/log is unchanged and has everything.
"""

import re
import shlex
import sys
import time
from logging import WARNING, LogRecord
from pathlib import Path, PurePath
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from cocal.runtime.progress import in_words, job_line

TAIL = 30
"""Number of lines that are shown from the end of a failed job's log."""
VERDICT, FIRST = "results/verdict.txt", ("results/verdict.html", "results/tables/main.html")
"""A run that has built them ends with the first line of `VERDICT`, and says which of `FIRST` to open first."""
_CHATTER = (
    r"None$|Building DAG|Select jobs|Using shell|Conda env|Assuming unrest|Singularity con|Group jobs: ina|Reasons:|"
    "Some jobs were triggered|Rules with prov"
)
_STOPPING = {
    "Terminating processes on user request": "the jobs that run are ended",  # Ctrl-C
    "Will exit after finishing currently running jobs": "no further job begins",  # SIGTERM, perhaps of the jobs, too
}
_ENDED = re.compile(r"died with <Signals\.SIG(?:INT|TERM)")
"""Occurs in the message of a job that was ended, which may come before that of the stop."""
_COMMAND = re.compile(r"Command '.*' (?=returned|died)", re.DOTALL)
"""A job's command in an error message, which may have kilobytes of settings; the log file has it, too."""


class LogHandler(LogHandlerBase):
    """Prints the lines. Snakemake calls it from one thread with one record after another."""

    writes_to_stream: bool = True
    writes_to_file: bool = False
    has_filter: bool = False
    needs_rulegraph: bool = False
    has_formatter: bool = True

    def __post_init__(self) -> None:
        self._jobs, self._failures, self._planned, self._finished = {}, {}, 0, 0
        self._built, self._running, self._side_by_side = [], set(), 1
        self._stopped, self._began = False, time.monotonic()
        self._words = DefaultFormatter(self.common_settings.quiet)
        self._stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self._colours = ColorizingTextHandler(nocolor=self.common_settings.nocolor, stream=self._stream)

    def emit(self, record: LogRecord) -> None:
        """Print the lines of an event, if it has any."""
        try:
            event = getattr(record, "event", None)
            say = getattr(self, f"_{event.value}", None) if event else None
            text = say(record) if say else self._other(record, event)
            if text:
                self._stream.write(f"{self._colours.decorate(record, text) if record.levelno >= WARNING else text}\n")
                self._stream.flush()
        except BrokenPipeError:
            raise
        except Exception:  # an error here must not hide Snakemake's messages
            self.handleError(record)

    def _other(self, record: LogRecord, event: LogEvent | None) -> str:
        """A message of Snakemake about the whole run."""
        shell = event == LogEvent.SHELLCMD and not self.common_settings.printshellcmds
        if shell or event in {LogEvent.WORKFLOW_STARTED, LogEvent.JOB_STARTED, LogEvent.PROGRESS}:
            return ""
        text = self._words.format(record)
        if self._stopped or _ENDED.search(text):  # the jobs that stopping has ended have not failed
            return ""
        if said := next((said for begin, said in _STOPPING.items() if text.startswith(begin)), None):
            self._stopped = True
            return f"Stopping: {said}."
        if "Directory cannot be locked" in text:
            unlock = shlex.join(["snakemake", *sys.argv[1:], "--unlock"])
            text += f"\nAfter a kill: {unlock}\nThen the same command goes on where that run has ended."
        if self._failures and text.startswith("Exiting because a job execution failed"):
            return "\n".join([f"{len(self._failures)} job(s) failed; their logs:", *self._failures.values()])
        chatter = re.match(_CHATTER, text) and not self.common_settings.verbose
        return "" if chatter else _COMMAND.sub("the command ", text)

    def _resources_info(self, record: LogRecord) -> None:
        self._side_by_side = getattr(record, "cores", None) or getattr(record, "nodes", None) or self._side_by_side

    def _run_info(self, record: Any) -> str:
        """The number of jobs; at the end of a dry-run, their table."""
        again, self._planned = bool(self._planned), record.stats["total"]
        if not self.common_settings.dryrun:
            return f"{self._planned} job(s), {self._side_by_side} at a time"
        return self._words.format(record) if again else ""

    def _job_info(self, record: Any) -> str:
        """Note the start of a job, which reports its own progress if it is long; in a dry-run, say why it would run."""
        self._jobs[record.jobid] = record, time.monotonic()
        if not self.common_settings.dryrun:
            self._running.add(record.jobid)
        elif record.output:
            return f"{_named(record):<36}  {' '.join(record.reason.split())[:100]}"
        return ""

    def _job_finished(self, record: Any) -> str:
        if record.job_id not in self._jobs:  # with --quiet rules, no event says that a job begins
            return ""
        started, since = self._jobs[record.job_id]
        took = time.monotonic() - since
        self._running.discard(record.job_id)
        self._failures.pop(record.job_id, None)
        self._finished += 1
        if not started.output:  # a target without outputs, such as all
            return ""
        self._built += map(str, started.output)
        return _line(_named(started), f"done in {in_words(took):<12}  {self._finished} of {self._planned} jobs")

    def _job_error(self, record: Any) -> str:
        """Name of the failed job, the path of its log and the end of that log."""
        self._running.discard(record.jobid)
        if self._stopped:
            return ""
        started, since = self._jobs[record.jobid]
        name, took = _named(started), in_words(time.monotonic() - since)
        self._failures[record.jobid] = f"  {name:<36}  {', '.join(record.log)}"
        lines = [_line(name, f"FAILED after {took}"), *(f"    {key}: {said}" for key, said in record.aux.items())]
        for log in record.log:
            lines.append(f"    log: {log}")
            if self.common_settings.show_failed_logs and Path(log).is_file():
                said = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
                lines += [f"    | {text}" for text in [*["..."] * (len(said) > TAIL), *said[-TAIL:]]]
        return "\n".join(lines)

    def close(self) -> None:
        """Say what a run has built, what to open first, and the verdict."""
        if self._stopped:
            self._stream.write("Stopped. The same command goes on where this run has ended.\n")
            self._stopped, self._built = False, []
        elif self._built and not (self._failures or self._running):
            folders = sorted({"/".join(PurePath(path).parent.parts[:2]) or "." for path in self._built}, reverse=True)
            took = in_words(time.monotonic() - self._began)
            lines = [f"Done in {took}: {len(self._built)} files and folders are in {', '.join(folders)}."]
            lines += [f"Open {first} first." for first in FIRST if first in self._built][:1]
            lines += Path(VERDICT).read_text(encoding="utf-8").splitlines()[:1] if VERDICT in self._built else []
            self._stream.write("\n".join(lines) + "\n")
            self._built = []
        super().close()


def _line(name: str, text: str) -> str:
    return job_line(time.strftime("%H:%M:%S"), name, text)


def _named(job: Any) -> str:
    """A job's rule and wildcards."""
    return " ".join([job.rule_name, *map(str, job.wildcards.values())])
