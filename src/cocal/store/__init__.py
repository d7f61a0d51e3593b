"""Reading and writing of files: they are checked, written atomically and labelled with their provenance."""

from cocal.store.atomic import atomic_path, write_text
from cocal.store.files import read_document, read_frame, write_document, write_frame
from cocal.store.folders import check_folder, label_folder
from cocal.store.origin import read_provenance
from cocal.store.provenance import digest, provenance

__all__ = [
    "atomic_path",
    "check_folder",
    "digest",
    "label_folder",
    "provenance",
    "read_document",
    "read_frame",
    "read_provenance",
    "write_document",
    "write_frame",
    "write_text",
]
