"""Labelled arrays come back as they were written."""

import numpy as np
import xarray as xr

from cocal_study.store.datasets import read_dataset, write_dataset


def test_arrays_come_back_with_their_provenance(tmp_path):
    data = xr.Dataset({"value": ("metric", [1.0, np.nan])}, coords={"metric": ["ece", "auroc"]})
    write_dataset(tmp_path / "cube.nc", data, {"digest": "x"})
    found = read_dataset(tmp_path / "cube.nc")
    xr.testing.assert_equal(found, data)
    assert found.attrs["digest"] == "x"
