"""Lineage: products name their parents, wrong parents are refused, and changed ancestors are found."""

import json
import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from safetensors.numpy import save_file

from cocal.cli import main
from cocal.errors import ContractError
from cocal.store import provenance, write_document, write_frame
from cocal_study.checks.training import read_table
from cocal_study.provenance.lineage import Product, Source, descent, inherited, placed, trace
from cocal_study.store.contracts import JUDGEMENTS

REPLIES = pd.DataFrame({"key": ["0" * 32], "reply": ["right"], "engine": ["engine 1"]})


def _table(path, reply="right", **facts):
    write_frame(path, REPLIES.assign(reply=reply), JUDGEMENTS, provenance("judge", {}, **facts))
    return path


def _child(path, *sources, **facts):
    write_document(path, {}, descent(path, "check", {}, map(Source, sources), **facts))
    return path


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Paths of a child, its two parents and their common parent in results/."""
    monkeypatch.chdir(tmp_path)
    first = _table("results/questions/first.parquet", dataset="sums")
    left = _child("results/left.json", first, backbone="tiny", step=4)
    right = _child("results/right.json", first, backbone="tiny", step=4)
    return _child("results/tables/child.json", left, right, backbone="tiny"), left, right, first


def test_a_product_names_its_parents_and_their_digests(family):
    child, left, right, _ = family
    assert {str(path) for path in Product(Path(child)).parents} == {left, right}
    assert Product(Path(child)).parents[Path(left)] == Product(Path(left)).identity
    assert Product(Path(left)).facts["step"] == "4"
    assert inherited(left, "backbone", "algorithm") == {"backbone": "tiny"}


def test_the_lineage_of_a_study_that_was_moved_still_holds(family, tmp_path, monkeypatch):
    shutil.move(tmp_path / "results", tmp_path / "studies/mine/results")
    monkeypatch.chdir(tmp_path / "studies")
    found = [str(product.path) for _, product in trace("mine/results/tables/child.json")]
    assert found[2] == "mine/results/questions/first.parquet"


def test_the_parents_of_one_product_serve_those_made_with_it(family):
    _, left, _, _ = family
    attributes = descent("results/rollouts/tiny/grpo", "train", {}, [Source(left)])
    for place in ("results/a.json", "results/features/tiny/grpo/b.json", "results/policies/tiny/grpo/step-1/c.json"):
        write_document(place, {}, attributes | placed(place))
        assert list(Product(Path(place)).parents) == [Path(left)]


def test_a_file_in_the_place_of_another_is_refused_whatever_it_is(family):
    """One table of a folder among its own, and a spec beside the weights of other companions."""
    child, left, right, _ = family
    rollouts, companions = Path("results/rollouts/tiny"), Path("results/companions/tiny/grpo")
    for step, algorithm in product((1, 2), ("dcpo", "rlcr")):
        folder = rollouts / algorithm
        made = descent(folder, "train", {}, [], backbone="tiny", algorithm=algorithm, experience="rollouts")
        write_frame(folder / f"step-{step}.parquet", REPLIES, JUDGEMENTS, made)
    for folder in (companions / "steps-1", companions / "steps-2"):
        folder.mkdir(parents=True)
        made = descent(folder, "companions", {}, [], source_step=int(folder.name[-1]))
        save_file({}, folder / "companions.safetensors", {"cocal": json.dumps({"provenance": made})})
        write_document(folder / "spec.json", {}, made)
    names = ("spec.json", "companions.safetensors")
    swaps = [(companions / "steps-1" / name, companions / "steps-2" / name, companions / "steps-2") for name in names]
    swaps += [(rollouts / "dcpo/step-2.parquet", rollouts / "rlcr/step-2.parquet", rollouts / "rlcr")]
    for other, file, whole in [*swaps, (left, right, right)]:
        content = Path(file).read_bytes()
        descent(child, "check", {}, [Source(whole)])
        shutil.copy(other, file)
        for look in (lambda: descent(child, "check", {}, [Source(whole)]), lambda: list(trace(whole))):  # noqa: B023
            with pytest.raises(ContractError, match=f"^{file}: was made as .*, and lies in the place of another; del"):
                look()
        Path(file).write_bytes(content)
    shutil.copy(left, right)
    with pytest.raises(ContractError, match=f"^{right}: was made as"):  # and not that the child is outdated
        list(trace(child))
    shutil.copy(*swaps[-1][:2])
    with pytest.raises(ContractError, match=r"^results/rollouts/tiny/rlcr/step-2\.parquet: was made as"):
        read_table(rollouts / "rlcr", Path("results/questions/a.parquet"))


def test_a_changed_ancestor_is_named_with_what_was_made_from_it(family):
    child, left, _, first = family
    _table(first, reply="wrong", dataset="sums")
    with pytest.raises(ContractError, match=f"{left}: was made from {first} when its digest was"):
        list(trace(child))


def test_an_ancestor_may_be_written_again_or_deleted_to_free_space(family):
    child, left, right, first = family
    _table(first, dataset="sums")
    assert len(list(trace(child))) == 4
    Path(first).unlink()
    assert [str(product.path) for _, product in trace(child)] == [child, left, right]


TOLD = ["backbone", "algorithm", "step", "prompt_format", "dataset", "experience", "source_step", "validation_step"]


@pytest.mark.parametrize("fact", TOLD)
def test_a_source_that_states_another_fact_is_refused(tmp_path, fact):
    """Such as responses in another prompt format, of another policy or question set."""
    facts = {name: f"a {name}" for name in TOLD}
    write_document(tmp_path / "source.json", {}, provenance("responses", {}, **facts))
    output = tmp_path / "product.json"
    assert descent(output, "features", {}, [Source(tmp_path / "source.json")], **facts)
    other = facts | {fact: "another"}
    assert descent(output, "features", {}, [Source(tmp_path / "source.json", **{fact: f"a {fact}"})], **other)
    said = f"{fact.replace('_', ' ')} is a {fact}, not another"
    with pytest.raises(ContractError, match=said):
        descent(output, "features", {}, [Source(tmp_path / "source.json")], **other)
    with pytest.raises(ContractError, match=said):
        descent(output, "features", {}, [Source(tmp_path / "source.json", **{fact: "another"})])


def test_a_users_own_file_states_nothing_and_is_taken(tmp_path):
    (tmp_path / "own.json").write_text("{}")
    made = descent(tmp_path / "child.json", "check", {}, [Source(tmp_path / "own.json")], backbone="tiny")
    assert "own.json" in made["parents"]
    with pytest.raises(ContractError, match="no such file"):
        descent(tmp_path / "child.json", "check", {}, [Source(tmp_path / "absent.json")])


def test_the_command_prints_the_family_and_refuses_a_changed_one(family, capsys):
    child, left, right, first = family
    assert main(["trace", child]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [child, left, first, right]
    assert lines[2].startswith("    results/questions/first.parquet")
    assert lines[2].endswith("judge sums")
    assert main(["trace", child, "--depth", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    _table(first, reply="wrong")
    assert main(["trace", child]) == 2
    assert f"delete {left} and rerun" in capsys.readouterr().err


def test_a_link_to_a_result_has_the_ancestors_of_the_result(family, tmp_path, capsys):
    child, *ancestors = family
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link.json").symlink_to(tmp_path / child)
    (tmp_path / "folder").symlink_to(tmp_path / "results/tables")
    (tmp_path / "results/link.json").symlink_to("tables/child.json")
    assert main(["trace", child]) == 0
    direct = capsys.readouterr().out
    assert [line.split()[0] for line in direct.splitlines()] == [child, ancestors[0], ancestors[2], ancestors[1]]
    for link in ("elsewhere/link.json", "folder/child.json", "results/link.json"):
        assert main(["trace", link]) == 0
        assert capsys.readouterr().out == direct
