"""Reading and writing of JSON files, tables and labelled arrays, which are sealed and carry their provenance.

A sealed file, also one of safetensors, keeps its provenance as text, in which `BLANK` is room for a digest; `seal`
computes it over the finished file, with the room still blank, and puts it there. A reader that computes it again
notices every changed byte, also those outside the checksums of the format (Parquet's cover pages, but no headers).
"""

import hashlib
import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path, write_text
from cocal.store.damage import absent, is_result, remedy, unreadable
from cocal.store.provenance import file_digest

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from cocal.store.contracts import Contract

KEY = "seal"
"""Name of the provenance attribute."""
BLANK = "seal:" + "0" * 64
"""Value of the attribute in a file that is not sealed yet."""

BESIDE = ".sha256"
"""Ending of the hidden file that seals what has no room for a seal."""
_MARK = re.compile(rb"seal:[0-9a-f]{64}")
_SEARCHED = 8 * 2**20
"""Bytes at either end of a file in which its provenance lies."""


def seal(path: str | Path) -> None:
    """Put the digest of a finished file into the file, whose provenance holds `BLANK` once."""
    with Path(path).open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as content:
        place = _place(content)
        content[place : place + len(BLANK)] = _seal_of(content, place)


def stated_seal(path: str | Path) -> str | None:
    """The digest that a sealed file states, 64 hexadecimal digits, without a look at its content; None without a
    seal."""
    with _mapped(path) as content:
        place = _place(content)
        return None if place is None else content[place + len("seal:") : place + len(BLANK)].decode()


def check_seal(path: str | Path) -> None:
    """Compare a file with the digest that it states, or that lies beside it (`seal_beside`). A file without a seal,
    such as a user's own, is let through.

    Raises:
        ContractError: if a byte has changed since the file was written.
    """
    with _mapped(path) as content:
        place = _place(content)
        if place is None:
            stated = _stated_beside(Path(path))
            changed = stated is not None and stated != hashlib.sha256(content).hexdigest()
        else:
            changed = content[place : place + len(BLANK)] != _seal_of(content, place)
    if changed:
        raise ContractError(
            f"{path}: the file has changed since it was written (its content does not match its seal); {remedy(path)}"
        )


def seal_beside(*files: Path) -> None:
    """Write the digests of finished results of one stem into a hidden file beside them, as `sha256sum` writes them.

    So are sealed the forms of a table or figure: CSV has no room for a seal, and a page should not show one. A file
    outside `results/` is somebody's own.
    """
    if not is_result(files[0]):
        return
    write_text(_beside(files[0]), "".join(f"{file_digest(file)}  {file.name}\n" for file in files))


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.stem}{BESIDE}")


def _stated_beside(path: Path) -> str | None:
    try:
        lines = _beside(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition("  ")[0] for line in lines if line.partition("  ")[2] == path.name), None)


def read_numbers(path: str | Path, columns: Iterable[str] = (), **options: Any) -> "pd.DataFrame":
    """The numbers of a table or figure, or what was gathered of one, as `cocal.metrics.shown.csv_text` writes them.

    Args:
        columns: Columns that it must have.
        options: Further arguments of `pandas.read_csv`.

    Raises:
        ContractError: if the file is missing, has changed since it was written, or is no such table.
    """
    import pandas as pd

    if not Path(path).is_file():
        raise ContractError(absent(path))
    check_seal(path)
    try:
        found = pd.read_csv(path, keep_default_na=False, na_values=["NaN"], **options)
    except ValueError as error:
        raise ContractError(unreadable(path, "CSV file", error)) from None
    if missing := [name for name in columns if name not in found]:
        raise ContractError(unreadable(path, "CSV file", f"it has no column {missing[0]!r}"))
    return found


