"""One writer: a second process is refused by name, and every end of the first lets it in."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

import started
from cocal import cli
from cocal.errors import BusyError
from cocal.runtime import lock
from cocal.store.run_folder import RunFolder
from micro import MICRO_SETS

FORK = "import os, time; child = os.fork(); child or (time.sleep(60), os._exit(0)); print(child, flush=True)"
START = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"

HOLD = """
import sys
from pathlib import Path
from cocal.runtime import lock

lock.hold(Path(sys.argv[1]))
{between}
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer_of(folder, between=""):
    """A process that holds the lock of a folder, and then runs some code, until the block ends, when it is killed."""
    command = [sys.executable, "-c", HOLD.format(between=between), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if not between:
                assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@contextmanager
def _orphan(folder, between):
    """A process that another one has started after it had taken a folder's lock, and before it was killed."""
    with writer_of(folder, between) as parent:
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "held\n"
        parent.kill()
        parent.wait()
        try:
            yield child
        finally:
            os.kill(child, signal.SIGKILL)


def _hold_soon(folder):
    """A process that was killed or forked closes its files a moment later."""
    deadline = time.monotonic() + 10
    while folder.with_name(f".{folder.name}.lock") not in lock._held:
        try:
            lock.hold(folder)
        except BusyError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_second_process_is_refused_by_name_until_the_first_is_killed(tmp_path):
    with writer_of(tmp_path / "run") as process:
        with pytest.raises(BusyError) as refused:
            RunFolder(tmp_path / "run", "a")
        message = str(refused.value)
        assert message.startswith(f"{tmp_path / 'run'}: an earlier run is still at work here")
        assert f"process {process.pid} on {os.uname().nodename}\n" in message
        assert f"wait until it has ended, or end it: kill {process.pid} on " in message
        assert not (tmp_path / "run").exists()
        process.kill()
        process.wait()
        RunFolder(tmp_path / "run", "a").publish({})
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_other_settings_deletes_nothing_while_the_first_is_at_work(tmp_path):
    run = RunFolder(tmp_path / "run", "a")
    (run.path / "work").touch()
    lock.release(run.path)
    with writer_of(run.path), pytest.raises(BusyError):
        RunFolder(tmp_path / "run", "b")
    assert (run.path / "work").exists()


@pytest.mark.parametrize("between", [FORK, START], ids=["forked", "started"])
def test_a_child_does_not_keep_the_lock_of_its_killed_parent(tmp_path, between):
    """A checking process or an engine, which writes no files."""
    with _orphan(tmp_path / "run", between) as child:
        _hold_soon(tmp_path / "run")
        os.kill(child, 0)  # it still runs
    lock.release(tmp_path / "run")


def test_a_lock_that_was_deleted_on_the_way_keeps_nobody_out(tmp_path, monkeypatch):
    """Its holder deletes it at the end; whoever has opened it by then must open the new one."""
    real, calls = fcntl.flock, []

    def late(descriptor, operation):
        if not calls:
            (tmp_path / ".run.lock").unlink()
        real(descriptor, operation)
        calls.append(descriptor)

    monkeypatch.setattr(fcntl, "flock", late)
    lock.hold(tmp_path / "run")
    assert len(calls) == 2
    assert os.path.samestat(os.fstat(lock._held[tmp_path / ".run.lock"]), (tmp_path / ".run.lock").stat())
    lock.release(tmp_path / "run")


def test_a_file_system_without_locks_is_warned_about(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    run = RunFolder(tmp_path / "run", "a")
    assert "this file system has no locks; start no second run of this folder" in caplog.text
    assert not [held for held in lock._held if tmp_path in held.parents]
    run.publish({})


STAGES = {
    'features --samples {"sums":2} --responses r --checkpoint c': ("output", "sums.zarr"),
    f"questions --settings {json.dumps(MICRO_SETS, separators=(',', ':'))}": ("output", "micro-eval.parquet"),
    "metrics --predictions p": ("output", "cube.nc"),
}
"""Commands with a flag for what they write, and a file or folder of it."""


@pytest.mark.parametrize(("command", "written"), STAGES.items(), ids=[command.split()[0] for command in STAGES])
def test_a_stage_locks_what_it_writes_before_it_loads_anything(tmp_path, command, written):
    """An orphan that is still importing would write its outputs after those of a job that has begun later."""
    flag, name = written
    output = tmp_path / (name if command.split()[0] not in ("features", "questions") else "")
    words = [*command.split(), *(["--settings", "{}"] if "--settings" not in command else []), f"--{flag}={output}"]
    code = "import sys; from cocal.cli import main; print(main(sys.argv[1:]), sys.modules.keys() & {'torch', 'pandas'})"
    with writer_of(tmp_path / name) as writer:
        done = started.python(code, *words)
    assert done.stdout == "2 set()\n", done.stderr
    assert f"cocal {words[0]}: error: {tmp_path / name}: an earlier run is still at work here" in done.stderr
    assert f"kill {writer.pid} on " in done.stderr


def test_a_stage_leaves_no_lock_behind(tmp_path, capsys):
    assert cli.main(["metrics", "--predictions", str(tmp_path / "none"), "--output", str(tmp_path / "cube.nc")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
