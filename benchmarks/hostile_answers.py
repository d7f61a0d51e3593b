"""A thousand answers that computer algebra cannot evaluate against a thousand ordinary ones, by processor time.

The former are judged by the verifier, which keeps them from its checking processes; the latter are compared in this
process by what runs there.
"""

import time
from collections.abc import Sequence

from cocal.answers.comparison import compare
from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings


def measure(quick: bool) -> list[dict]:
    """Time towers of exponents, factorials and binomials; the peer is math-verify on fractions."""
    count = 30 if quick else 1000
    ordinary = _compared([rf"\frac{{{n}}}{{{2 * n + 1}}}" for n in range(1, count + 1)])
    kinds = {
        "towers of exponents": [f"9^{{9^{{9^{{{n}}}}}}}" for n in range(2, count + 2)],
        "factorials": [f"{10**6 + n}!" for n in range(count)],
        "factorials of factorials": [f"{n}!!!!" for n in range(4, count + 4)],
        "binomials": [rf"\binom{{10^{{9}}}}{{{10**8 + n}}}" for n in range(count)],
    }
    rows = []
    for kind, answers in kinds.items():
        seconds = _judged(answers)
        rows.append(
            {
                "benchmark": "Hostile answers",
                "case": f"{count} {kind}",
                "seconds": seconds,
                "peer": f"{count} fractions by math-verify",
                "peer_seconds": ordinary,
                "ratio": ordinary / seconds,
                "note": "",
            }
        )
    return rows


def _judged(answers: Sequence[str]) -> float:
    """Processor time of the verifier, none of whose checking processes starts."""
    begun = time.process_time()
    with Verifier(VerifierSettings(max_timeouts=1.0)) as verifier:
        assert not verifier.correct([["1/2"]] * len(answers), answers).decided.any()
    return time.process_time() - begun


def _compared(answers: Sequence[str]) -> float:
    """Processor time of math-verify."""
    compare("1/2", "0.5")  # imports it
    begun = time.process_time()
    assert not any(compare("1/2", answer) for answer in answers)
    return time.process_time() - begun
