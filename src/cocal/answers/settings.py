"""Settings of the verifier."""

from cocal.settings.base import Count, Model, Positive, Share


class VerifierSettings(Model):
    """Bounds of the answer checker, which runs in processes that can be killed."""

    timeout: Positive = 5.0
    """Seconds of processor time for one comparison; a comparison that needs more stays undecided and counts as not
    equivalent. Processor time makes verdicts independent of other work on the machine."""
    wall_timeout: Positive = 120.0
    """Seconds of wall-clock time after which a comparison is stopped even if it has processor time left; it is tried
    once more before it stays undecided."""
    max_timeouts: Share = 0.01
    """Largest share of answers that may stay undecided; a job that has judged 100 answers fails if there are more."""
    max_answer_length: Count = 512
    """Longest answer, in characters, that is compared; a longer one counts as not equivalent."""
    max_nesting: Count = 8
    """Deepest nesting of brackets that is compared, because the time to parse them grows exponentially. The deepest
    among 10,000 answers of the public sets is 6."""
    memory_mb: Count = 2048
    """Address space of one checking process in MiB."""
