"""A few true plans over the finished smoke study: the rules pass on what the plan says of settings and code."""

import shutil

import pytest

import started
from smoke_study import CONFIG, ROOT, planned, rules_after, snakemake

UNRECORDED = "but .snakemake/ does not say what made it"


def test_results_that_lack_snakemake_s_record_say_so(tmp_path):
    folders = tmp_path / "results/questions", tmp_path / ".snakemake/metadata"
    for folder in folders:
        folder.mkdir(parents=True)
    plan = ["--dry-run", "--quiet", "rules", "--directory", tmp_path, "--configfile", CONFIG]
    assert UNRECORDED not in started.snakemake(plan).stdout
    (folders[0] / "smoke-train.parquet").touch()
    (folders[1] / "another").touch()  # the record of a file that was made since
    said = started.snakemake(plan).stdout
    assert said.count(UNRECORDED) == 1
    assert "results/questions/smoke-train.parquet is there" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "first", "without"),
    [
        ({}, set(), {"questions"}),
        ({"companion.passes": 3}, {"companions", "online", "predictions"}, {"train_grpo", "responses", "features"}),
    ],
)
def test_an_edit_of_the_study_reruns_what_depends_on_it(smoke, tmp_path, changes, first, without):
    again = rules_after(changes, smoke, tmp_path)
    assert first <= again
    assert not without & again
    assert bool(again) == bool(changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "first", "without"),
    [
        ("stages/training.py", '"""', '"""More words. ', set(), {"train_grpo"}),
        ("methods/p_true.py", "= responses.", "= 1 - responses.", {"predictions", "metrics"}, {"train_grpo", "online"}),
        ("questions/prompts/tiny/verbal.txt", "${question}", "Please. ${question}", {"backbone"}, {"questions"}),
    ],
)
def test_an_edit_of_the_package_reruns_what_it_computes(smoke, tmp_path, file, old, new, first, without):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    path = tmp_path / "src/cocal_study" / file
    text = path.read_text()
    assert old in text, "the test edits a line that is no longer there"
    path.write_text(text.replace(old, new, 1))
    done = snakemake(smoke, "--dry-run", "--quiet", "rules", config=CONFIG, PYTHONPATH=str(tmp_path / "src"))
    said = done.stdout + done.stderr
    assert UNRECORDED not in said
    again = {*planned(said)}
    assert first <= again
    assert not without & again
    assert bool(again) == bool(first)
