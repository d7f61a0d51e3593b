"""Bundles of the smoke study: what they hold, that exhibits come out of them again, and what is refused."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from cocal import Companion
from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.errors import ContractError
from cocal.store import label_folder, provenance, write_document
from cocal.store.folders import file_digest
from cocal_study.planning.bundle import check_parents, open_bundle
from cocal_study.store.datasets import read_dataset, write_dataset
from planned_jobs import study_of
from smoke_study import CONFIG, ROOT


def _words(results, folder, study):
    flags = ["--snakefile", str(ROOT / "Snakefile")]
    return ["publish", str(folder), "--study", str(study), "--results", str(results), *flags]


def _publish(results, folder, study=CONFIG):
    return main(_words(results, folder, study))


@pytest.fixture
def bundle(published, tmp_path) -> Path:
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(published, tmp_path / "copy"))


@pytest.fixture
def finished(smoke, tmp_path) -> Path:
    """The results of the smoke study with tables of their own, which a test may spoil."""
    results = tmp_path / "study/results"
    results.mkdir(parents=True)
    for entry in (smoke / "results").iterdir():
        if entry.name == "tables":
            shutil.copytree(entry, results / "tables")
        else:
            (results / entry.name).symlink_to(entry)
    return results


def test_the_main_companion_is_published_with_its_measured_quality_and_rollouts_to_try(smoke, tmp_path, capsys):
    folder, results, study = tmp_path / "companion", smoke / "results", study_of("smoke")
    assert main([*_words(results, folder, CONFIG), "--companion"]) == 0
    evaluated, rollouts = pd.read_parquet(folder / "evaluation.parquet"), folder / "rollouts.jsonl"
    step = study.policy.steps
    stated = pd.read_parquet(results / f"predictions/{study.main_backbone}/grpo/step-{step}.parquet")
    stated = stated[stated["method"] == "cocal-binary"].groupby(["dataset", "response_id"])["confidence"].mean()
    found = evaluated.set_index(["dataset", "response_id"])["confidence"]
    assert set(evaluated["dataset"]) == set(study.evaluation_sets("mathematics"))
    np.testing.assert_allclose(found, stated[found.index], rtol=1e-12)
    held_out = Companion.from_pretrained(folder).config.held_out
    brier = next(one.value for one in held_out.metrics if one.metric == "brier")
    assert brier == pytest.approx(((evaluated["confidence"] - evaluated["correct"]) ** 2).mean())
    assert "chose the best pass" not in (folder / "README.md").read_text()
    policy = results / f"policies/{study.main_backbone}/grpo/step-{step}"
    words = ["score", "--companion", folder, "--model", policy, rollouts, tmp_path / "scored.jsonl"]
    assert main([*map(str, words)]) == 0
    scored = pd.read_json(tmp_path / "scored.jsonl", lines=True)
    assert scored["confidence"].between(0, 1).all()
    assert scored["confidence_learnt"].all()
    assert main([*_words(results, folder, CONFIG), "--companion"]) == 0, "its own folder is written anew"
    (folder / "rollouts.jsonl").write_text("mine")
    assert main([*_words(results, folder, CONFIG), "--companion"]) == 2


def test_a_companion_of_fewer_seeds_has_their_members_and_states_their_quality(smoke, tmp_path, capsys):
    results, words = smoke / "results", ["--companion", "--seeds", "1"]
    whole, small = tmp_path / "whole", tmp_path / "small"
    assert main([*_words(results, whole, CONFIG), "--companion"]) == 0
    assert main([*_words(results, small, CONFIG), *words]) == 0
    companion, reference = Companion.from_pretrained(small), Companion.from_pretrained(whole)
    seed = reference.config.spec.settings.seeds[0]
    assert companion.config.spec.members == [("binary", seed)] != reference.config.spec.members
    states = np.random.default_rng(5).normal(size=(7, companion.config.spec.inputs)).astype(np.float32)
    np.testing.assert_array_equal(companion.score_states(states), reference.score_states(states, seed=seed))
    evaluated = pd.read_parquet(small / "evaluation.parquet")
    brier = next(one.value for one in companion.config.held_out.metrics if one.metric == "brier")
    assert brier == pytest.approx(((evaluated["confidence"] - evaluated["correct"]) ** 2).mean())
    assert not evaluated["confidence"].equals(pd.read_parquet(whole / "evaluation.parquet")["confidence"])
    assert main([*_words(results, tmp_path / "bundle", CONFIG), "--seeds", "1"]) == 2
    assert "so give both" in capsys.readouterr().err
    assert main([*_words(results, tmp_path / "more", CONFIG), "--companion", "--seeds", "9"]) == 2


def _relist(folder):
    """Write the list of a bundle anew, as somebody would who has changed it on purpose."""
    stated = json.loads((folder / "provenance.json").read_text())
    label_folder(folder, {name: text for name, text in stated["provenance"].items() if name != "seal"})


def test_exhibits_come_out_of_a_moved_bundle_with_the_same_bytes(bundle, smoke, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rebuilt = tmp_path / "rebuilt"
    assert main(["reanalyse", "copy", "--output", "rebuilt"]) == 0
    first, second, *others = capsys.readouterr().out.splitlines()
    shown = {*(smoke / "results").glob("tables/*.tex"), *(smoke / "results").glob("figures/*.pdf")}
    count = len(shown) - 1  # the document of all tables shows nothing of its own
    assert first == f"Rebuilt {count - 3} of {count} tables and figures, and 17 files of metrics before them."
    made = [file for file in rebuilt.rglob("*") if file.parent.name in ("metrics", "resamples", "tables", "figures")]
    assert second == f"{len(made)} of {len(made)} files have the same bytes as in the bundle."
    assert others == [
        "  not rebuilt: tables/strata: it needs questions and responses, which a bundle leaves out",
        "  not rebuilt: tables/decisions: it needs responses, which a bundle leaves out",
        "  not rebuilt: tables/conditions: it needs rollouts and questions and responses, which a bundle leaves out",
    ]
    for file in made:
        assert file.read_bytes() == (smoke / file.relative_to(rebuilt)).read_bytes(), file
    assert {"main.tex", "claims.csv"} <= {file.name for file in made}
    (rebuilt / "mine.txt").write_text("a note")
    assert main(["reanalyse", "copy", "--output", "rebuilt"]) == 2
    assert "rebuilt: exists, and does not say that `cocal reanalyse` has made it" in capsys.readouterr().err
    assert (rebuilt / "mine.txt").exists()


def test_a_table_that_is_not_that_of_the_predictions_is_named(bundle, tmp_path, capsys):
    """Nor is anything read outside of the bundle because its study names a place there."""
    planted = tmp_path / "planted/tables/claims.csv"
    planted.parent.mkdir(parents=True)
    planted.write_text("claim\n")
    study = yaml.safe_load((bundle / "study.yaml").read_text())
    study["reports"]["replicates"] = str(tmp_path / "planted")
    (bundle / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    table = bundle / "results/tables/ood.csv"
    text = table.read_text()
    table.write_text(text.replace("cocal-binary", "cocal-group", 1))
    cube = bundle / "results/metrics/smoke-budgets.nc"
    content = read_dataset(cube)
    write_dataset(cube, content.assign(value=content["value"] + 1e-12), content.attrs)
    _relist(bundle)
    assert main(["reanalyse", str(bundle)]) == 0
    _, second, *others = capsys.readouterr().out.splitlines()
    assert second == "92 of 96 files have the same bytes as in the bundle."
    changed = {"metrics/smoke-budgets.nc", "tables/ood.csv"}
    changed |= {f"tables/hyperparameters.{ending}" for ending in ("tex", "html")}  # which show the study's file
    assert {*others[:4]} == {f"  other bytes: results/{name}" for name in changed}
    for name in ("tables/claims", "figures/claims"):
        assert f"  not rebuilt: {name}: it needs {planted}, which this bundle does not hold" in others
    assert "so the cause is the machine, a changed file, or a changed setting" in others[-1]


@pytest.mark.parametrize(
    "place",
    [
        "results/predictions/smoke/rlcr/step-2.parquet",
        "study.yaml",
        "companions/smoke-rollouts/model.safetensors",
    ],
)
def test_a_file_that_was_changed_or_removed_is_named(bundle, place, capsys):
    file = bundle / place
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert main(["reanalyse", str(bundle)]) == 2
    assert f"error: {file}: the file has changed since it was written" in capsys.readouterr().err
    file.unlink()
    assert main(["reanalyse", str(bundle)]) == 2
    assert f"error: {file}: the file is missing" in capsys.readouterr().err


def test_the_list_of_files_may_be_neither_changed_nor_absent(bundle, smoke):
    file = bundle / "provenance.json"
    text = file.read_text()
    for changed, words in (
        (text.replace("wrong", "right", 1), "provenance.json: the file has changed"),
        (text.replace('"seal": "seal:', '"seal": "', 1), "is no list of files"),
    ):
        assert changed != text
        file.write_text(changed)
        with pytest.raises(ContractError, match=words):
            open_bundle(bundle)
    file.unlink()
    for folder in (bundle, smoke / "results/policies/smoke/grpo/step-4", smoke):
        with pytest.raises(ContractError, match="is no list of files; name a folder that `cocal publish` has"):
            open_bundle(folder)


def test_what_leads_out_of_the_bundle_is_refused(bundle, tmp_path):
    """Names in its list, links, pipes, and the parents that a file of it states."""
    listing, page, cube = bundle / "provenance.json", bundle / "README.md", bundle / "results/metrics/smoke.nc"
    text, outside = listing.read_text(), tmp_path / "outside.md"
    shutil.copy(page, outside)
    for place in ("../outside.md", "results\\..\\x"):
        entry = {"size": outside.stat().st_size, "sha256": file_digest(outside)}
        stated = json.loads(text)
        made = {name: said for name, said in stated["provenance"].items() if name != "seal"}
        write_document(listing, {"files": {**stated["files"], place: entry}}, made)
        with pytest.raises(ContractError, match=r"provenance\.json: names '.*', which leaves the folder"):
            open_bundle(bundle)
        listing.write_text(text)
    page.unlink()
    page.symlink_to(outside)
    with pytest.raises(ContractError, match=r"names 'README\.md', which leaves the folder"):
        open_bundle(bundle)
    page.unlink()
    os.mkfifo(page)
    with pytest.raises(ContractError, match=r"README\.md: is no file"):
        open_bundle(bundle)
    check_parents(cube)
    content = read_dataset(cube)
    for parent in ("results/../../x", "home/file"):
        write_dataset(cube, content, {**content.attrs, "parents": json.dumps({parent: "0" * 16})})
        with pytest.raises(ContractError, match=r"smoke\.nc: says that it was made from '.*', which leaves the bundle"):
            check_parents(cube)


def test_a_bundle_is_replaced_only_while_nothing_of_a_user_is_in_it(bundle, smoke, capsys):
    before = (bundle / "results/tables/main.tex").read_bytes()
    assert _publish(smoke / "results", bundle) == 0
    assert (bundle / "results/tables/main.tex").read_bytes() == before
    (bundle / "README.md").write_text("my own page")
    assert _publish(smoke / "results", bundle) == 2
    assert f"{bundle}: exists, and does not say that `cocal publish` has made it" in capsys.readouterr().err
    assert (bundle / "README.md").read_text() == "my own page"


def test_an_unfinished_study_and_a_damaged_result_are_named(finished, tmp_path, capsys):
    own = shutil.move(finished / "tables/ood.html", tmp_path / "ood.html")
    assert _publish(finished, tmp_path / "bundle") == 2
    assert "study/results/tables/ood.html: no such file" in capsys.readouterr().err
    shutil.move(own, finished / "tables/ood.html")
    for name in ("main.csv", "main.tex", "main.html"):
        file = finished / "tables" / name
        content = file.read_bytes()
        file.write_bytes(content.replace(b"0.", b"1.", 1))
        assert _publish(finished, tmp_path / "bundle") == 2
        assert f"{name}: the file has changed since it was written" in capsys.readouterr().err
        file.write_bytes(content)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"study": "other"}, "holds the results of smoke, but .* is other; name the study's file by --study"),
        ({"seed": 43}, r"questions/smoke-.*\.parquet: was not made with the settings of"),
        ({"metrics": {"resamples": 99}}, r"(metrics|resamples)/smoke.*\.nc: was not made with the settings of"),
    ],
)
def test_the_study_of_other_results_is_refused(smoke, tmp_path, change, words, capsys):
    content = yaml.safe_load(CONFIG.read_text())
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content | change, sort_keys=False))
    assert _publish(smoke / "results", tmp_path / "bundle", tmp_path / "study.yaml") == 2
    assert re.search(words, capsys.readouterr().err)


def test_published_companions_are_those_of_the_study(published, smoke):
    fitted = {
        "smoke-rollouts": "smoke/grpo/steps-4",
        "smoke-resampled": "smoke/postcal/steps-4",
        "smoke-prompts": "smoke/prompts/steps-4",
        "smoke-deep-rollouts": "smoke-deep/grpo/steps-4",
        "smoke-deep-resampled": "smoke-deep/postcal/steps-4",
    }
    assert {folder.name for folder in (published / "companions").iterdir()} == {*fitted}
    for name, place in fitted.items():
        ours = load_companions(smoke / "results/companions" / place)
        theirs = Companion.from_pretrained(published / "companions" / name)
        states = np.random.default_rng(7).normal(size=(5, ours.spec.inputs)).astype(np.float32)
        expected = ours.predict(states)
        for (target, seed), confidences in zip(ours.members, expected, strict=True):
            np.testing.assert_array_equal(theirs.score_states(states, target=target, seed=seed), confidences)
        assert len(np.unique(expected)) > 5
        assert (theirs.config.base_model.step, theirs.config.states) == (4, "float32")
        card = (published / "companions" / name / "README.md").read_text()
        assert f"The study smoke fitted these companions (results/companions/{place})" in card


def test_texts_stay_out_and_question_sets_are_named(published, smoke):
    texts = pd.read_parquet(smoke / "results/questions/smoke-large.parquet")["question"]
    for file in published.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(text.encode() in content for text in texts), file
    for file in published.rglob("*.parquet"):
        assert {"question", "text", "prompt_ids"}.isdisjoint(pd.read_parquet(file).columns)
    page = (published / "README.md").read_text()
    for label in ("Smoke-Train", "Smoke-Large", "Smoke-Small", "Smoke-Facts"):
        assert f"* {label}: " in page


def test_the_provenance_in_a_bundle_goes_on_where_its_files_end(published, smoke, monkeypatch, capsys):
    cell = ["--cell", "cocal-group", "smoke-small", "ece"]
    monkeypatch.chdir(smoke)
    assert main(["trace", "results/tables/main.csv", *cell]) == 0
    here = capsys.readouterr().out
    monkeypatch.chdir(published)
    assert main(["trace", "results/tables/main.csv", *cell]) == 0
    there = capsys.readouterr().out
    commit = "commit  "
    assert there.replace("  (not here)", "").partition(commit)[0] == here.partition(commit)[0]
    gone = [line.split()[1] for line in there.splitlines() if line.endswith("(not here)")]
    assert {"results/policies/smoke/grpo/step-4", "results/rollouts/smoke/grpo"} <= {*gone}
    assert there.partition(commit)[2].strip().endswith("(of the code that published the bundle)")
    assert provenance("publish", {})["versions"] in there
