"""How the report lists tables and figures: its page sorts chapters and entries by their text."""

from types import SimpleNamespace

import pytest

MAIN_RESULTS = [
    "1.1 Main table, step 60",
    "1.2 Reliability diagrams",
    "1.3 Reliability diagrams of all sets",
    "1.4 Training dynamics",
    "1.5 Main table, step 20",
    "1.6 Main table, step 40",
    "1.7 Second backbone",
]


@pytest.fixture
def listing(repository):
    """What workflow/rules/report.smk defines, for a study of these stages that shows everything or a part."""

    def of(stages=(20, 40), absent=()):
        steps = [f"main_step{step}" for step in stages]
        tables = ["main", *steps, "scale", "ood", "token_aggregation", "pre_generation", "cost", "time_to_confidence"]
        figures = ["reliability", "reliability_all", "training_dynamics", "cross_iteration", "cross_policy"]
        figures += ["budgets", "composition", "early_steps", "layers", "overview", "paradigms"]
        names = {
            "EARLIER_STAGES": stages,
            "FIGURES": [name for name in figures if name not in absent],
            "tables_of_study": lambda: [name for name in [*tables, "hyperparameters"] if name not in absent],
            "table_step": lambda wildcards: int(wildcards.stage.removeprefix("_step") or 60),
        }
        exec((repository / "workflow/rules/report.smk").read_text(), names)
        return SimpleNamespace(**names)

    return of


def entries(report, *rest: tuple[str, str]) -> list[str]:
    stages = ["", *(f"_step{step}" for step in report.EARLIER_STAGES)]
    found = [report.main_table_labels(SimpleNamespace(stage=stage)) for stage in stages]
    found += [report.labels(name, title) for name, title in rest]
    assert all(len(one) == 1 for one in found)
    return [next(iter(one.values())) for one in found]


REST = (
    ("reliability", "Reliability diagrams"),
    ("reliability_all", "Reliability diagrams of all sets"),
    ("training_dynamics", "Training dynamics"),
    ("scale", "Second backbone"),
)


def test_entries_sort_by_importance_and_say_the_step_in_words(listing):
    assert sorted(entries(listing(), *REST)) == MAIN_RESULTS


def test_more_than_nine_entries_sort_too(listing):
    stages = (10, 20, 30, 40, 50)
    found = sorted(entries(listing(stages), *REST))
    assert [entry[:4] for entry in found] == [f"1.{place:02d}" for place in range(1, 11)]
    assert [entry for entry in found if "step" in entry][1:] == [
        f"1.{place:02d} Main table, step {step}" for place, step in enumerate(stages, start=5)
    ]


def test_what_a_study_does_not_show_leaves_no_gap(listing):
    found = sorted(entries(listing(absent=("reliability_all",)), *(rest for rest in REST if "all" not in rest[0])))
    assert [entry.split(" ")[0] for entry in found] == [f"1.{place}" for place in range(1, 7)]
    # A rule of what is not shown is read all the same.
    assert listing(absent=("layers",)).labels("layers", "Layers")


def test_chapters_sort_by_importance_and_one_that_is_nowhere_is_refused(listing):
    report = listing()
    chapters = [report.category(name) for name in ("main", "ood", "budgets", "cost", "hyperparameters")]
    assert chapters == sorted(chapters) == ["1 Main results", "2 Transfer", "3 Analysis", "4 Cost", "5 Study"]
    with pytest.raises(ValueError, match="heatmap stands in no chapter"):
        report.category("heatmap")
