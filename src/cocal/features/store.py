"""Hidden-state features on disk: one labelled Zarr store per set of responses.

Dimensions response x layer x pooling x hidden; coordinates `response_id` (int64), `question_id` (text), `layer` (int64,
zero-based block index) and `pooling` (text); variables `features` and `length` (int64, tokens pooled, 0 = not written
yet).
`xarray.open_zarr` reads it; bfloat16, which Zarr lacks, is kept as its 16 bits (attribute `number_format`).

Chunks hold the rows of one write for one layer and one pooling, so that reading a layer or a pooling does not
touch the others, and replacing a step's rows replaces whole files. They carry a checksum and no compression.
Measured on state-like data of 2048 x 4096 (one thread, warm cache; size relative to raw, write and read MB/s):

    codec          float32                bfloat16
    none           1.00   1266   1735     1.00   722   6324
    crc32c         1.00    929   1593     1.00   621   4079
    zstd 1         0.94    506    791     0.80   454   1170
    blosc lz4      0.98    671   1178     0.92   396   2319
    blosc zstd 1   0.94    426    617     0.80   367    665

Mantissas of hidden states are noise: at best a fifth is saved, and each pass over the data would read two to
four times slower. The checksum is cheap and tells a damaged chunk from a good one.

Reading wants large chunks: rows of last || mean of 4,096 in bfloat16 come in order, checked and side by side, at 1.27,
1.44, 1.67, 1.64 and 1.74 GB a second of processor time from chunks of 128, 256, 512, 1,024 and 2,048 rows, 32 MiB at a
time (0.7 to 1.2 GB/s with 4 to 16 MiB). A rollout step of the paper, 2,048 responses, is a chunk of 16 MiB. A copy out
of `numpy.memmap` runs at 11 GB/s, but checks nothing and has no layers, poolings or labels; training ten companions of
the paper's size on a processor needs 0.002 GB/s. `benchmarks/store.py` measures all of this anew.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import zarr

from cocal.errors import ContractError
from cocal.features.formats import NumberFormat, decoded, finite
from cocal.store.damage import absent, remedy, unreadable

_READ = 32 * 2**20
"""Bytes that are best read together: many enough that the cost of a call does not count."""
_CHECK = 256
"""Rows that are checked together, while they are in the processor's cache."""


@dataclass(frozen=True)
class Layout:
    """Shape and labels of a feature store.

    Attributes:
        responses: number of rows.
        layers: zero-based block indices, rising.
        poolings: names, such as "last" and "mean".
        hidden: width of one state.
        rows_per_chunk: rows of a full chunk; writes start and end at its multiples.
        dtype: format of the stored numbers.
        attributes: provenance.
    """

    responses: int
    layers: tuple[int, ...]
    poolings: tuple[str, ...]
    hidden: int
    rows_per_chunk: int
    dtype: NumberFormat
    attributes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.responses, self.hidden, self.rows_per_chunk, len(self.layers), len(self.poolings)) < 1:
            raise ContractError(f"features need at least one response, layer, pooling and unit, not {self}")
        if self.dtype not in get_args(NumberFormat):
            raise ContractError(f"feature dtype {self.dtype!r} is not one of {', '.join(get_args(NumberFormat))}")
        if list(self.layers) != sorted(set(self.layers)) or self.layers[0] < 0:
            raise ContractError(f"layers must rise from 0 or more without repeats, not {list(self.layers)}")
        if len(set(self.poolings)) != len(self.poolings):
            raise ContractError(f"poolings repeat: {list(self.poolings)}")


