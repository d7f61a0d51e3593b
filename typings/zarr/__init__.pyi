# Types of Zarr are left out of the check: each entry of a group is stated there to be an array or a group.
from typing import Any

def __getattr__(name: str) -> Any: ...
