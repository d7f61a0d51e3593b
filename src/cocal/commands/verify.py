"""Answers compared with gold answers by the verifier of mathematics."""

import argparse
import json
import logging
from collections.abc import Iterator
from pathlib import Path

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.errors import ConfigError, ContractError
from cocal.store import write_text


def run_verify(options: argparse.Namespace) -> None:
    """Judge one pair and say why, or every line of a file. Raises a ConfigError if not just one of both is given, and a
    ContractError if a line of the file is no object with texts under `gold` and `answer`."""
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
        for entry in _entries(options.file):
            verdict = verifier.explained(entry["gold"], entry["answer"])
            lines.append(json.dumps(entry | {"correct": verdict.correct, "rule": verdict.rule}, ensure_ascii=False))
    write_text(options.output, "".join(f"{line}\n" for line in lines))
    logging.info("%s: %d pairs", options.output, len(lines))


def _entries(file: Path) -> Iterator[dict]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not (isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("gold", "answer"))):
            raise ContractError(f"{file}: line {number} is no object with texts under `gold` and `answer`; correct it")
        yield entry
