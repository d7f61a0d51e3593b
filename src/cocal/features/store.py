"""Hidden-state features on disk: one labelled Zarr store per set of responses.

A store has the dimensions response x layer x pooling x hidden, the coordinates `response_id` (int64), `question_id`
(text), `layer` (int64, zero-based block index) and `pooling` (text), and the variables `features` and `length` (int64,
number of pooled tokens; 0 of an unwritten row). Zarr lacks bfloat16, stored as uint16 (attribute `number_format`).

A chunk holds the rows of one write for one layer and one pooling. Reading a layer or a pooling therefore does not
touch the others, and replacing a step's rows replaces whole files. Chunks have a checksum and no compression: the
mantissas of hidden states are noise, of which the best compressor leaves 92 % in float32 and 80 % in bfloat16, two to
four times more slowly. Large chunks are read faster, as `benchmarks/store.py` measures.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cocal.errors import ContractError
from cocal.store import atomic_path
from cocal.store.damage import absent, remedy, unreadable

if TYPE_CHECKING:
    import pandas as pd
    import zarr

NumberFormat = Literal["float32", "bfloat16"]

_MISSING = {"float32": np.float32(np.nan), "bfloat16": np.uint16(0x7FC0)}
"""The fill value NaN, which is read where a chunk was lost. Writers refuse NaN, so it always marks missing data."""
_TEXT = np.dtypes.StringDType()
_BYTES_PER_READ = 32 * 2**20
"""Number of bytes per read call; with so many, the overhead of a call is negligible."""
_ROWS_PER_CHECK = 256
"""Number of rows checked at once; so few fit into the processor's cache."""


