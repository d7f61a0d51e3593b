"""JSON lines in the words of any project."""

from cocal.rollouts import lines
from cocal.rollouts.format import Format

FORMAT = Format(
    name="JSON lines",
    version="",
    files="`*.jsonl`",
    about="your own, or those of prime-rl of April 2026 (`train_rollouts.jsonl`); see [Lines of your own](lines.md)",
    example=("rollouts.jsonl", {"prompt": "What is 2 + 3?", "response": "It is 5.", "correct": True, "step": 1}),
    recognises=lambda path, fields: path.suffix == ".jsonl",
    read=lines.read,
    last=True,
)
