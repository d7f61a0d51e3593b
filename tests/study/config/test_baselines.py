"""The paper study trains the baselines as the table of the protocol says that their authors do."""

import pytest
import yaml

from planned_jobs import study_of

COLUMNS = ("algorithm", "key", "authors", "where", "here", "why")
SAME_MEANING = {"bnpo": "dapo", "token-mean": "dapo"}
"""Names that the authors' code has for our averages, which are taken over other batches."""


@pytest.fixture(scope="module")
def rows(repository) -> list[dict[str, str]]:
    page = (repository / "docs/protocol.md").read_text(encoding="utf-8")
    section = page.partition("## How the baselines' authors train")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    found = [dict(zip(COLUMNS, (cell.strip() for cell in line.split("|")[1:-1]), strict=True)) for line in lines]
    return [row | {"key": row["key"].strip("`"), "algorithm": row["algorithm"].lower()} for row in found]


def value(cell: str):
    return yaml.safe_load(cell.strip("`"))


@pytest.fixture(scope="module")
def paper():
    return study_of("paper").policy


def test_here_is_what_the_paper_study_trains_with(rows, paper):
    for row in rows:
        found = getattr(paper.for_training(row["algorithm"]), row["key"])
        assert (list(found) if isinstance(found, tuple) else found) == value(row["here"]), row


def test_what_differs_from_the_authors_has_a_reason_and_nothing_else_has(rows):
    for row in rows:
        assert (value(row["authors"]) != value(row["here"])) == bool(row["why"]), row
        if row["key"] == "loss":
            assert SAME_MEANING[value(row["authors"])] == value(row["here"])


def test_each_setting_of_the_update_is_in_the_table_for_both_baselines(rows, paper):
    """So that a key that is added to `policy.own` is compared with the authors' code, too."""
    shared = {*type(paper.own["rlcr"]).model_fields} - {"clip_low", "clip_high"}
    for algorithm in ("rlcr", "dcpo"):
        assert shared <= {row["key"] for row in rows if row["algorithm"] == algorithm}
