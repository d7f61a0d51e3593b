"""Replicates: other seeds of the policies, and the spread of all numbers."""

import csv
import json
import shutil

import numpy as np
import pytest

from cocal import cli
from cocal.runtime.numerics import processor
from cocal_study.config.study import load_study
from cocal_study.planning import digests
from cocal_study.planning.digests import commit
from cocal_study.planning.replicates import refusals, replicate, spread
from cocal_study.provenance.owner import claim
from flat_keys import flat
from planned_jobs import study_of

FIGURE = ("figures/replications.pdf", "figures/replications.png")
SEEDS = ("seed", "policy.seed", "generation.seed", "postcal.seed", "backbones.tiny.seed", "backbones.small.seed")
"""Keys that a replicate changes, besides its caption."""


def test_a_replicate_differs_in_the_seeds_of_the_policies_alone(repository, tmp_path):
    study = study_of("config")
    file = tmp_path / "study.yaml"
    words = ["--study", repository / "config/config.yaml", "--number", 3, "--output", file]
    assert cli.main(["replicate", *map(str, words)]) == 0
    written = load_study(file)
    assert written == replicate(study, 3)
    ours, theirs = (flat(one.model_dump(mode="json")) for one in (study, written))
    none = ("replicates", "central", "regimes", "experience", "fits", "prefixes", "language_model")
    changed = {key for key in ours | theirs if ours.get(key) != theirs.get(key)}
    assert changed == {*SEEDS, "caption", *(f"reports.{name}" for name in none)}
    assert {getattr(written.reports, name) for name in none} == {None}, "a replicate has none of its own"
    assert all(theirs[key] == ours[key] + 3 for key in SEEDS)
    assert "replicate 3" in written.caption


def test_a_replicate_of_the_central_comparison_has_the_policies_of_the_whole_one(repository, tmp_path):
    """It lacks methods and stages; questions, corpus, training and sampling are the same."""
    whole = replicate(study_of("config"), 3)
    words = ["replicate", "--number", 3, "--study", repository / "config/central.yaml"]
    words += ["--output", tmp_path / "study.yaml"]
    assert cli.main([*map(str, words)]) == 0
    central = load_study(tmp_path / "study.yaml")
    assert (central.study, list(central.backbones)) == ("central", ["tiny"])
    assert central.datasets == whole.datasets
    assert central.backbones["tiny"] == whole.backbones["tiny"]
    for name in ("seed", "world", "generation", "postcal", "companion"):
        assert getattr(central, name) == getattr(whole, name), name
    ours, theirs = (study.policy.for_training("grpo") for study in (central, whole))
    assert ours.model_copy(update={"stages": theirs.stages}) == theirs
    wanted = {"base-verbal", "self-consistency", "token-probability", "postcal-binary", "cocal-group"}
    assert wanted < set(central.estimators.methods)


def test_checkpoints_that_exist_have_no_seed():
    study = study_of("paper")
    assert replicate(study, 1).backbones == study.backbones


def write(folder, rows, header=("dataset", "method", "metric", "value", "lower"), name="tables/main.csv"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def results(tmp_path):
    """Results of three replicates."""
    folders = [tmp_path / str(number) / "results" for number in (1, 2, 5)]
    for folder, value in zip(folders, (0.1, 0.2, 0.6), strict=True):
        write(
            folder,
            [
                ("macro-mathematics", "verbal", "ece", value, 0.0),
                ("macro-mathematics", "verbal", "auroc", "NaN", "NaN"),
            ],
        )
        write(folder, [("Training", "Steps", "120")], ("section", "setting", "value"), "tables/hyperparameters.csv")
        write(folder, [("CoCal", value)], ("method", "training_llm"), "tables/cost.csv")
        claim(folder, "embedded", "config.yaml")
    return folders


def test_the_spread_of_every_number(results, tmp_path, monkeypatch, capsys):
    def before_the_files():
        """Gathered numbers that git tracks would make the commit that made them a changed one."""
        assert not (tmp_path / "spread").exists()
        return commit()

    monkeypatch.setattr(digests, "commit", before_the_files)
    assert cli.main(["spread", *map(str, results), "--output", str(tmp_path / "spread")]) == 0
    files = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "spread").rglob("*.*"))
    kept = [f"digests/{number}.json" for number in (1, 2, 5)]
    assert files == [f"spread/{name}" for name in (*kept, *FIGURE, "gathered.json", "tables/main.csv")]
    found = json.loads((tmp_path / "spread/digests/5.json").read_text())
    assert found["digests"] == digests.digests_of(results[2])
    assert {found["made_by"]["commit"]} == {commit()}
    assert cli.main(["trace", str(tmp_path / "spread/tables/main.csv")]) == 0
    first, *each = capsys.readouterr().out.splitlines()
    assert first.endswith("tables/main.csv: gathered of 3 replicates of the study embedded")
    own = digests.digests_of(results[1])["tables"]["tables/main.csv"]
    assert each[1] == f"  replicate 2: {own}, commit {commit()}, on {processor()}"
    gathered = json.loads((tmp_path / "spread/gathered.json").read_text())
    assert (gathered["study"], list(gathered["replicates"]), gathered["refused"]) == ("embedded", ["1", "2", "5"], {})
    assert {one["commit"] for one in gathered["replicates"].values()} == {commit()}
    with (tmp_path / "spread/tables/main.csv").open() as file:
        first, second = csv.DictReader(file)
    assert [first[key] for key in ("dataset", "method", "metric")] == ["macro-mathematics", "verbal", "ece"]
    assert [float(first[f"replicate_{number}"]) for number in (1, 2, 5)] == [0.1, 0.2, 0.6]
    assert float(first["mean"]) == pytest.approx(0.3)
    assert float(first["sd"]) == pytest.approx(0.07**0.5)
    assert (float(first["least"]), float(first["greatest"])) == (0.1, 0.6)
    assert second["mean"] == second["replicate_2"] == "NaN"


