"""Source files of question sets. Each is downloaded once, by pooch, and verified on every use.

The cache and mirrors have the layout of the hosts (`Source.place`). A cache can therefore serve as a mirror, and files
may be put into the cache by hand.
"""

import logging
import shutil
import urllib.request
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError, ContractError, first_line
from cocal.store.atomic import write_text
from cocal.store.damage import remedy
from cocal.store.folders import file_digest
from cocal_study.questions.registry import HOSTS, File, Source

logger = logging.getLogger(__name__)

_AGAIN = 4
"""Number of further attempts per file, after pauses of 1, 2, 3 and 4 seconds."""
_TIMEOUT = 60.0
"""Seconds without data after which an attempt fails."""


def fetch(source: Source, file: File, cache: str | Path, mirror: str | None = None, again: int = _AGAIN) -> Path:
    """The path of the verified file in the cache; the file is downloaded if it is not there.

    Sets may share a file, and studies the cache: two processes may download it at once, and either copy is whole. The
    base URL of a mirror replaces the host: `https://...`, `http://...`, or a folder as `file://...`. Raises ConfigError
    if the file cannot be downloaded, and ContractError if its checksum or size is wrong.
    """
    place = source.place(file)
    target, base = Path(cache) / place, (mirror or HOSTS[source.host]).rstrip("/") + "/"
    if target.exists():
        return stored(source, file, cache)
    import pooch  # loads requests
    from requests.exceptions import RequestException

    url, registry = base + place, {place: file.sha256 and f"sha256:{file.sha256}"}
    fetcher = pooch.create(cache, base, registry=registry, retry_if_failed=again)
    download = _copy if base.startswith("file://") else pooch.HTTPDownloader(timeout=_TIMEOUT)
    pooch.get_logger().setLevel(logging.ERROR)
    logger.info("%s: downloading from %s", target, base)
    try:
        fetcher.fetch(place, downloader=download)
    except (RequestException, FileNotFoundError) as error:
        raise ConfigError(
            f"{url}: {first_line(error)}. Run this again; or name a mirror that this machine can reach (sources.mirror "
            "of the study, the environment variable COCAL_MIRROR or --mirror: an http(s):// or file:// base of "
            f"{place}); or copy the file to {target}"
        ) from None
    except ValueError as error:
        raise ContractError(f"{url}: {first_line(error)}") from None
    try:
        return stored(source, file, cache)
    except ContractError:
        target.unlink()  # or every later run would refuse it, too
        raise


def _copy(url: str, output: str, _: Any) -> None:
    """Copy a file from a mirror that is a folder, instead of downloading it."""
    shutil.copyfile(urllib.request.url2pathname(url.removeprefix("file://")), output)


def stored(source: Source, file: File, cache: str | Path) -> Path:
    """The path of the verified file in the cache; nothing is downloaded. Raises ContractError if it is missing, or
    its checksum is wrong."""
    target = Path(cache) / source.place(file)
    if not target.exists():
        raise ContractError(f"{target}: no such file; `cocal sources` downloads it")
    digest, size = file_digest(target), target.stat().st_size
    advice = remedy(target, "delete it and run `cocal sources` again")
    if file.sha256 not in (None, digest):
        raise ContractError(f"{target}: sha256 is {digest}, expected {file.sha256} ({size} bytes); {advice}")
    if file.sha256 is None:
        record = target.with_name(f"{target.name}.sha256")
        if not record.exists():
            write_text(record, digest + "\n")
        recorded = record.read_text(encoding="utf-8", errors="replace").strip()
        if recorded != digest:
            raise ContractError(
                f"{target}: sha256 {digest}, but {recorded} was recorded when it came ({record}); "
                + remedy(target, "delete both and run `cocal sources` again")
            )
    return target
