"""Trainings of one process or two, as `cocal.policy.launch` starts them, but forked by the process of `warm_jobs`.

The processes get the environment that `accelerate launch` gives them. One training of one process and one of two are
started as users start them (`trained` in test_training.py and in test_sharded.py).
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import warm_jobs


def run(words: list[str], environment: Mapping[str, str] = os.environ) -> str:
    """What a training says, to its end.

    Args:
        words: Its command.
        environment: Its variables.
    """
    with _processes(words, environment, stderr=subprocess.PIPE) as processes:
        first, *others = (process.communicate()[1] for process in processes)
        assert not any(process.returncode for process in processes), "\n".join([first, *others])[-5000:]
    return first


def kill_when(found: Path, words: list[str], environment: Mapping[str, str] = os.environ) -> None:
    """Kill all processes of a training as soon as it has written a file."""
    with _processes(words, environment, stderr=subprocess.DEVNULL) as processes:
        waited = time.monotonic()
        while not found.exists():
            assert not any(process.poll() for process in processes)
            assert time.monotonic() - waited < 300
            time.sleep(0.02)


@contextmanager
def _processes(words: list[str], environment: Mapping[str, str], stderr: int) -> Iterator[list[subprocess.Popen]]:
    """The clients of a training's processes, the first one first; those that are left are killed in the end."""
    if words[0] == "cocal":
        arguments, own = words[1:], [{}]
    else:
        arguments, own = _launched(words[2:])
    clients = [
        subprocess.Popen(
            [*warm_jobs.command(), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            env={**environment, **variables},
        )
        for variables in own
    ]
    try:
        yield clients
    finally:
        for client in clients:
            client.kill()  # and the process that serves it kills the job
            client.wait()
        warm_jobs.wait_for_ends()


def _launched(flags: list[str]) -> tuple[list[str], list[dict[str, str]]]:
    """The arguments of every process that `accelerate launch` starts, and each one's variables."""
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    options = launch_command_parser().parse_args(flags)
    prepared = prepare_multi_gpu_env(options) | {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}
    shared = {name: text for name, text in prepared.items() if os.environ.get(name) != text}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.master_port)}
    shared |= {"WORLD_SIZE": str(options.num_processes), "LOCAL_WORLD_SIZE": str(options.num_processes)}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(options.num_processes)]
    script = (
        options.training_script_args if options.module else [options.training_script, *options.training_script_args]
    )
    return script, [shared | rank for rank in ranks]
