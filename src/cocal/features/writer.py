"""Writing feature stores (cocal.features.store), which can resume after a killed run."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cocal.errors import ContractError
from cocal.features.formats import LARGEST, MISSING, NumberFormat, encoded
from cocal.features.store import Layout, open_store
from cocal.store import atomic_path
from cocal.store.damage import remedy

if TYPE_CHECKING:
    import pandas as pd
    import zarr

_DIMENSIONS = ("response", "layer", "pooling", "hidden")
_TEXT = np.dtypes.StringDType()


class FeatureWriter:
    """Writes rows of a store, which `create_features` creates or reopens."""

    def __init__(self, path: Path, group: "zarr.Group", layout: Layout):
        self.path = path
        self.layout = layout
        self._features, self._length, self._response_id, self._question_id = (
            group[name] for name in ("features", "length", "response_id", "question_id")
        )

    def write(
        self,
        start: int,
        response_id: np.ndarray,
        question_id: Sequence[str],
        length: np.ndarray,
        features: np.ndarray,
    ) -> None:
        """Write the n rows from `start` on; rows that were written before are replaced.

        Args:
            start: First row, a multiple of `rows_per_chunk`.
            response_id: int64 (n,), id of each row's response.
            question_id: n texts, id of each row's question. Response ids count from 0 in every run and every prompt
                row has length 1, so only question ids reveal features of another schedule.
            length: int64 (n,), number of pooled tokens per response, at least 1.
            features: float32 (n, layers, poolings, hidden), finite.

        Raises:
            ContractError: if a shape is wrong, the rows do not fill whole chunks, or a row holds a value that is not
                finite in the store's number format; the error names the row.
        """
        layout = self.layout
        response_id, length = np.asarray(response_id), np.asarray(length)
        question_id = np.array(list(question_id), dtype=_TEXT)
        features = np.asarray(features, dtype=np.float32)
        rows, stop = slice(start, start + len(features)), start + len(features)
        expected = (len(features), len(layout.layers), len(layout.poolings), layout.hidden)
        labels = [response_id.shape, question_id.shape, length.shape]
        if features.shape != expected or set(labels) != {expected[:1]}:
            raise ContractError(
                f"{self.path}: rows {start} to {stop} need features of shape {expected} and as many ids and "
                f"lengths, not {features.shape} and {', '.join(map(str, labels))}"
            )
        ends_chunk = stop == layout.responses or (stop % layout.rows_per_chunk == 0 and stop < layout.responses)
        if start % layout.rows_per_chunk or not 0 <= start < stop or not ends_chunk:
            raise ContractError(
                f"{self.path}: rows {start} to {stop} do not fill whole chunks of {layout.rows_per_chunk} rows "
                f"within {layout.responses} rows"
            )
        self._refuse(length < 1, start, response_id, "a length below 1")
        fits = (np.abs(features) <= LARGEST[layout.dtype]).reshape(len(features), -1).all(axis=1)
        self._refuse(~fits, start, response_id, f"a feature that is not finite in {layout.dtype}")
        # A positive length marks a complete row; it is cleared first and set last, so a killed write leaves length 0.
        self._length[rows] = 0
        self._features[rows] = encoded(features, layout.dtype)
        self._response_id[rows] = response_id
        self._question_id[rows] = question_id
        self._length[rows] = length

    def write_rows(self, start: int, rows: "pd.DataFrame", features: np.ndarray) -> None:
        """Write features with the ids and lengths from the table `rows` (response_id, question_id, length)."""
        self.write(
            start, rows["response_id"].to_numpy(), rows["question_id"].tolist(), rows["length"].to_numpy(), features
        )

    def _refuse(self, bad: np.ndarray, start: int, response_id: np.ndarray, what: str) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise ContractError(
                f"{self.path}: row {start + first} (response_id {response_id[first]}) has {what}; "
                f"this write has {bad.sum()} such row(s)"
            )


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
    """Create a store of `responses` unwritten rows, or reopen an existing one.

    Args:
        path: Folder of the store, usually named *.zarr.
        responses, layers, poolings, hidden, dtype, attributes: See `cocal.features.store.Layout`.
        rows_per_chunk: Number of rows per write, such as the responses of a rollout step.
        resume: If true, a store that exists already is reopened, and its rows are kept.

    Raises:
        ContractError: if the store exists and `resume` is false, or if the existing store has another layout.
    """
    path = Path(path)
    layout = Layout(
        responses, tuple(map(int, layers)), tuple(poolings), hidden, rows_per_chunk, dtype, dict(attributes)
    )
    if path.exists():
        if not resume:
            raise ContractError(f"{path}: exists already; give another path, or resume the run that was writing it")
        group, found = open_store(path, "r+")
        theirs, ours = asdict(found), asdict(layout)
        different = [f"{key} {theirs[key]!r}, now {ours[key]!r}" for key in ours if theirs[key] != ours[key]]
        if different:
            raise ContractError(f"{path}: cannot resume, it was made with {'; '.join(different)}; {remedy(path)}")
        for left in path.rglob("*.partial"):  # zarr writes chunks under such a name, which a killed run leaves
            left.unlink()
        return FeatureWriter(path, group, layout)
    with atomic_path(path) as partial:
        _create(partial, layout)
    return FeatureWriter(path, open_store(path, "r+")[0], layout)


def _create(path: Path, layout: Layout) -> None:
    import zarr
    from zarr.codecs import Crc32cCodec

    group = zarr.create_group(
        path, zarr_format=3, attributes={**layout.attributes, "coordinates": "response_id question_id"}
    )
    rows, chunk = layout.responses, min(layout.rows_per_chunk, layout.responses)
    group.create_array(
        "features",
        shape=(rows, len(layout.layers), len(layout.poolings), layout.hidden),
        chunks=(chunk, 1, 1, layout.hidden),
        dtype=MISSING[layout.dtype].dtype,
        fill_value=MISSING[layout.dtype],
        compressors=[Crc32cCodec()],
        dimension_names=_DIMENSIONS,
        attributes={"number_format": layout.dtype, "rows_per_chunk": layout.rows_per_chunk},
    )
    for name, dtype, unwritten in (("response_id", "int64", 0), ("question_id", str, ""), ("length", "int64", 0)):
        group.create_array(
            name,
            shape=(rows,),
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
