"""Source files of question sets. Each is downloaded once, also after interruptions, and verified on every use.

The cache and mirrors have the layout of the hosts (`Source.place`). A cache can therefore serve as a mirror, and files
may be put into the cache by hand.
"""

import http.client
import logging
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.runtime.lock import one_writer
from cocal.store.atomic import write_text
from cocal.store.damage import remedy
from cocal.store.provenance import file_digest
from cocal_study.questions.registry import HOSTS, File, Source

logger = logging.getLogger(__name__)

_ATTEMPTS = 5
"""Number of attempts per file; each continues where the last one stopped."""
_PAUSE = 1.0
"""Seconds before the second attempt; the pause doubles with every further attempt."""
_TIMEOUT = 60.0
"""Seconds without data after which an attempt fails."""
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


class _Broken(Exception):
    """A transfer that failed and may be tried again."""


def fetch(source: Source, file: File, cache: str | Path, mirror: str | None = None, pause: float = _PAUSE) -> Path:
    """The path of the verified file in the cache; the file is downloaded if it is not there.

    Sets may share a file, and studies the cache: while another process downloads the file, this one waits.

    Args:
        cache: Folder of all sources.
        mirror: Base URL that replaces the host: `https://...`, `http://...`, or a folder as `file://...`.
        pause: Seconds before the second attempt.

    Raises:
        ConfigError: if the file cannot be downloaded.
        ContractError: if its checksum or size is wrong.
    """
    target = Path(cache) / source.place(file)
    if target.exists():
        return stored(source, file, cache)
    base = mirror or HOSTS[source.host]
    with one_writer(target):  # two downloads would write into one partial file
        if not target.exists():
            _fetch(base, source.place(file), file, target, pause)
            return target
    return stored(source, file, cache)  # another process has downloaded it


def _fetch(base: str, place: str, file: File, target: Path, pause: float) -> None:
    """Download a file, or resume its download, and verify it."""
    url = f"{base.rstrip('/')}/{place}"
    partial = target.with_name(f".{target.name}.partial")
    resumed = partial.exists()
    logger.info("%s: %s", target, "resuming the download" if resumed else f"downloading from {base}")
    try:
        _transfer(url, partial, pause)
        if resumed and file.sha256 not in (None, file_digest(partial)):
            logger.warning("%s: the part of an earlier download does not fit; downloading the whole file", target)
            partial.unlink()
            _transfer(url, partial, pause)
    except _Broken as error:
        raise ConfigError(
            f"{url}: {error}. Run this again to resume the download; or name a mirror that this machine can reach "
            "(sources.mirror of the study, the environment variable COCAL_MIRROR or --mirror: an http(s):// or file:// "
            f"base of {place}); or copy the file to {target}"
        ) from None
    try:
        _verify(partial, file, url)
    except ContractError:
        partial.unlink()
        raise
    if file.sha256 is None:
        write_text(_record(target), file_digest(partial) + "\n")
    partial.replace(target)


def stored(source: Source, file: File, cache: str | Path) -> Path:
    """The path of the verified file in the cache; nothing is downloaded.

    Raises:
        ContractError: if it is missing, or its checksum or size is wrong.
    """
    target = Path(cache) / source.place(file)
    if not target.exists():
        raise ContractError(f"{target}: no such file; `cocal sources` downloads it")
    _verify(target, file, str(target), f"; {remedy(target, 'delete it and run `cocal sources` again')}")
    if file.sha256 is None:
        if not _record(target).exists():
            write_text(_record(target), file_digest(target) + "\n")
        recorded, found = _record(target).read_text(encoding="utf-8", errors="replace").strip(), file_digest(target)
        if recorded != found:
            raise ContractError(
                f"{target}: sha256 {found}, but {recorded} was recorded when it came ({_record(target)}); "
                + remedy(target, "delete both and run `cocal sources` again")
            )
    return target


def _record(target: Path) -> Path:
    """Path of the checksum of a file for which the registry has none."""
    return target.with_name(f"{target.name}.sha256")


def _verify(path: Path, file: File, name: str, remedy: str = "") -> None:
    size = path.stat().st_size
    found = file_digest(path)
    if file.sha256 not in (None, found):
        raise ContractError(f"{name}: sha256 is {found}, expected {file.sha256} ({size} bytes){remedy}")
    if file.bytes not in (None, size):
        raise ContractError(f"{name}: {size} bytes, expected {file.bytes}{remedy}")


def _transfer(url: str, partial: Path, pause: float) -> None:
    """Copy a URL to `partial`, after the bytes that it already holds."""
    if url.startswith("file://"):
        place = Path(urllib.request.url2pathname(url.removeprefix("file://")))
        if not place.is_file():
            raise _Broken("the mirror has no such file")
        shutil.copyfile(place, partial)
        return
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _download(url, partial)
            return
        except _Broken as error:
            if attempt == _ATTEMPTS:
                raise _Broken(f"{error} (after {attempt} attempts)") from None
            logger.warning("%s: %s; attempt %d of %d follows", url, error, attempt + 1, _ATTEMPTS)
            time.sleep(pause * 2 ** (attempt - 1))


def _download(url: str, partial: Path) -> None:
    """Request the bytes that are missing once, and append them."""
    start = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            appended = answer.status == http.client.PARTIAL_CONTENT
            if appended and not (answer.headers["Content-Range"] or "").startswith(f"bytes {start}-"):
                raise _Broken(f"the server sent other bytes than asked for: {answer.headers['Content-Range']}")
            with partial.open("ab" if appended else "wb") as out:
                shutil.copyfileobj(answer, out, 2**20)
            due, came = answer.headers["Content-Length"], partial.stat().st_size - appended * start
            if due is not None and came != int(due):
                raise _Broken(f"the connection closed after {came} of {due} bytes")
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # the file is probably complete; its checksum is verified later
        if error.code in _TRANSIENT:
            raise _Broken(f"HTTP status {error.code}") from None
        raise ConfigError(
            f"{url}: HTTP status {error.code} ({error.reason}); there is no such file, or this machine may not read it"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(f"{type(error).__name__}: {error}") from None
