"""Commands without the start of Python: processes that have imported what takes long fork for each of them.

Most of a small job's time goes to the import of torch and transformers. A run of Snakemake in `environment()` finds, in
place of `cocal`, a client that hands its arguments, folder, environment and streams to a process that has imported all
that jobs use. There are three such processes, which all parallel processes of the tests share:

    plans      has imported Snakemake and what our workflow computes when it plans
    libraries  has imported the libraries that jobs use, but nothing of the package, of which a test may change a copy
    package    has imported all of the package, too

    python warm_jobs.py serve FOLDER PROCESS  the three, each with its socket in the folder, until the process of
                                              that number ends
    python warm_jobs.py run SOCKET ...        the client; it ends with the job's status

The arguments are those of `cocal`, or `snakemake` and its own, or the file of a script and its own.
"""

import array
import json
import os
import socket
import sys
from functools import cache

SNAKEMAKE = ("snakemake.cli", "snakemake.storage", "smart_open")
LIBRARIES = (
    *("torch", "transformers.modeling_utils", "transformers.cache_utils", "transformers.generation.utils"),
    *("transformers.models.qwen3.modeling_qwen3", "transformers.models.auto.modeling_auto", "transformers.trainer"),
    *("accelerate", "datasets", "trl.trainer.grpo_trainer", "trl.trainer.grpo_config", "safetensors.torch"),
    *("pandas", "pyarrow.parquet", "pyarrow.dataset", "pandera.pandas", "pydantic", "yaml"),
    *("xarray", "h5netcdf", "zarr", "pebble", "matplotlib.pyplot", "matplotlib.backends.backend_pdf"),
)
_STARTED = []
"""The process that this one has started to serve, if any."""


def environment() -> dict[str, str]:
    """Variables for Snakemake whose jobs are to be warm and use the package of this process."""
    # bash reads this file at its start, after the workflow has put Python's folder in front of PATH
    import shlex

    start = _server() / f"start-{_worker(os.environ)}.sh"
    start.write_text(f'cocal() {{ {shlex.join(command())} "$@"; }}\n')
    return {"BASH_ENV": str(start)}


def command(server: str = "package") -> list[str]:
    """The words for `cocal`, or in front of `snakemake`, where this server is to fork; they wait until it can."""
    import time

    place, failed = (_server() / name for name in (server, "failed"))
    while not place.exists():
        if failed.exists():
            raise RuntimeError((_server() / "log").read_text())
        time.sleep(0.05)
    return [sys.executable, "-S", "-E", __file__, "run", str(place)]


def wait_for_ends() -> None:
    """Return when no job of this test process runs any more: those whose clients were killed end a moment later."""
    import time

    while any((_server() / "jobs").glob(f"{_worker(os.environ)}-*")):
        time.sleep(0.01)


def _worker(environment) -> str:
    """The name of a process of the tests among the parallel ones, in the variables that its jobs get from it."""
    return environment.get("PYTEST_XDIST_WORKER", "alone")


@cache
def _server():
    """The folder of the processes that serve all parallel tests, and end with these."""
    # the client imports this module, too, and should start at once
    import subprocess
    import tempfile
    import uuid
    from pathlib import Path

    from filelock import FileLock

    from cocal.runtime import numerics

    last = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir(), f"warm-{os.environ.get('PYTEST_XDIST_TESTRUNUID', uuid.uuid4().hex)}")
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "log").exists():
            words = [sys.executable, __file__, "serve", str(folder), str(last)]
            # libraries read the variables of portable numerics when they are loaded, which is before the fork
            variables = {**os.environ, **numerics.environment("portable")}
            with (folder / "log").open("w") as log:
                _STARTED.append(
                    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
                )
    return folder