class FeatureReader:
    """Reads a store in slices; made by `open_features`. `len()` is the number of rows.

    Attributes:
        path: of the store.
        layout: shape and labels.
        response_id: int64 (rows,).
        question_id: str (rows,), as objects: the question that each row is about.
        length: int64 (rows,), tokens pooled; 0 where a row of a partial store is unwritten.
    """

    def __init__(self, path: Path, group: zarr.Group, layout: Layout):
        self.path = path
        self.layout = layout
        self._features = group["features"]
        self.response_id: np.ndarray = group["response_id"][:]
        self.question_id: np.ndarray = group["question_id"][:].astype(object)
        self.length: np.ndarray = group["length"][:]

    def __len__(self) -> int:
        return self.layout.responses

    @property
    def layers(self) -> tuple[int, ...]:
        """Zero-based block indices."""
        return self.layout.layers

    @property
    def poolings(self) -> tuple[str, ...]:
        """Names of the poolings."""
        return self.layout.poolings

    @property
    def hidden(self) -> int:
        """Width of one state."""
        return self.layout.hidden

    @property
    def dtype(self) -> NumberFormat:
        """Format of the stored numbers."""
        return self.layout.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of a stored number."""
        return self._features.dtype.itemsize

    @property
    def attributes(self) -> dict[str, str]:
        """Provenance."""
        return self.layout.attributes

    def read(
        self, start: int, stop: int, layer: int | None = None, poolings: Sequence[str] = ("last", "mean")
    ) -> np.ndarray:
        """Features of the rows `start` to `stop`, poolings side by side: last || mean (equation 6).

        Only the chunks of the rows, the layer and the poolings are read.

        Args:
            layer: block index; the deepest one stored by default.

        Returns:
            float32 (stop - start, len(poolings) * hidden), finite.

        Raises:
            ContractError: if the layer, a pooling or a row is not in the store, or a chunk is lost or damaged.
        """
        if not 0 <= start <= stop <= len(self):
            raise ContractError(f"{self.path}: rows {start} to {stop} are not within its {len(self)} rows")
        return decoded(self.take(np.arange(start, stop), layer, poolings), self.dtype)

    def take(
        self, rows: np.ndarray, layer: int | None = None, poolings: Sequence[str] = ("last", "mean")
    ) -> np.ndarray:
        """Features of `rows` in their order, in the store's format; each chunk is read once, a few at a time.

        Args:
            rows: int64 (n,), any order.

        Returns:
            (n, len(poolings) * hidden), float32; or uint16, the bits of bfloat16.

        Raises:
            ContractError: as `read`.
        """
        rows = np.asarray(rows, dtype=np.int64)
        at_layer = self._index("layer", self.layers, self.layers[-1] if layer is None else layer)
        at_poolings = [self._index("pooling", self.poolings, pooling) for pooling in poolings]
        taken = np.empty((len(rows), len(poolings), self.hidden), dtype=self._features.dtype)
        rising = bool((np.diff(rows) > 0).all())
        by_row = np.arange(len(rows)) if rising else np.argsort(rows, kind="stable")
        together = rows[by_row] // self.rows_per_read(len(poolings))
        for places in np.split(by_row, np.flatnonzero(np.diff(together)) + 1):
            if len(places):
                chosen = rows[places]
                first, stop = int(chosen[0]), int(chosen[-1]) + 1
                # Slices where they do: a fancy index copies several times slower.
                into = slice(places[0], places[-1] + 1) if rising else places
                out_of = slice(None) if rising and stop - first == len(places) else chosen - first
                with _readable(self.path):
                    for place, at_pooling in enumerate(at_poolings):
                        taken[into, place] = self._features[first:stop, at_layer, at_pooling][out_of]
        taken = taken.reshape(len(rows), len(poolings) * self.hidden)
        self._refuse_missing(taken, rows)
        return taken

    def rows_per_read(self, poolings: int) -> int:
        """Rows of so many poolings that are best read together: whole chunks, of about 32 MiB."""
        layout = self.layout
        chunk = layout.rows_per_chunk * poolings * layout.hidden * self.itemsize
        return layout.rows_per_chunk * max(_READ // chunk, 1)

    def _refuse_missing(self, taken: np.ndarray, rows: np.ndarray) -> None:
        """Refuse features in the store's format, one row for each of `rows`, that are not finite."""
        for start in range(0, len(rows), _CHECK):
            missing = ~finite(taken[start : start + _CHECK], self.dtype).all(axis=1)
            if missing.any():
                row = rows[start + int(np.flatnonzero(missing)[0])]
                raise ContractError(
                    f"{self.path}: features of row {row} (response_id {self.response_id[row]}) are unwritten, lost or "
                    f"not finite; {remedy(self.path, 'delete the store and rerun')}"
                )

    def _index(self, label: str, held: Sequence, wanted: int | str) -> int:
        if wanted not in held:
            raise ContractError(f"{self.path}: {label} {wanted!r} is not stored; it holds {list(held)}")
        return held.index(wanted)


def open_features(path: str | Path, allow_partial: bool = False) -> FeatureReader:
    """Open a store for reading.

    Args:
        allow_partial: admit rows that are not written yet (length 0).

    Raises:
        ContractError: if the store is missing, damaged, of another form, or has unwritten rows.
    """
    path = Path(path)
    group, layout = open_store(path, "r")
    with _readable(path):
        reader = FeatureReader(path, group, layout)
    unwritten = np.flatnonzero(reader.length < 1)
    if len(unwritten) and not allow_partial:
        raise ContractError(
            f"{path}: {len(unwritten)} of {len(reader)} rows are not written, first {unwritten[0]}; finish the "
            "run that makes it"
        )
    return reader


def open_store(path: Path, mode: Literal["r", "r+"]) -> tuple[zarr.Group, Layout]:
    """The Zarr group of a store and its layout, checked.

    Args:
        mode: "r+" to write rows too.

    Raises:
        ContractError: if the store is missing, damaged or of another form.
    """
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
        expected = (layout.responses, len(layout.layers), len(layout.poolings), layout.hidden)
        if features.shape != expected:
            raise ValueError(f"features of shape {features.shape} under labels for {expected}")
        for name in ("length", "response_id", "question_id"):
            if group[name].shape != expected[:1]:
                raise ValueError(f"{name} of shape {group[name].shape}, {layout.responses} responses")
    return group, layout


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what Zarr raises on a damaged store into one error that names it."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ContractError(unreadable(path, "feature store", error)) from None
