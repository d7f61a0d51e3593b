"""Source files: downloaded once, verified and cached. A folder plays the host."""

import hashlib
import socket
from pathlib import Path

import pytest

from cocal import cli
from cocal.errors import ConfigError, ContractError
from cocal_study.questions.registry import Source
from cocal_study.questions.sources import fetch, stored

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def source(path="data/set.jsonl", **facts):
    return Source(host="github", repository="owner/name", revision="0" * 40, files=[{"path": path} | facts])


PINNED = source(sha256=SHA256)
PLACE = f"owner/name/{'0' * 40}/data/set.jsonl"


@pytest.fixture
def host(tmp_path) -> Path:
    """The file in a folder that is a mirror."""
    placed = tmp_path / "mirror" / PLACE
    placed.parent.mkdir(parents=True)
    placed.write_bytes(CONTENT)
    return placed


@pytest.fixture
def get(tmp_path, host):
    """Fetches a source from the mirror into a cache."""
    return lambda of=PINNED, cache="cache": fetch(of, of.files[0], tmp_path / cache, f"file://{tmp_path}/mirror")


def test_a_file_is_taken_once_to_the_place_it_has_on_the_host(host, get, tmp_path):
    path = get()
    assert path == tmp_path / "cache" / PLACE
    assert path.read_bytes() == CONTENT
    assert stored(PINNED, PINNED.files[0], tmp_path / "mirror") == host, "a cache and a mirror have one layout"
    host.unlink()
    assert get() == stored(PINNED, PINNED.files[0], tmp_path / "cache") == path
    with pytest.raises(ConfigError, match=r"No such file.*or copy the file to"):
        get(cache="other")
    assert [path for path in (tmp_path / "other").rglob("*") if path.is_file()] == []
    with pytest.raises(ContractError, match="no such file; `cocal sources` downloads it"):
        stored(PINNED, PINNED.files[0], tmp_path / "other")


def test_a_wrong_checksum_names_expected_and_found_and_leaves_nothing(host, get, tmp_path):
    host.write_bytes(CONTENT[:-1] + b"?")
    found = hashlib.sha256(host.read_bytes()).hexdigest()
    with pytest.raises(ContractError, match=rf"set\.jsonl: SHA256 .* expected sha256:{SHA256} but got {found}"):
        get()
    assert not list((tmp_path / "cache" / PLACE).parent.iterdir())


def test_a_damaged_cache_is_an_error_and_is_not_replaced(get):
    get().write_bytes(b"damaged")
    with pytest.raises(ContractError, match=rf"{PLACE}: sha256 is .*, expected {SHA256} .*; it is a file of your own"):
        get()


def test_an_unknown_checksum_is_recorded_and_holds_from_then_on(get):
    path = get(source())
    assert path.with_name("set.jsonl.sha256").read_text() == f"{SHA256}\n"
    assert get(source()) == path
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(ContractError, match=f"but {SHA256} was recorded"):
        get(source())


def test_an_unreachable_host_says_what_can_be_done(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        base = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ConfigError) as caught:
        fetch(PINNED, PINNED.files[0], tmp_path, base, again=0)
    for part in (f"{base}/{PLACE}", "refused", "sources.mirror", "COCAL_MIRROR", f"the file to {tmp_path / PLACE}"):
        assert part in str(caught.value)


def test_command_takes_the_mirror_from_the_environment(host, tmp_path, monkeypatch, capsys):
    registry = tmp_path / "datasets.yaml"
    registry.write_text(
        "sets:\n  tiny:\n    title: Tiny\n    licence: none\n    loader: jsonl\n    rows: 1\n    source:\n"
        f"      host: github\n      repository: owner/name\n      revision: '{'0' * 40}'\n"
        f"      files: [{{path: data/set.jsonl, sha256: {SHA256}}}]\n"
    )
    command = ["sources", "--registry", str(registry), "--cache", str(tmp_path / "cache")]
    monkeypatch.setenv("COCAL_MIRROR", f"file://{tmp_path}/mirror")
    assert cli.main([*command, "--output", str(tmp_path / "sources.json")]) == 0
    assert SHA256 in (tmp_path / "sources.json").read_text()
    assert cli.main([*command, "--sets", "tinny"]) == 2
    assert "no data set 'tinny' is registered; did you mean 'tiny'?" in capsys.readouterr().err