def _serve(folder: str, last: str) -> None:
    """Starts the three processes, which answer clients until another process ends."""
    import shutil
    from contextlib import suppress
    from pathlib import Path

    place, end = Path(folder), os.pidfd_open(int(last))
    children = []
    for name, libraries, load in (("plans", SNAKEMAKE, _load_plans), ("package", LIBRARIES, _load_package)):
        _import(libraries)
        if (child := os.fork()) == 0:
            load()
            return _answer(place / name, end)
        children.append(child)
    assert "cocal" not in sys.modules
    _answer(place / "libraries", end)
    for child in children:
        with suppress(ChildProcessError):  # it has ended before
            os.waitpid(child, 0)
    shutil.rmtree(place)


def _import(modules) -> None:
    """Imports modules, but for those of frameworks that are not installed."""
    import gc
    import importlib
    from contextlib import suppress

    gc.disable()  # hardly anything that imports leave is garbage
    for module in modules:
        with suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # nothing of this is looked at by the collections of a job, which would copy its pages
    gc.enable()


def _load_package() -> None:
    import pkgutil

    import cocal

    names = (module.name for module in pkgutil.walk_packages(cocal.__path__, "cocal."))
    _import(name for name in names if not name.endswith("__main__"))


def _load_plans() -> None:
    """Plans the smoke study once, which imports and computes what every plan does."""
    import tempfile
    from contextlib import redirect_stderr, redirect_stdout, suppress
    from io import StringIO
    from pathlib import Path

    import snakemake.cli
    import snakemake.workflow

    root = Path(__file__).resolve().parents[1]
    snakemake.workflow.parse = _remembering(snakemake.workflow.parse)
    flags = ["--snakefile", str(root / "Snakefile"), "--configfile", str(root / "config/smoke.yaml")]
    flags += ["--workflow-profile", str(root / "profiles/default"), "--cores", "1", "--dry-run"]
    said, nowhere = StringIO(), tempfile.TemporaryDirectory()
    with redirect_stdout(said), redirect_stderr(said), nowhere as folder, suppress(SystemExit):
        snakemake.cli.main([*flags, "--directory", folder])
    assert "Job stats:" in said.getvalue(), said.getvalue()
    os.chdir(root)
    _import(("cocal.judging.prompts", "cocal.policy.launch", "cocal.policy.objectives", "cocal.questions.registry"))


def _remembering(parse):
    """Snakemake's translation of files of rules to Python, which translates a file once."""
    known = {}

    def remembered(path, workflow, linemap, rulecount=0):
        file = path.get_path_or_uri(secret_free=True)
        state = (file, os.stat(file).st_mtime_ns, rulecount)  # noqa: PTH116 - light
        if state not in known:
            known[state] = parse(path, workflow, linemap=linemap, rulecount=rulecount), linemap
        translated, lines = known[state]
        linemap |= lines
        return translated

    return remembered


def _answer(place, last: int) -> None:
    """Forks a process for each client of a socket, until a process ends."""
    import select
    from contextlib import suppress

    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{place}.new")
    server.listen(64)
    place.with_name(f"{place.name}.new").rename(place)
    while True:
        ready, _, _ = select.select([server, last], [], [])
        if last in ready:
            return
        client, _ = server.accept()
        if os.fork() == 0:
            server.close()
            _keep(client, place.parent / "jobs")
        client.close()
        with suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _keep(client: socket.socket, jobs) -> None:
    """Starts the job of one client, ends it with the client, and tells its status; never returns."""
    import select
    import signal

    streams = array.array("i")
    text, control, *_ = client.recvmsg(1 << 20, socket.CMSG_LEN(3 * streams.itemsize))
    streams.frombytes(control[0][2])
    request = json.loads(text)
    noted = jobs / f"{_worker(request['environment'])}-{os.getpid()}"
    noted.touch()
    job = os.fork()
    if job == 0:
        client.close()
        _job(request, streams)
    os.setpgid(job, job)
    for stream in streams:
        os.close(stream)
    ready, _, _ = select.select([client, os.pidfd_open(job)], [], [])
    if client in ready:
        os.killpg(job, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    noted.unlink()
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


def _main(what: str, *words: str) -> int | None:
    if what == "run":
        return _run(*words)
    try:
        return _serve(*words)
    except BaseException:
        open(f"{words[0]}/failed", "w").close()  # noqa: PTH123 - light
        raise


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
