"""Scoring of a file of responses, block by block in constant memory; a killed run can be resumed."""

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cocal.companion.settings import Target
from cocal.confidence import BY, LEARNT, LEARNT_FROM, RESPONSE, TOKENS, TRAJECTORY
from cocal.confidence.companion import Companion
from cocal.errors import ContractError
from cocal.fitting.config import CompanionConfig, prompt_digest
from cocal.fitting.held_out import ResponseStatistics
from cocal.models.loading import Policy
from cocal.rollouts.encoding import ROWS, Encoder
from cocal.rollouts.lines import FIELDS, NEEDED, Fields
from cocal.rollouts.sample import ORIGINS, Sample
from cocal.runtime.progress import Progress
from cocal.store.rows import entries, extended, with_fields
from cocal.store.run_folder import RunFolder

UNFINISHED = "scored.jsonl"
"""Name of the file in the run folder that grows block by block."""
_DIGESTS = "blocks.sha256"
"""Name of the file beside it that holds a digest of each block, one in a line."""
REASON = "_reason"
"""Ending of the field that says why a response has no confidence."""
IDS = "confidence_ids"
"""Field that says whether a confidence rests on ids that were given (`given`) or on a text (`tokenised`)."""


@dataclass(frozen=True)
class Wanted:
    """The file of JSON lines that is scored, and how."""

    source: Path
    fields: Mapping[str, str]
    """Names of fields by their meaning (`cocal.rollouts.lines.FIELDS`)."""
    name: str = "confidence"
    """Field for the confidences."""
    target: Target | None = None
    seed: int | None = None
    batch_tokens: int = 16384
    every: int | None = None
    """The members and the passes; see `Companion.score`."""
    by: str = ""
    """The name of the companion in each line, followed by `target` and `seed`; empty to write none."""


@dataclass(frozen=True)
class Checked:
    """The content of a file of responses, from a first reading that computes nothing.

    Attributes:
        fields: Which field is read with which meaning.
        mapping: The given names of fields that the file has, labels included, for commands that read it next.
        rewarded: Whether a reward, rather than a verdict, would be its label.
        unread: Number of rows without a response, by the reason.
    """

    rows: int
    fields: Fields
    mapping: Mapping[str, str]
    rewarded: bool
    unread: Counter


class Summary(NamedTuple):
    """Facts of the responses that were scored, by this run and earlier ones.

    Attributes:
        origins: Numbers of responses by the origin of their prompt ids, in words, and the number of those to prompts
            that the companion learnt from.
        tokenised: Number of responses whose ids were made from texts.
        longer: Number of responses that count as truncated and are longer than the limit.
        mean: Mean confidence.
    """

    origins: Counter
    tokenised: int
    responses: ResponseStatistics
    longer: int
    mean: float


def check(wanted: Wanted, config: CompanionConfig) -> Checked:
    """Read every row once, so that a ContractError names a wrong one before hours of computing. Field names that were
    given to the fit are used if the file has such fields, unless other names are given here."""
    fields: Fields
    count, unread = 0, Counter()
    known, lines = with_fields(entries(wanted.source), 2)
    for where, _, entry in lines:
        if not count:
            mapping = {meaning: name for meaning, name in config.fields.items() if name in known} | {**wanted.fields}
            read = {meaning: name for meaning, name in mapping.items() if meaning not in NEEDED["label"]}
            fields = Fields.of(known, read, where, ("prompt", "response"), config.ignored)
            mapping = {meaning: name for meaning, name in mapping.items() if name in known}
            rewarded = not {*known} & {mapping.get("correct"), *FIELDS["correct"]}
        beside = (wanted.name + ending for ending in ("", BY, TRAJECTORY, REASON, LEARNT_FROM, RESPONSE))
        if taken := [name for name in (*beside, IDS) if name in entry]:
            raise ContractError(
                f"{where}: there is a field {taken[0]!r} already; give the confidences another name (--name), and "
                "score the original file rather than a scored one"
            )
        unread.update(filter(None, [_without_response(fields.sample(entry, where))]))
        count += 1
    if count == unread.total():
        raise ContractError(f"{wanted.source}: there is no response to score ({', '.join(unread)})")
    return Checked(count, fields, mapping, rewarded, unread)


def _without_response(sample: Sample) -> str | None:
    """Why a row has no response, such as an empty one; None if it has."""
    return sample.left_out if sample.response is None and sample.response_ids is None else None