def test_the_verdicts_of_claims_are_gathered_beside_their_margins(results):
    """A margin that one replicate could not assess is missing there."""
    columns = ("claim", "source", "score", "case", "margin", "value", "lower", "verdict")
    for place, folder in enumerate(results):
        rows = [("a", "study", "", 0, "", 0.1 + place, 0.0, "holds"), ("a", "study", "", 1, "m", 0.2, 0.0, "holds")]
        write(folder, rows[: 1 + (place != 1)], columns, "tables/claims.csv")
    found = spread(dict(enumerate(results, 1)))["tables/claims.csv"]
    assert list(found.columns[:5]) == list(columns[:5])
    whole, margin = (row for _, row in found.iterrows())
    assert [whole[f"replicate_{number}"] for number in (1, 2, 3)] == [0.1, 1.1, 2.1]
    assert [margin[f"verdict_{number}"] for number in (1, 3)] == ["holds", "holds"]
    assert np.isnan(margin["replicate_2"])


def conditions(folder, accuracy=0.6, right=0.55):
    """Conditions of a replicate, of which two are required; the others and what methods reach have no say."""
    columns = ("condition", "of", "metric", "value", "paper", "ratio", "matched", "least", "greatest", "place")
    rows = [
        ("Accuracy after GRPO (%)", "Syn-AIME24", "accuracy", 0.01, 0.473, 0.021, "reported", "NaN", "NaN", ""),
        ("Accuracy after GRPO (%)", "Macro average", "accuracy", accuracy, 0.638, 0.9, "required", 0.425, 0.957, ""),
        ("Right among the kept (%)", "RLCR", "share", right, "NaN", "NaN", "required", 0.5, "NaN", ""),
        ("Responses kept", "GRPO", "count", 3.0, "NaN", "NaN", "size", "NaN", "NaN", ""),
    ]
    write(folder, rows, columns, "tables/conditions.csv")


def test_a_replicate_takes_part_if_its_required_conditions_lie_between_their_bounds(results):
    for accuracy, right, refused in (
        (0.6, 0.55, []),
        (0.425, 0.5, []),
        (0.424, 0.55, ["Accuracy after GRPO, Macro average: 0.424, not in [0.425, 0.957]"]),
        (0.958, 0.55, ["Accuracy after GRPO, Macro average: 0.958, not in [0.425, 0.957]"]),
        (0.6, 0.499, ["Right among the kept, RLCR: 0.499, not in [0.500, inf]"]),
        ("NaN", 0.1, ["Accuracy after GRPO, Macro average: nan", "Right among the kept, RLCR: 0.100"]),
    ):
        conditions(results[0], accuracy, right)
        found = refusals(results[0])
        assert len(found) == len(refused)
        assert all(one.startswith(start) for one, start in zip(found, refused, strict=True)), found


