"""Digests of a study's outputs: which ones are listed, and what the verdict says."""

import json
import re
import shutil

import pytest

from cocal import cli
from cocal.errors import ContractError
from cocal_study.planning.digests import STAGES, Maker, StudyDigests, main_outputs, verdict

MAKER = Maker(commit="abc", numerics="portable", processor="Some Processor", versions={"python": "3.11.7"})
DIGESTS = {"questions": {"questions/a.parquet": "1"}, "policies": {"p/1": "2", "p/2": "3"}, "tables": {"t.csv": "4"}}
THERE = StudyDigests(study="smoke", made_by=MAKER, digests=DIGESTS)


def _changed(**outputs):
    digests = {stage: {name: outputs.get(name, value) for name, value in of.items()} for stage, of in DIGESTS.items()}
    return THERE.model_copy(update={"digests": digests})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            [],
            r"all 4 outputs are those of d\.json \(commit abc, portable numerics, on Some Processor\)\.$",
        ),
        (["t.csv", "p/2"], r"2 of 4 outputs differ(?s:.*)\n  policies: 1 of 2 differ: p/2(?s:.*)\n  tables: 1 of 1"),
        (["t.csv"], "so the cause is the machine"),
    ],
)
def test_differences_are_grouped_by_stage(changed, said):
    assert re.search(said, verdict(_changed(**dict.fromkeys(changed, "x")), THERE, "d.json"))


def test_other_versions_commits_and_numerics_are_named():
    maker = Maker(commit="def", numerics="native", processor="Other", versions={"python": "3.12.1"})
    text = verdict(_changed(**{"t.csv": "x"}).model_copy(update={"made_by": maker}), THERE, "d.json")
    for words in ("python 3.11.7 there and 3.12.1 here", "abc there and def here", "portable there and native here"):
        assert words in text
    assert "because" not in text, "it chose native numerics"
    maker = maker.model_copy(update={"obstacle": "portable results need Linux, not Darwin on arm64"})
    text = verdict(_changed(**{"t.csv": "x"}).model_copy(update={"made_by": maker}), THERE, "d.json")
    assert "The machine here computed natively because portable results need Linux, not Darwin on arm64." in text


def test_missing_outputs_and_other_studies_are_refused():
    fewer = THERE.model_copy(update={"digests": {"questions": DIGESTS["questions"]}})
    with pytest.raises(ContractError, match=r"p/1, p/2, t.csv of it are missing from the results"):
        verdict(fewer, THERE, "d.json")
    with pytest.raises(ContractError, match=r"d\.json: it lists no output"):
        verdict(THERE, THERE.model_copy(update={"digests": {}}), "d.json")
    assert "p/1, p/2, t.csv of these results stand in no line of" in verdict(THERE, fewer, "d.json")
    with pytest.raises(ContractError, match=r"digests of the study smoke, and the results are those of mine"):
        verdict(THERE.model_copy(update={"study": "mine"}), THERE, "d.json")


@pytest.mark.slow
def test_a_study_is_compared_with_itself_and_a_planted_difference_is_named(smoke, tmp_path, capsys):
    unneeded = shutil.ignore_patterns("runs", "benchmarks", "*.pdf", "*.png")
    results = shutil.copytree(smoke / "results", tmp_path / "results", ignore=unneeded)
    file = tmp_path / "digests.json"
    listed = {str(path.relative_to(results)): stage for stage, path in main_outputs(results)}
    assert [*dict.fromkeys(listed.values())] == list(STAGES)
    assert not {name for name in listed if "cost" in name or "time_to" in name or "latency" in name}
    assert cli.main(["digests", "--results", str(tmp_path / "empty")]) == 2
    assert "no finished study" in capsys.readouterr().err
    assert cli.main(["digests", "--results", str(results), "--compare", str(file)]) == 2
    assert "digests.json: no such" in capsys.readouterr().err
    assert cli.main(["digests", "--results", str(results), "--write", str(file)]) == 0
    assert cli.main(["digests", "--results", str(results), "--compare", str(file)]) == 0
    assert "computed the same bytes" in capsys.readouterr().out
    made = json.loads(file.read_text())["made_by"]
    assert made["numerics"] == "portable"
    assert made["processor"]
    assert set(made["versions"]) >= {"python", "torch", "numpy"}
    table = results / "tables/main.csv"
    table.write_text(table.read_text().replace("0.", "1.", 1))
    assert cli.main(["digests", "--results", str(results), "--compare", str(file)]) == 0
    assert "  tables: 1 of" in (said := capsys.readouterr().out)
    assert "tables/main.csv" in said
    table.unlink()
    assert cli.main(["digests", "--results", str(results), "--compare", str(file)]) == 2
    assert "tables/main.csv of it is missing" in capsys.readouterr().err