def encoded(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Convert finite float32 values to the stored form: float32, or bfloat16 bits as uint16, rounded to even."""
    if form == "float32":
        return values
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decoded(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Convert stored values to float32."""
    if form == "float32":
        return values
    bits = values.astype(np.uint32)
    return np.left_shift(bits, 16, out=bits).view(np.float32)


def finite(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Mark finite stored values in a bool array. The bits of a bfloat16 number without its sign sort by magnitude."""
    return np.isfinite(values) if form == "float32" else (values & np.uint16(0x7FFF)) < np.uint16(0x7F80)


@dataclass(frozen=True)
class Layout:
    """Shape and labels of a feature store."""

    responses: int
    """Number of rows."""
    layers: tuple[int, ...]
    """Zero-based block indices in ascending order."""
    poolings: tuple[str, ...]
    """Names of the poolings, such as "last" and "mean"."""
    hidden: int
    """Width of one state."""
    rows_per_chunk: int
    """Number of rows in a full chunk; writes start and end at its multiples."""
    dtype: NumberFormat
    """Format of the stored numbers."""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Responses, layers, poolings, hidden."""
        return self.responses, len(self.layers), len(self.poolings), self.hidden


class FeatureReader:
    """Reads rows of a store, which `open_features` opens; `len()` gives the number of rows.

    Attributes:
        layers, poolings, hidden, dtype, attributes: Those of the store's `Layout`.
        itemsize: Number of bytes per stored number.
        response_id: int64 (rows,), id of each row's response.
        question_id: str (rows,) as objects, id of each row's question.
        length: int64 (rows,), number of pooled tokens; 0 if a row of a partial store is unwritten.
    """

    dtype: NumberFormat

    def __init__(self, path: Path, group: "zarr.Group", layout: Layout):
        self.path = path
        self.layers, self.poolings, self.hidden = layout.layers, layout.poolings, layout.hidden
        self.dtype, self.attributes = layout.dtype, layout.attributes
        self._rows_per_chunk = layout.rows_per_chunk
        self._features = group["features"]
        self.itemsize: int = self._features.dtype.itemsize
        self.response_id: np.ndarray = group["response_id"][:]
        self.question_id: np.ndarray = group["question_id"][:].astype(object)
        self.length: np.ndarray = group["length"][:]

    def __len__(self) -> int:
        return len(self.length)

    def read(
        self, start: int, stop: int, layer: int | None = None, poolings: Sequence[str] = ("last", "mean")
    ) -> np.ndarray:
        """Read the features of the rows from `start` to before `stop`, with the poolings concatenated (equation 6).

        Only the chunks of these rows, this layer and these poolings are read. Raises a ContractError if the store lacks
        the layer, a pooling or a row, or if a chunk is lost or damaged.

        Args:
            layer: Block index; by default the deepest one in the store.

        Returns:
            float32 (stop - start, len(poolings) * hidden), finite.
        """
        if not 0 <= start <= stop <= len(self):
            raise ContractError(f"{self.path}: rows {start} to {stop} are not within the store's {len(self)} rows")
        return decoded(self.take(np.arange(start, stop), layer, poolings), self.dtype)

    def take(
        self, rows: np.ndarray, layer: int | None = None, poolings: Sequence[str] = ("last", "mean")
    ) -> np.ndarray:
        """Read the features of `rows` in the order given and in the store's number format; each chunk is read once.

        Args:
            rows: int64 (n,), row numbers in any order.

        Returns:
            (n, len(poolings) * hidden), float32, or uint16 with the bits of bfloat16.

        Raises:
            ContractError: under the conditions that `read` names.
        """
        at_layer = self._index("layer", self.layers, self.layers[-1] if layer is None else layer)
        at_poolings = [self._index("pooling", self.poolings, pooling) for pooling in poolings]
        taken = np.empty((len(rows), len(poolings), self.hidden), dtype=self._features.dtype)
        ascending = bool((np.diff(rows) > 0).all())
        by_row = np.arange(len(rows)) if ascending else np.argsort(rows, kind="stable")
        together = rows[by_row] // self.rows_per_read(len(poolings))
        for places in np.split(by_row, np.flatnonzero(np.diff(together)) + 1):
            if len(places):
                chosen = rows[places]
                first, stop = int(chosen[0]), int(chosen[-1]) + 1
                # Slices are used where possible, since fancy indexing copies several times slower.
                into = slice(places[0], places[-1] + 1) if ascending else places
                out_of = slice(None) if ascending and stop - first == len(places) else chosen - first
                with _readable(self.path):
                    for place, at_pooling in enumerate(at_poolings):
                        taken[into, place] = self._features[first:stop, at_layer, at_pooling][out_of]
        taken = taken.reshape(len(rows), len(poolings) * self.hidden)
        for start in range(0, len(rows), _ROWS_PER_CHECK):
            missing = ~finite(taken[start : start + _ROWS_PER_CHECK], self.dtype).all(axis=1)
            if missing.any():
                row = rows[start + int(missing.argmax())]
                raise ContractError(
                    f"{self.path}: features of row {row} (response_id {self.response_id[row]}) are unwritten, lost or "
                    f"not finite; {remedy(self.path)}"
                )
        return taken

    def rows_per_read(self, poolings: int) -> int:
        """How many rows of this many poolings to read at once: whole chunks of about 32 MiB in all."""
        chunk = self._rows_per_chunk * poolings * self.hidden * self.itemsize
        return self._rows_per_chunk * max(_BYTES_PER_READ // chunk, 1)

    def _index(self, label: str, held: Sequence, wanted: int | str) -> int:
        if wanted not in held:
            raise ContractError(f"{self.path}: {label} {wanted!r} is not stored; the store holds {list(held)}")
        return held.index(wanted)


def open_features(path: str | Path, allow_partial: bool = False) -> FeatureReader:
    """Open a store for reading. Raises a ContractError if the store is missing, damaged, no feature store, or has
    unwritten rows, unless these are allowed (`allow_partial`)."""
    path = Path(path)
    group, layout = _open_store(path, "r")
    with _readable(path):
        reader = FeatureReader(path, group, layout)
    unwritten = np.flatnonzero(reader.length < 1)
    if len(unwritten) and not allow_partial:
        raise ContractError(
            f"{path}: {len(unwritten)} of {len(reader)} rows are not written, the first is row {unwritten[0]}; "
            f"{remedy(path)}"
        )
    return reader


def _open_store(path: Path, mode: Literal["r", "r+"]) -> "tuple[zarr.Group, Layout]":
    """Open a store, check it, and return its group and its layout."""
    import zarr

    if not path.exists():
        raise ContractError(absent(path, "feature store"))
    with _readable(path):
        group = zarr.open_group(path, mode=mode)
        features = group["features"]
        attributes = dict(group.attrs)
        attributes.pop("coordinates", None)
        layout = Layout(
            features.shape[0],
            tuple(int(layer) for layer in group["layer"][:]),
            tuple(str(pooling) for pooling in group["pooling"][:]),
            features.shape[-1],
            int(features.attrs["rows_per_chunk"]),
            features.attrs["number_format"],
            attributes,
        )
        shapes = {name: group[name].shape for name in ("length", "response_id", "question_id")}
        if features.shape != layout.shape or {*shapes.values()} != {layout.shape[:1]}:
            raise ValueError(f"features of shape {features.shape} do not fit their labels, {layout.shape} and {shapes}")
    return group, layout


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors that Zarr raises on a damaged store into one error that names the store."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ContractError(unreadable(path, "feature store", error)) from None


class FeatureWriter:
    """Writes rows of a store, which `create_features` creates or reopens."""

    def __init__(self, path: Path, group: "zarr.Group", layout: Layout):
        self.path = path
        self.layout = layout
        self._group = group

    def write(self, start: int, rows: "pd.DataFrame | Mapping[str, Sequence]", features: np.ndarray) -> None:
        """Write the n rows from `start` on; rows that were written before are replaced. Raises a ContractError if a
        shape is wrong, the rows do not fill whole chunks, or a row holds a value that is not finite in the store's
        number format; the error names the row.

        Args:
            start: First row, a multiple of `rows_per_chunk`.
            rows: Columns response_id and length (number of pooled tokens, at least 1), int64 (n,), and question_id,
                which alone reveals features of another schedule.
            features: float32 (n, layers, poolings, hidden), finite.
        """
        layout, stop = self.layout, start + len(features)
        response_id, length = np.asarray(rows["response_id"]), np.asarray(rows["length"])
        question_id = np.array(list(rows["question_id"]), dtype=_TEXT)
        features = np.asarray(features, dtype=np.float32)
        whole = stop == layout.responses or (stop < layout.responses and not stop % layout.rows_per_chunk)
        fits = {len(features)} == {len(response_id), len(question_id), len(length)}
        if not fits or features.shape[1:] != layout.shape[1:] or start % layout.rows_per_chunk or not whole:
            raise ContractError(
                f"{self.path}: rows {start} to {stop} with {len(length)} lengths and states of shape "
                f"{features.shape[1:]} are not whole chunks of {layout.rows_per_chunk} rows in a store of shape "
                f"{layout.shape}"
            )
        stored = encoded(features, layout.dtype)
        invalid = ~(np.isfinite(features) & finite(stored, layout.dtype)).reshape(len(features), -1).all(axis=1)
        for bad, what in (length < 1, "a length below 1"), (invalid, f"a feature that is not finite in {layout.dtype}"):
            if bad.any():
                first = int(bad.argmax())
                raise ContractError(
                    f"{self.path}: row {start + first} (response_id {response_id[first]}) has {what}; "
                    f"this write has {bad.sum()} such row(s)"
                )
        # A positive length marks a complete row; it is cleared first and set last, so a killed write leaves length 0.
        self._group["length"][start:stop] = 0
        self._group["features"][start:stop] = stored
        self._group["response_id"][start:stop] = response_id
        self._group["question_id"][start:stop] = question_id
        self._group["length"][start:stop] = length


def create_features(
    path: str | Path,
    *,
    responses: int,
    layers: Sequence[int],
    hidden: int,
    rows_per_chunk: int,
    dtype: NumberFormat = "bfloat16",
    poolings: Sequence[str] = ("last", "mean"),
    attributes: Mapping[str, str] = {},
    resume: bool = False,
) -> FeatureWriter:
    """Create a store of `responses` unwritten rows, or reopen an existing one. Raises a ContractError if the store
    exists and `resume` is false, or if the existing store has another layout.

    Args:
        path: Folder of the store, usually named *.zarr.
        responses, layers, poolings, hidden, dtype, attributes: See `Layout`.
        rows_per_chunk: Number of rows per write, such as the responses of a rollout step.
        resume: If true, a store that exists already is reopened, and its rows are kept.
    """
    path = Path(path)
    layout = Layout(responses, tuple(layers), tuple(poolings), hidden, rows_per_chunk, dtype, dict(attributes))
    if path.exists():
        if not resume:
            raise ContractError(f"{path}: exists already; give another path, or resume the run that was writing it")
        group, stored = _open_store(path, "r+")
        theirs, ours = asdict(stored), asdict(layout)
        different = [f"{key} {theirs[key]!r}, now {ours[key]!r}" for key in ours if theirs[key] != ours[key]]
        if different:
            raise ContractError(f"{path}: cannot resume, it was made with {'; '.join(different)}; {remedy(path)}")
        for left in path.rglob("*.partial"):  # zarr writes chunks under such a name, which a killed run leaves
            left.unlink()
        return FeatureWriter(path, group, layout)
    with atomic_path(path) as partial:
        _create(partial, layout)
    return FeatureWriter(path, _open_store(path, "r+")[0], layout)


def _create(path: Path, layout: Layout) -> None:
    import zarr
    from zarr.codecs import Crc32cCodec

    group = zarr.create_group(
        path, zarr_format=3, attributes={**layout.attributes, "coordinates": "response_id question_id"}
    )
    chunk = min(layout.rows_per_chunk, layout.responses)
    group.create_array(
        "features",
        shape=layout.shape,
        chunks=(chunk, 1, 1, layout.hidden),
        dtype=_MISSING[layout.dtype].dtype,
        fill_value=_MISSING[layout.dtype],
        compressors=[Crc32cCodec()],
        dimension_names=("response", "layer", "pooling", "hidden"),
        attributes={"number_format": layout.dtype, "rows_per_chunk": layout.rows_per_chunk},
    )
    for name, dtype, unwritten in (("response_id", "int64", 0), ("question_id", str, ""), ("length", "int64", 0)):
        group.create_array(
            name,
            shape=(layout.responses,),
            chunks=(chunk,),
            dtype=dtype,
            fill_value=unwritten,
            compressors=[Crc32cCodec()],
            dimension_names=("response",),
        )
    group.create_array("layer", data=np.array(layout.layers, dtype=np.int64), dimension_names=("layer",))
    pooling = group.create_array("pooling", shape=(len(layout.poolings),), dtype=str, dimension_names=("pooling",))
    pooling[:] = np.array(layout.poolings, dtype=_TEXT)
    with warnings.catch_warnings():
        # xarray looks for consolidated metadata, an extension about which Zarr 3 warns.
        warnings.simplefilter("ignore", UserWarning)
        zarr.consolidate_metadata(path)
