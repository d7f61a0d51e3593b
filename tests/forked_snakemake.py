"""Snakemake's command line in a fork of this process, which has loaded Snakemake and what every plan of ours computes.

A dry-run takes a second so, instead of several. `tests/smoke_study.py` runs one study as a user does, with a Snakemake
that starts from nothing.
"""

import os
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

import warm_jobs

ROOT = Path(__file__).resolve().parents[1]


def run(words, cwd=ROOT, environment=None):
    """The finished process, as `subprocess.run` gives it with captured text.

    Args:
        words: the command without its name.
        cwd: folder in which it runs.
        environment: all of its variables; by default those of this process. With another PYTHONPATH, what this process
            has loaded of the package would not hold, so that another one forks, which has loaded nothing of it.
    """
    words, environment = [*map(str, words)], dict(os.environ) if environment is None else environment
    if environment.get("PYTHONPATH") != os.environ.get("PYTHONPATH"):
        command = [*warm_jobs.command(loaded=False), "snakemake", *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment)
    _load()
    with tempfile.TemporaryDirectory() as folder:
        streams = {number: Path(folder) / str(number) for number in (1, 2)}
        if (child := os.fork()) == 0:
            _run(words, streams, cwd, environment)
        _, status = os.waitpid(child, 0)
        shown = [path.read_text() for path in streams.values()]
    return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *shown)


def _run(words, streams, cwd, environment):
    """In the child; never returns."""
    status = 1
    try:
        for number, path in streams.items():
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # not those that pytest reads
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["snakemake", *words]  # the Snakefile looks at it
        from snakemake.cli import main

        main(words)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


@cache
def _load():
    """What every plan needs, once, in the parent."""
    import gc

    import smart_open  # noqa: F401
    import snakemake.cli
    import snakemake.storage

    import cocal.judging.prompts
    import cocal.policy.launch
    import cocal.policy.objectives
    import cocal.questions.registry
    import cocal.store.owner  # noqa: F401
    from cocal.config import load_study
    from cocal.exhibits.base.registry import exhibit_code, exhibits_of
    from cocal.store.code import code_digest

    snakemake.cli.get_argument_parser()  # which imports all plug-ins
    study = load_study(ROOT / "config/smoke.yaml")
    for exhibit in exhibits_of(study, {}):
        exhibit_code(exhibit)
    for file in (ROOT / "src/cocal/commands").glob("[!_]*.py"):
        code_digest(f"cocal.commands.{file.stem}")
    gc.freeze()  # nothing of this is looked at by the collections of a fork, which would copy its pages