def score_file(companion: Companion, policy: Policy, wanted: Wanted, checked: Checked, run: RunFolder) -> Summary:
    """Write every line of a file with its confidence into the run folder, in the order of the file.

    Only one block of responses is in memory at a time. Each line keeps its text, to which the confidence is added.
    Blocks that an earlier run has finished are kept, up to the first that has changed, or whose input has changed.
    """
    path, marks = run.path / UNFINISHED, run.path / _DIGESTS
    encoder = Encoder(policy, companion.config)
    if done := _whole_blocks(wanted.source, path, marks):
        logging.info("%s of %s responses were scored by an earlier run", f"{done:,}", f"{checked.rows:,}")
    progress = Progress("response", checked.rows, done=done)
    chosen = {"target": wanted.target, "seed": wanted.seed, "every": wanted.every, "batch_tokens": wanted.batch_tokens}
    member = [str(value) for value in (wanted.target, wanted.seed) if value is not None]
    by = {wanted.name + BY: " ".join([wanted.by, *member])} if wanted.by else {}
    origins, lengths, truncated, known, asked, total = Counter(), [], [], True, companion.config.prompts, 0.0
    limit, longer, tokenised = companion.config.max_response_length or np.inf, 0, 0
    lines = ((text, checked.fields.sample(entry, where)) for where, text, entry in entries(wanted.source))
    earlier = (entry[wanted.name] or 0.0 for _, _, entry in entries(path))
    with path.open("ab") as output, marks.open("ab") as digests:
        while block := list(islice(lines, ROWS)):
            rows = encoder.encode([sample for _, sample in block if not _without_response(sample)], strict=True)
            origins.update(ORIGINS[row.origin] for row in rows)
            learnt = [prompt_digest(row.prompt) in asked if asked else None for row in rows]
            origins.update({LEARNT: sum(filter(None, learnt))} if any(learnt) else {})
            lengths.append(np.array([len(row.response) for row in rows], dtype=np.int32))
            truncated.append(np.array([row.truncated for row in rows], dtype=bool))
            known = known and all(row.told for row in rows)
            tokenised += sum(not row.exact for row in rows)
            longer += sum(row.truncated and not row.told and len(row.response) > limit for row in rows)
            if done:
                done -= len(block)
                total += sum(islice(earlier, len(block)))
                continue
            confidences, trajectories, tokens = companion.score_encoded(policy, rows, **chosen)
            total += confidences.sum()
            trajectories = trajectories or [np.empty(0)] * len(rows)  # where none are wanted
            tokens = (
                [{}] * len(rows) if tokens is None else [dict(zip(TOKENS, row, strict=True)) for row in tokens.tolist()]
            )
            said = [row.truncated if row.told or limit < np.inf else None for row in rows]
            scored = iter(zip(rows, confidences.tolist(), trajectories, learnt, tokens, said, strict=True))
            written = [_line(text, sample, scored, wanted, by) for text, sample in block]
            mark = _digest((text for text, _ in block), written)
            for stream, content in ((output, b"".join(written)), (digests, mark)):
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            progress.add(len(block), detail=f"mean confidence {total / sum(map(len, lengths)):.3f}" if rows else "")
    known = known or encoder.reading.max_response_length is not None
    responses = ResponseStatistics.of(np.concatenate(lengths), np.concatenate(truncated) if known else None)
    return Summary(origins, tokenised, responses, longer, total / (checked.rows - checked.unread.total()))


def _line(text: str, sample: Sample, scored: Iterator[tuple], wanted: Wanted, by: dict) -> bytes:
    """A line with its added fields, from the next scored response if the line has a response."""
    if why := _without_response(sample):
        return extended(text, {wanted.name: None, wanted.name + REASON: why}).encode()
    row, confidence, trajectory, known_prompt, numbers, truncated = next(scored)
    added = {wanted.name: confidence, IDS: "given" if row.exact else "tokenised", **by}
    added[wanted.name + RESPONSE] = {"tokens": len(row.response), "truncated": truncated, **numbers}
    added |= {} if known_prompt is False else {wanted.name + LEARNT_FROM: known_prompt}
    if wanted.every:
        values = {"every": wanted.every, "tokens": len(row.response), "values": trajectory.tolist()}
        added[wanted.name + TRAJECTORY] = values
    return extended(text, added).encode()


def _digest(texts: Iterable[str], written: Iterable[bytes]) -> bytes:
    """The digest, as a line, of a block: of the lines that were read and of those that were written."""
    digest = hashlib.sha256("\n".join(texts).encode() + b"".join(written))
    return f"{digest.hexdigest()}\n".encode("ascii")


def _whole_blocks(source: Path, path: Path, marks: Path) -> int:
    """Number of lines in the leading blocks of an unfinished file that are intact: their digest fits them and the lines
    that they were made from. The file and the digests are truncated to these blocks."""
    path.touch()
    marks.touch()
    done = position = mark = 0
    texts = (text for _, text, _ in entries(source))
    with path.open("rb") as lines, marks.open("rb") as digests:
        for stated in digests:
            written = list(islice(lines, ROWS))
            if not written or stated != _digest(islice(texts, ROWS), written):
                break
            done, position, mark = done + len(written), position + sum(map(len, written)), mark + len(stated)
    os.truncate(path, position)
    os.truncate(marks, mark)
    return done
