"""A server of `cocal serve` in a process of its own, and its clients."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests

MICRO = ("--max-model-len", "192", "--served-model-name", "micro")
"""Flags of every server."""
PREEMPTING = ("--max-num-seqs", "24", "--max-num-batched-tokens", "64", "--kv-cache-memory-bytes")
"""Flags of a server that preempts requests, and reads prompts in several steps; the bytes of a small cache follow."""
START = 1800
"""Seconds in which a server must have started, also on a busy machine."""


class Server:
    """A client of the server on a port of this machine."""

    def __init__(self, port: int, process: subprocess.Popen):
        self.port, self.process = port, process
        self.headers = {"Content-Type": "application/json"}

    def open(self, path: str, body=None, text: str | None = None) -> requests.Response:
        """The answer to a body, or to a text, which is sent as it is; its content has not been read."""
        content = json.dumps(body) if body is not None else text
        session = requests.Session()
        session.trust_env = False  # no proxy lies between
        method, given = ("GET", None) if content is None else ("POST", content.encode())
        place = f"http://127.0.0.1:{self.port}{path}"
        return session.request(method, place, data=given, headers=self.headers, timeout=START, stream=True)

    def ask(self, path: str, body=None, text: str | None = None) -> tuple[int, dict | str]:
        """Status and content of an answer."""
        with self.open(path, body, text) as response:
            content = response.content.decode()
            is_json = response.headers.get("content-type", "").startswith("application/json")
            return response.status_code, json.loads(content) if is_json else content

    def stream(self, path: str, body: dict, stop_after: int | None = None) -> list[dict]:
        """The events of a stream; with `stop_after`, the client goes after so many of them."""
        found = []
        with self.open(path, {**body, "stream": True}) as response:
            assert response.status_code == 200, response.content
            for line in response.iter_lines():
                if line.startswith(b"data: {"):
                    found.append(json.loads(line[6:]))
                if len(found) == stop_after:
                    break
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        _, text = self.ask("/metrics")
        lines = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def idle(self) -> None:
        """Wait until no request is left."""
        for _ in range(300):
            if self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting") == 0:
                return
            time.sleep(0.2)
        raise AssertionError("requests are left")

    def memory(self) -> int:
        """Bytes of memory of its processes."""
        first = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in (first, *first.children(recursive=True)))


def _answers(server: Server) -> bool:
    try:
        return server.ask("/health")[0] == 200
    except OSError:
        return False


@contextmanager
def served(companion: Path, model: Path, log: Path, *flags: str):
    """Start `cocal serve` and wait until it answers; its output goes to a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--companion", companion, "--model", model, "--host", "127.0.0.1", "--port", port, *MICRO, *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cocal", "serve", *map(str, words)], stdout=output, stderr=output, env=environment
        )
    try:
        one = Server(port, process)
        end = time.monotonic() + START
        while not _answers(one):
            assert process.poll() is None, log.read_text()[-5000:]
            assert time.monotonic() < end, "the server takes too long to start"
            time.sleep(1)
        yield one
    finally:
        workers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        for worker in workers:  # those of a server that had to be killed
            if worker.is_running():
                worker.kill()
