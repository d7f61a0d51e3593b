"""`cocal verify`: answers compared with gold answers by the verifier of mathematics."""

import argparse
import json
import logging

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.errors import ConfigError, ContractError
from cocal.store import write_text
from cocal.store.rows import entries, extended


def run_verify(options: argparse.Namespace) -> None:
    """Judge one pair and say why, or judge every line of a file. Raises a ConfigError unless exactly one of these is
    asked for, and a ContractError if a line of the file is not an object with texts under `gold` and `answer`."""
    by_file = options.file is not None
    if by_file == bool(options.pair) or (not by_file and len(options.pair) != 2) or by_file != bool(options.output):
        raise ConfigError("give a gold answer and an answer, or --file with --output")
    with Verifier(VerifierSettings()) as verifier:
        if not by_file:
            verdict = verifier.explained(*options.pair)
            print(f"{'right' if verdict.correct else 'wrong'}: {verdict.rule}")
            print(f"  gold    {verdict.gold or options.pair[0]}\n  answer  {verdict.answer or options.pair[1]}")
            return
        lines = []
        for where, text, entry in entries(options.file):
            if not all(isinstance(entry.get(name), str) for name in ("gold", "answer")):
                raise ContractError(f"{where}: lacks texts under `gold` and `answer`; correct it")
            verdict = verifier.explained(entry["gold"], entry["answer"])
            told = {name: value for name, value in entry.items() if name not in ("correct", "rule")}
            added = {"correct": verdict.correct, "rule": verdict.rule}
            lines.append(extended(text if told == entry else json.dumps(told), added))
    write_text(options.output, "".join(lines))
    logging.info("%s: %d pairs", options.output, len(lines))
