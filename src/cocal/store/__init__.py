"""Reading and writing of files: they are checked, written atomically and labelled with their provenance."""

from cocal.errors import ContractError
from cocal.store.arrays import read_dataset, write_dataset
from cocal.store.atomic import atomic_path, write_text
from cocal.store.frames import read_frame, read_provenance, write_frame
from cocal.store.provenance import digest, label_folder, provenance

__all__ = [
    "ContractError",
    "atomic_path",
    "digest",
    "label_folder",
    "provenance",
    "read_dataset",
    "read_frame",
    "read_provenance",
    "write_dataset",
    "write_frame",
    "write_text",
]
