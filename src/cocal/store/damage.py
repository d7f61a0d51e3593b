"""Error messages about missing and unreadable files: only results can be made again, a user's own files cannot."""

from pathlib import Path

_OWN = "it lies outside results/, so it is your own input"


def is_result(path: str | Path) -> bool:
    """Whether a file lies below `results/` of the working directory, where the workflow makes everything anew.

    Symbolic links are followed: a link in `results/` to a user's own file is not a result.
    """
    return Path("results").resolve() in Path(path).resolve().parents


def unreadable(path: str | Path, kind: str, cause: object) -> str:
    """The error message about a file or folder that cannot be read or has the wrong content.

    Args:
        kind: Kind of file that is expected, such as "Parquet file".
        cause: Description of what is wrong with it.
    """
    return f"{path}: not a readable {kind} ({cause}); {remedy(path)}"


def absent(path: str | Path, kind: str = "file", maker: str = "the rule that makes it") -> str:
    """The error message about a file or folder that does not exist.

    Args:
        maker: Rule or command that makes it if it is a result.
    """
    advice = f"rerun {maker}" if is_result(path) else f"{_OWN}: check its path"
    return f"{path}: no such {kind}; {advice}"


def remedy(path: str | Path, made_again: str = "delete it and rerun") -> str:
    """Advice about a file that exists but is wrong.

    Args:
        made_again: Advice for a result. Nobody is advised to delete any other file, for it may be the only copy.
    """
    if is_result(path):
        return made_again
    return f"{_OWN}: repair it or give another"
