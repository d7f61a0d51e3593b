"""Source files: verified, cached, tried again, from hosts that fail in every way. A local server plays the host."""

import hashlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cocal import cli
from cocal.errors import ConfigError, ContractError
from cocal_study.questions.registry import Source
from cocal_study.questions.sources import fetch, stored

CONTENT = bytes(range(256)) * 40_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def source(path="data/set.jsonl", **facts):
    return Source(host="github", repository="owner/name", revision="0" * 40, files=[{"path": path} | facts])


PINNED = source(sha256=SHA256, bytes=len(CONTENT))
PLACE = f"owner/name/{'0' * 40}/data/set.jsonl"


class _Host(ThreadingHTTPServer):
    """Serves CONTENT; `cuts` says after how many bytes each connection breaks, `statuses` what is answered first."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.cuts, self.statuses, self.asked = [], [], []
        self.content = CONTENT

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        host = self.server
        host.asked.append(self.path)
        if host.statuses:
            self.send_error(host.statuses.pop(0))
            return
        body = host.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: host.cuts.pop(0)] if host.cuts else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def host():
    with _Host() as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        yield host
        host.shutdown()


def get(host, cache, of=PINNED):
    return fetch(of, of.files[0], cache, host.base, again=1)


def test_a_file_is_downloaded_once_to_the_place_it_has_on_the_host(host, tmp_path):
    path = get(host, tmp_path)
    assert path == tmp_path / PLACE
    assert path.read_bytes() == CONTENT
    assert get(host, tmp_path) == stored(PINNED, PINNED.files[0], tmp_path) == path
    assert host.asked == [f"/{PLACE}"]


def test_a_broken_connection_is_tried_again_and_leaves_no_part(host, tmp_path):
    host.cuts = [3_000_000]
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / PLACE).parent.iterdir()] == ["set.jsonl"]
    host.cuts = [1_000_000, 0]
    with pytest.raises(ConfigError, match=r"IncompleteRead.*or copy the file to"):
        get(host, tmp_path / "other", source())
    assert [path for path in (tmp_path / "other").rglob("*") if path.is_file()] == []


def test_a_busy_server_is_asked_again_and_a_missing_file_is_told(host, tmp_path):
    host.statuses = [503]
    assert get(host, tmp_path).read_bytes() == CONTENT
    assert len(host.asked) == 2
    host.statuses = [404] * 9
    with pytest.raises(ConfigError, match="404 Client Error"):
        get(host, tmp_path / "other")


def test_a_wrong_checksum_names_expected_and_found_and_leaves_nothing(host, tmp_path):
    host.content = CONTENT[:-1] + b"?"
    found = hashlib.sha256(host.content).hexdigest()
    with pytest.raises(ContractError, match=rf"set\.jsonl: SHA256 .* expected sha256:{SHA256} but got {found}"):
        get(host, tmp_path)
    assert not list((tmp_path / PLACE).parent.iterdir())


def test_a_wrong_size_is_an_error_where_no_checksum_is_known(host, tmp_path):
    with pytest.raises(ContractError, match=rf"{len(CONTENT)} bytes, expected 7"):
        get(host, tmp_path, source(bytes=7))


def test_a_damaged_cache_is_an_error_and_is_not_replaced(host, tmp_path):
    get(host, tmp_path).write_bytes(b"damaged")
    with pytest.raises(ContractError, match=rf"{PLACE}: sha256 is .*, expected {SHA256} .*; it lies outside results/"):
        get(host, tmp_path)


def test_an_unknown_checksum_is_recorded_and_holds_from_then_on(host, tmp_path):
    free = source()
    path = get(host, tmp_path, free)
    assert path.with_name("set.jsonl.sha256").read_text() == f"{SHA256}\n"
    assert stored(free, free.files[0], tmp_path) == path
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(ContractError, match=f"but {SHA256} was recorded"):
        stored(free, free.files[0], tmp_path)


def test_an_unreachable_host_says_what_can_be_done(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        base = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ConfigError) as caught:
        fetch(PINNED, PINNED.files[0], tmp_path, base, again=0)
    for part in (f"{base}/{PLACE}", "refused", "sources.mirror", "COCAL_MIRROR", f"the file to {tmp_path / PLACE}"):
        assert part in str(caught.value)


def test_a_folder_is_a_mirror_and_a_file_put_by_hand_is_verified(tmp_path):
    placed = tmp_path / "mirror" / PLACE
    placed.parent.mkdir(parents=True)
    placed.write_bytes(CONTENT)
    copied = fetch(PINNED, PINNED.files[0], tmp_path / "cache", f"file://{tmp_path}/mirror")
    assert copied.read_bytes() == CONTENT
    assert stored(PINNED, PINNED.files[0], tmp_path / "mirror") == placed
    with pytest.raises(ConfigError, match="No such file"):
        fetch(PINNED, PINNED.files[0], tmp_path / "other", f"file://{tmp_path}/nowhere")
    with pytest.raises(ContractError, match="no such file; `cocal sources` downloads it"):
        stored(PINNED, PINNED.files[0], tmp_path / "other")


def test_command_takes_the_mirror_from_the_environment(host, tmp_path, monkeypatch, capsys):
    registry = tmp_path / "datasets.yaml"
    registry.write_text(
        "sets:\n  tiny:\n    title: Tiny\n    licence: none\n    loader: jsonl\n    rows: 1\n    source:\n"
        f"      host: github\n      repository: owner/name\n      revision: '{'0' * 40}'\n"
        f"      files: [{{path: data/set.jsonl, sha256: {SHA256}}}]\n"
    )
    command = ["sources", "--registry", str(registry), "--cache", str(tmp_path / "cache")]
    monkeypatch.setenv("COCAL_MIRROR", host.base)
    assert cli.main([*command, "--output", str(tmp_path / "sources.json")]) == 0
    assert SHA256 in (tmp_path / "sources.json").read_text()
    assert cli.main([*command, "--sets", "tinny"]) == 2
    assert "no data set 'tinny' is registered; did you mean 'tiny'?" in capsys.readouterr().err
