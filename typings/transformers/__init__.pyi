# Types of transformers are left out of the check: a token's id, for one, is stated there to be an int, a str or a list.
from typing import Any

def __getattr__(name: str) -> Any: ...