@contextmanager
def _mapped(path: str | Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file, which are not read before they are looked at."""
    with Path(path).open("rb") as stream:
        if not stream.read(1):  # an empty file cannot be mapped
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _place(content: mmap.mmap | bytes) -> int | Any:
    """Where the seal begins, None without one; it is sought from the end of the last bytes, then in the first ones."""
    for start in (max(len(content) - _SEARCHED, 0), 0):
        place = content.rfind(b"seal:", start, start + _SEARCHED)
        while place >= 0:
            if _MARK.match(content, place):
                return place
            place = content.rfind(b"seal:", start, place)
    return None


def _seal_of(content: mmap.mmap | bytes, place: int) -> bytes:
    """The right seal of a file: the SHA-256 of its bytes, with the seal itself taken for blank."""
    found = hashlib.sha256()
    with memoryview(content) as view, view[:place] as before, view[place + len(BLANK) :] as after:
        for part in (before, BLANK.encode(), after):
            found.update(part)
    return b"seal:" + found.hexdigest().encode()


PROVENANCE_KEY = "provenance"
"""Name of the member of a JSON object that holds the provenance attributes."""


def write_document(path: str | Path, content: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
    """Write a JSON object atomically, with its provenance attributes under the key "provenance", and seal it."""
    sealed = {**content, PROVENANCE_KEY: {**attributes, KEY: BLANK}}
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        seal(partial)


def read_document(path: str | Path) -> dict[str, Any]:
    """The content of a JSON object, without its provenance; the file may be a user's own, without any.

    Raises:
        ContractError: if the file is missing, has changed since it was written, or is no JSON object.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractError(absent(path)) from None
    except (OSError, ValueError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    if not isinstance(content, dict):
        raise ContractError(unreadable(path, "JSON file", f"it holds a {type(content).__name__}, not an object"))
    check_seal(path)
    content.pop(PROVENANCE_KEY, None)
    return content


def write_frame(path: str | Path, frame: "pd.DataFrame", contract: "Contract", attributes: Mapping[str, str]) -> None:
    """Check a table and write it atomically with its provenance attributes, page checksums and seal.

    Raises:
        ContractError: if it breaks the contract; the message names the file, the column and the first bad rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    checked = contract.check(frame, str(path))
    table = pa.Table.from_pandas(checked, schema=pa.schema(list(contract.types.items())), preserve_index=False)
    table = table.replace_schema_metadata({b"cocal": json.dumps({**attributes, KEY: BLANK}, sort_keys=True).encode()})
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)
        seal(partial)


def read_frame(path: str | Path, contract: "Contract", columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read one Parquet file, or a folder of them in the order of their names, and check it.

    Args:
        columns: Columns to read and check; by default all columns of the contract.

    Returns:
        The rows in file order with index 0 to n - 1; a list column holds NumPy arrays.

    Raises:
        ContractError: if the file is missing or unreadable, has changed since it was written, or breaks the contract.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cocal.store.parquet import UNREADABLE, check_lists, damaged, read_table

    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ContractError(f"{path}: the folder holds no .parquet file; {remedy(path)}")
    wanted = list(contract.types if columns is None else columns)
    tables = []
    for file in files:
        if not file.exists():
            raise ContractError(absent(file))
        try:
            check_seal(file)
            present = pq.read_schema(file).names
            missing = [name for name in wanted if name not in present]
            if missing:
                raise ContractError(f"{file}: column {missing[0]!r} is missing; contract: {contract.name}")
            tables.append(read_table(file, wanted))
        except UNREADABLE as error:
            raise damaged(file, error) from None
        for name in wanted:
            check_lists(tables[-1][name], contract.types[name], f"{file}: column {name!r}")
    table = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
    return contract.check(table.to_pandas(), str(path), columns=wanted)


def write_dataset(path: str | Path, dataset: "xr.Dataset", attributes: Mapping[str, str]) -> None:
    """Write an xarray data set atomically as NetCDF 4 with its provenance attributes, and seal it.

    The file is built in memory: where HDF5 cannot write to a disk, it ends the process with a segmentation fault.
    """
    content = dataset.assign_attrs({**attributes, KEY: BLANK}).to_netcdf(engine="h5netcdf")
    with atomic_path(path) as partial:
        partial.write_bytes(content)
        seal(partial)


def read_dataset(path: str | Path) -> "xr.Dataset":
    """Read a whole NetCDF file into memory.

    Raises:
        ContractError: if the file is missing, has changed since it was written, or is not NetCDF.
    """
    import xarray as xr

    if not Path(path).exists():
        raise ContractError(absent(path))
    try:
        check_seal(path)
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except ContractError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ContractError(unreadable(path, "NetCDF file", error)) from None
    dataset.attrs.pop(KEY, None)
    return dataset


PARENTS = "parents"
"""Name of the attribute that names a product's parents, as JSON."""
MADE_OF = "% made of "
"""How the line of a LaTeX table begins that names its parents; a figure names them in the metadata of its PNG."""


def read_provenance(path: str | Path) -> dict[str, str]:
    """Provenance attributes of a file or a feature store; empty if it carries none.

    Raises:
        ContractError: if it is missing or cannot be read.
    """
    path = Path(path)
    if not path.exists():
        raise ContractError(absent(path))
    suffix = ".zarr" if (path / "zarr.json").exists() else path.suffix
    kind, read = _KINDS.get(suffix, ("file", lambda _: {}))
    try:
        found = dict(read(path))
    except Exception as error:  # each library has errors of its own about a damaged file
        raise ContractError(unreadable(path, kind, error)) from None
    return {name: text for name, text in found.items() if name not in (KEY, "coordinates")}


def _of_table(path: Path) -> Mapping[str, str]:
    import pyarrow.parquet as pq

    return json.loads((pq.read_schema(path).metadata or {}).get(b"cocal", b"{}"))


def _of_arrays(path: Path) -> Mapping[str, str]:
    import h5py

    with h5py.File(path) as file:
        return {name: str(text) for name, text in file.attrs.items() if isinstance(text, str)}


def _of_companions(path: Path) -> Mapping[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return json.loads((file.metadata() or {}).get("cocal", "{}")).get("provenance", {})


def _of_exhibit(path: Path) -> Mapping[str, str]:
    """The parents of a table, from its LaTeX, or of a figure, from its PNG."""
    table, picture = path.with_suffix(".tex"), path.with_suffix(".png")
    found = []
    if table.exists():
        lines = table.read_text(encoding="utf-8").splitlines()
        found = [line.removeprefix(MADE_OF) for line in lines if line.startswith(MADE_OF)]
    elif picture.exists():
        from PIL import Image

        with Image.open(picture) as image:
            text = getattr(image, "text", {})  # a PNG has them
            found = [text[PARENTS]] if PARENTS in text else []
    return {"stage": "exhibit", PARENTS: found[-1]} if found else {}


_KINDS: dict[str, tuple[str, Callable[[Path], Mapping[str, Any]]]] = {
    ".parquet": ("Parquet file", _of_table),
    ".nc": ("NetCDF file", _of_arrays),
    ".json": ("JSON file", lambda path: json.loads(path.read_text(encoding="utf-8")).get(PROVENANCE_KEY) or {}),
    ".safetensors": ("safetensors file", _of_companions),
    ".zarr": ("feature store", lambda path: json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]),
    **dict.fromkeys((".tex", ".html", ".csv", ".pdf", ".png"), ("exhibit", _of_exhibit)),
}
"""By the ending of a file: its name in errors, and the function that reads its attributes."""
