"""How the report lists tables and figures: its page sorts chapters and entries by their text."""

from dataclasses import replace

import pytest

from cocal.config import load_study
from cocal.exhibits.base.exhibit import CHAPTERS
from cocal.exhibits.base.registry import exhibits_of, report_entry

LISTING = {
    "1 Claims": ["1.1 Which claims of the paper hold", "1.2 Margins of the claims"],
    "2 Main results": [
        "2.01 Main table, step 120",
        "2.02 Reliability diagrams, Syn-AMC24",
        "2.03 Reliability diagrams, all sets",
        "2.04 Training dynamics",
        "2.05 Paired differences between CoCal and the rivals",
        "2.06 Rivals that learn from the same rollouts",
        "2.07 Proper scores and selective risk",
        "2.08 Selective risk against coverage",
        "2.09 Decisions with confidences",
        "2.10 Main table, step 40",
        "2.11 Main table, step 80",
        "2.12 Main table of Small-Qwen3",
    ],
    "3 Transfer": ["3.1 Math-to-factual transfer", "3.2 Transfer between stages", "3.3 Transfer to RLCR and DCPO"],
    "4 Analysis": [
        "4.1 CoCal and PostCal at matched budgets",
        "4.2 Errors in the training data",
        "4.3 The first rollout steps",
        "4.4 Companions that learn while the policy trains",
        "4.5 Token aggregation",
        "4.6 Before and after generation",
        "4.7 Extraction layers",
    ],
    "5 Cost": ["5.1 Cost of training and inference", "5.2 Time to confidence"],
    "6 Study": [
        "6.1 Hyperparameters",
        "6.2 Conditions of the study",
        "6.3 Diagram: how CoCal works",
        "6.4 Diagram: three paradigms",
    ],
}


@pytest.fixture(scope="module")
def study(repository):
    return load_study(repository / "config/config.yaml")


def listing(study) -> dict[str, list[str]]:
    """Entries by chapter, both as the page sorts them."""
    shown, found = exhibits_of(study, {}), {}
    for exhibit in shown:
        chapter, labels = report_entry(exhibit, shown)
        assert len(labels) == 1, "a second label that halves a chapter would hide one half"
        found.setdefault(chapter, []).extend(labels.values())
    return {chapter: sorted(found[chapter]) for chapter in sorted(found)}


def test_chapters_and_entries_sort_by_importance_and_say_the_step_in_words(study):
    found = listing(study)
    assert found == LISTING
    assert list(found) == [f"{place} {chapter}" for place, chapter in enumerate(CHAPTERS, start=1)]


def test_more_than_nine_entries_sort_too(study):
    stages = (10, 20, 30, 40, 50, 60)
    changes = {"policy": {"stages": stages}, "reports": {"early_steps": (2, 5, 10)}}
    longer = {key: getattr(study, key).model_copy(update=change) for key, change in changes.items()}
    found = listing(study.model_copy(update=longer))["2 Main results"]
    assert [entry[:4] for entry in found] == [f"2.{place:02d}" for place in range(1, 15)]
    assert [entry for entry in found if "step" in entry][1:] == [
        f"2.{place:02d} Main table, step {step}" for place, step in enumerate(stages[:-1], start=9)
    ]


def test_what_a_study_does_not_show_leaves_no_gap(study):
    none = study.reports.model_copy(update={"reliability_methods": ()})
    found = listing(study.model_copy(update={"reports": none}))["2 Main results"]
    assert [entry.split(" ")[0] for entry in found] == [f"2.{place:02d}" for place in range(1, 11)]
    assert not any("Reliability" in entry for entry in found)


def test_a_chapter_that_is_nowhere_is_refused(study):
    shown = exhibits_of(study, {})
    with pytest.raises(ValueError, match="not in tuple"):
        report_entry(replace(shown[0], chapter="Heat maps"), shown)
