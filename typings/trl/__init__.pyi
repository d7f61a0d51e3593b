# Types of TRL are left out of the check: its trainers state that what their own settings fill in may be None.
from typing import Any

def __getattr__(name: str) -> Any: ...
