"""Errors that a user can mend; the command line prints their message alone."""


class ConfigError(ValueError):
    """A configuration is wrong; the message names the source, the key and what is allowed."""


class ContractError(ValueError):
    """A file or table breaks its contract; the message names the file, the column and the first bad rows."""


class ClusterError(RuntimeError):
    """The jobs cannot run on this cluster now; the message says why and which command helps."""


class BusyError(RuntimeError):
    """Another process still writes the same files; the message names it and says how to wait for it or end it."""


class EngineError(RuntimeError):
    """The process of a generation engine failed or died; the message holds the end of its output."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
