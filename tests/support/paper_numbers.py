"""Where the paper's published numbers and claims lie."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "config/paper"
