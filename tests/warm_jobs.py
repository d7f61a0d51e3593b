"""Jobs of a study without the start of Python: a process that has imported the heavy libraries forks for each of them.

Most of a small job's time goes to the import of torch and transformers. A run of Snakemake in `environment()` finds, in
place of `cocal`, a client that hands its arguments, folder, environment and streams to that process. It has imported
all of `cocal`, too; its parent, which serves as well, has not, for jobs that use a changed copy of the package.

    python warm_jobs.py serve FOLDER    the two processes that fork, each with its socket in the folder
    python warm_jobs.py run SOCKET ...  the client; it ends with the job's status

The arguments are those of `cocal`, or `snakemake` and its own, or the file of a script and its own.
"""

import array
import json
import os
import socket
import sys
from functools import cache

LIBRARIES = (
    *("torch", "transformers.modeling_utils", "transformers.cache_utils", "transformers.generation.utils"),
    *("transformers.models.qwen3.modeling_qwen3", "transformers.models.auto.modeling_auto", "transformers.trainer"),
    *("accelerate", "datasets", "trl.trainer.grpo_trainer", "trl.trainer.grpo_config", "safetensors.torch"),
    *("pandas", "pyarrow.parquet", "pyarrow.dataset", "pandera.pandas", "pydantic", "yaml"),
    *("xarray", "h5netcdf", "zarr", "pebble", "matplotlib.pyplot", "matplotlib.backends.backend_pdf"),
    *("snakemake.cli", "snakemake.storage", "smart_open"),
)


def environment() -> dict[str, str]:
    """Variables for Snakemake whose jobs are to be warm and use the package of this process."""
    # bash reads this file at its start, after the workflow has put Python's folder in front of PATH
    import shlex

    start = _server() / "start.sh"
    start.write_text(f'cocal() {{ {shlex.join(command())} "$@"; }}\n')
    return {"BASH_ENV": str(start)}


def command(loaded: bool = True) -> list[str]:
    """The words for `cocal` where a job is to be warm; `loaded` says that it uses the package of this process."""
    place = _server() / ("package" if loaded else "libraries")
    return [sys.executable, "-S", "-E", __file__, "run", str(place)]


def wait_for_ends() -> None:
    """Return when no job of the loaded package runs any more: those whose clients were killed end a moment later."""
    import time
    from contextlib import suppress

    import psutil

    server = int((_server() / "package.pid").read_text())
    for job in psutil.Process(server).children():
        with suppress(psutil.NoSuchProcess):
            while job.status() != psutil.STATUS_ZOMBIE:  # which it stays until the next client comes
                time.sleep(0.01)


@cache
def _server():
    """The folder of the processes that serve jobs of this one, and end with it."""
    # the client imports this module, too, and should start at once
    import atexit
    import subprocess
    import tempfile
    import time
    from pathlib import Path

    from cocal.runtime import numerics

    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    with (folder / "log").open("w") as log:
        words = [sys.executable, __file__, "serve", str(folder)]
        # libraries read the variables of portable numerics when they are loaded, which is before the fork
        variables = {**os.environ, **numerics.environment("portable")}
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log, env=variables)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # the first of both: the server ends with its standard input
    while not ((folder / "package").exists() and (folder / "libraries").exists()):
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    return folder


def _serve(folder: str) -> None:
    """Imports the libraries, and all of the package in a fork, then answers clients until its standard input ends."""
    import gc
    import importlib
    import pkgutil
    import shutil
    import signal
    import traceback
    from contextlib import suppress
    from pathlib import Path

    gc.disable()  # hardly anything that imports leave is garbage
    for library in LIBRARIES:
        importlib.import_module(library)
    assert "cocal" not in sys.modules
    if (child := os.fork()) == 0:
        try:
            import cocal

            for module in pkgutil.walk_packages(cocal.__path__, "cocal."):
                if not module.name.endswith("__main__"):
                    with suppress(ImportError):  # of frameworks that are not installed
                        importlib.import_module(module.name)
        except BaseException:
            traceback.print_exc()
            os.kill(os.getppid(), signal.SIGKILL)  # with which the test ends that waits for both, and shows the error
            os._exit(1)
        Path(folder, "package.pid").write_text(str(os.getpid()))
    gc.freeze()  # nothing of this is looked at by the collections of a job, which would copy its pages
    gc.enable()
    _answer(Path(folder, "libraries" if child else "package"))
    if child:
        os.waitpid(child, 0)
        shutil.rmtree(folder)


def _answer(place) -> None:
    """Forks a process for each client of a socket, until the standard input ends."""
    import select
    from contextlib import suppress

    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{place}.new")
    server.listen(64)
    place.with_name(f"{place.name}.new").rename(place)
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        client, _ = server.accept()
        if os.fork() == 0:
            server.close()
            _keep(client)
        client.close()
        with suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _keep(client: socket.socket) -> None:
    """Starts the job of one client, ends it with the client, and tells its status; never returns."""
    import select
    import signal

    streams = array.array("i")
    text, control, *_ = client.recvmsg(1 << 20, socket.CMSG_LEN(3 * streams.itemsize))
    streams.frombytes(control[0][2])
    job = os.fork()
    if job == 0:
        client.close()
        _job(json.loads(text), streams)
    os.setpgid(job, job)
    for stream in streams:
        os.close(stream)
    ready, _, _ = select.select([client, os.pidfd_open(job)], [], [])
    if client in ready:
        os.killpg(job, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    if client not in ready:
        client.send(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _job(request: dict, streams: array.array) -> None:
    """Runs one command; never returns."""
    import atexit
    import multiprocessing.util
    import runpy
    import traceback

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    program, *words = request["arguments"]
    sys.argv = request["arguments"] if program == "snakemake" or program.endswith(".py") else ["cocal", program, *words]
    status = 1
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        elif program == "snakemake":
            from snakemake.cli import main

            main(words)
        else:
            from cocal.cli import main

            status = main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        multiprocessing.util._exit_function()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(place: str, *arguments: str) -> int:
    request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - light
    client = socket.socket(socket.AF_UNIX)
    client.connect(place)
    streams = array.array("i", [0, 1, 2])
    client.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    return int(client.recv(16) or 1)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    sys.exit(_serve(*words) if command == "serve" else _run(*words))