def test_only_admitted_replicates_are_gathered_under_their_own_numbers(results, tmp_path, caplog, capsys):
    """The reasons come from the conditions alone: the refused replicate has the best calibration of the three."""
    for folder, accuracy in zip(results, (0.3, 0.5, 0.7), strict=True):
        conditions(folder, accuracy)
    words = ["spread", *map(str, results), "--output", str(tmp_path / "spread")]
    assert cli.main(words) == 0
    why = "Accuracy after GRPO, Macro average: 0.300, not in [0.425, 0.957]"
    gathered = json.loads((tmp_path / "spread/gathered.json").read_text())
    assert (list(gathered["replicates"]), gathered["refused"]) == (["2", "5"], {"1": [why]})
    assert f"{results[0]} takes no part, by its conditions: {why}" in caplog.text
    for name in ("main", "conditions"):
        with (tmp_path / f"spread/tables/{name}.csv").open() as file:
            first, *_ = csv.DictReader(file)
        assert [key for key in first if key.startswith("replicate_")] == ["replicate_2", "replicate_5"], name
    with (tmp_path / "spread/tables/main.csv").open() as file:
        assert float(next(csv.DictReader(file))["mean"]) == pytest.approx(0.4)
    shutil.rmtree(tmp_path / "spread")
    conditions(results[2], 0.99)
    assert cli.main(words) == 2
    assert not (tmp_path / "spread").exists()
    error = capsys.readouterr().err
    assert "two replicates at least that have the required conditions (tables/conditions), and there are 1" in error
    assert f"replicate 1: {why}; replicate 5: Accuracy after GRPO, Macro average: 0.990" in error


def test_replicates_join_those_that_were_gathered_before(results, tmp_path):
    """As if all had been gathered at once; one that is given again takes its own place, or leaves it."""
    columns = ("claim", "source", "score", "case", "margin", "value", "lower", "verdict")
    for place, folder in enumerate(results):
        rows = [("a", "study", "", 0, "", 0.1 * place, 0.0, "holds"), ("a", "study", "", 1, "m", 0.2, 0.0, "holds")]
        write(folder, rows[: 1 + (place != 1)], columns, "tables/claims.csv")
        conditions(folder)

    def gather(folder, *given):
        words = ["spread", *map(str, given), "--output", str(tmp_path / folder), "--overwrite"]
        assert cli.main(words) == 0
        names = ("tables/claims.csv", "tables/main.csv", "gathered.json")
        return [(tmp_path / folder / name).read_text() for name in names]

    at_once = gather("once", *results)
    gather("later", results[0], results[2])
    assert gather("later", results[1]) == at_once
    assert gather("later", results[0]) == at_once
    conditions(results[2], 0.1)
    *_, gathered = gather("later", results[2])
    assert list(json.loads(gathered)["replicates"]) == ["1", "2"]
    with (tmp_path / "later/tables/main.csv").open() as file:
        assert [name for name in next(csv.reader(file)) if name.startswith("rep")] == ["replicate_1", "replicate_2"]
    shutil.rmtree(tmp_path / "later/tables")
    assert cli.main(["spread", str(results[0]), "--output", str(tmp_path / "later"), "--overwrite"]) == 2


def test_what_does_not_fit_together_is_named(results, tmp_path, capsys):
    def refusal(*folders) -> str:
        assert cli.main(["spread", *map(str, folders), "--output", str(tmp_path / "spread")]) == 2
        assert not (tmp_path / "spread").exists()
        return capsys.readouterr().err

    assert "two replicates at least" in refusal(results[0])
    twice = tmp_path / "1/../1/results"
    assert f"{results[0]} and {twice} have the same number" in refusal(results[0], results[1], twice)
    other = shutil.copytree(tmp_path / "2", tmp_path / "elsewhere/1") / "results"
    assert f"{results[0]} and {other} have the same number" in refusal(results[0], results[1], other)
    copied = shutil.copytree(tmp_path / "2", tmp_path / "3") / "results"
    assert f"{results[1]} and {copied} hold the same numbers" in refusal(results[1], copied)
    assert f"{tmp_path / '9/results'}: there is no such folder" in refusal(results[0], tmp_path / "9/results")
    (results[1] / "study.json").unlink()
    claim(results[1], "smoke", "smoke.yaml")
    assert f"{results[1]}: holds study smoke" in refusal(*results)
    (results[1] / "study.json").unlink()
    claim(results[1], "embedded", "config.yaml")
    write(results[1], [("macro-mathematics", "verbal", "ece", 0.2, 0.0)])
    lacks = "main.csv: replicate 2 lacks the row ('macro-mathematics', 'verbal', 'auroc')"
    assert f"{results[1]}/tables/{lacks}" in refusal(*results)
    shutil.rmtree(results[2] / "tables")
    assert f"{results[2]}/tables/cost.csv: there is no such file" in refusal(*results)
