"""What is kept of a replicate: the numbers that come from it are those of the study."""

import numpy as np
import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal_study.commands.gather import reanalyse
from cocal_study.evidence.kept import NUMBERS, _coded, _decoded, _metrics, keep, recomputed
from cocal_study.planning.replicates import Gathered
from planned_jobs import study_of
from smoke_study import ROOT

STUDY = study_of("smoke")


def test_every_metric_of_what_is_kept_is_that_of_the_confidences():
    generator = np.random.default_rng(3)
    dataset = np.repeat([0, 2, 1], [90, 70, 83]).astype(np.uint8)
    correct, question = generator.random(243) < 0.6, generator.integers(9, size=243)
    logits = generator.normal(scale=[[0.1], [3.0], [9.0]], size=(3, 243)) + correct
    given = np.concatenate(
        [1 / (1 + np.exp(-logits)), generator.integers(11, size=(1, 243)) / 10, 0.5 + logits[:1] / 1e9]
    )
    given[1, ::7], given[2, dataset == 2] = np.nan, np.nan
    found = _decoded(_coded(given, correct, dataset, 10) | {"dataset": dataset}, 10)
    assert np.isnan(found).tolist() == np.isnan(given).tolist()
    assert not np.allclose(found[1], given[1], atol=1e-3, equal_nan=True)  # the values themselves are not kept
    for row, place in np.ndindex(5, 3):
        of = dataset == place
        ours, theirs = (_metrics(one[row, of], correct[of], question[of], 10) for one in (found, given))
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), atol=1e-12, err_msg=f"{row} {place}")
    assert _metrics(found[4, :90], correct[:90], question[:90], 10)["auroc"] > 0.9  # a billionth apart


@pytest.mark.slow
def test_the_numbers_of_a_kept_study_are_those_of_its_tables(smoke, tmp_path, capsys):
    folder = tmp_path / "spread"
    keep(STUDY, smoke, folder / "kept/3.zip")
    keep(STUDY, smoke, tmp_path / "again.zip")
    assert (folder / "kept/3.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()
    found = recomputed(folder / "kept/3.zip").set_index(NUMBERS)["value"]
    main = pd.read_csv(smoke / "results/tables/main.csv").set_index(["dataset", "method", "metric"])["value"]
    own = found["own"].reindex(main.index)
    assert own.notna().sum() == main.notna().sum() > 100
    np.testing.assert_allclose(own, main, atol=1e-9)
    both = pd.read_csv(smoke / "results/tables/sampling.csv").set_index(NUMBERS)["value"].dropna()
    close = found.reindex(both.index)
    np.testing.assert_allclose(close, both, atol=1e-9)
    assert (close["own"] - close["second"].reindex(close["own"].index)).abs().max() > 0.01
    assert {"length"} < set(found.reset_index()["method"])

    maker = {"commit": "1a2b", "numerics": "portable", "processor": "one", "versions": {}}
    (folder / "tables").mkdir()
    table = main.rename("replicate_3").reset_index()

    def gathered(*numbers: int, added: float = 0) -> None:
        for number in numbers:
            table[f"replicate_{number}"] = table["replicate_3"] + added * (number == 5)
            (folder / f"kept/{number}.zip").write_bytes((tmp_path / "again.zip").read_bytes())
        whole = Gathered(study="smoke", replicates=dict.fromkeys(numbers, maker))
        (folder / "gathered.json").write_text(whole.model_dump_json())
        table.to_csv(folder / "tables/main.csv", index=False, na_rep="NaN")

    gathered(3)
    reanalyse([folder], STUDY, ROOT / "config/paper")
    assert "Fewer than three replicates have no say" in capsys.readouterr().out
    gathered(3, 4, 5)
    reanalyse([folder], STUDY, ROOT / "config/paper")
    said = capsys.readouterr().out
    assert "3 replicates, whose numbers are within 0.0000" in said
    assert "CoCal beats PostCal, binary target" in said
    whole = Gathered(study="smoke", replicates=dict.fromkeys((3, 5), maker), refused={4: ("too easy",)})
    (folder / "gathered.json").write_text(whole.model_dump_json())
    reanalyse([folder], STUDY, ROOT / "config/paper", tmp_path / "headlines")
    written = pd.read_csv(tmp_path / "headlines/headlines.csv", keep_default_na=False, na_values=["NaN"])
    assert list(written)[-3:] == ["replicate_3", "refused_4", "replicate_5"]
    leads = {(one.method, one.baseline, one.metric): one.refused_4 for one in written.itertuples()}
    of_main = main.loc["macro-mathematics"]["cocal-binary"]["ece"], main.loc["macro-mathematics"]["rlcr"]["ece"]
    assert leads["cocal-binary", "rlcr", "ece"] == pytest.approx(of_main[1] - of_main[0], abs=1e-9)
    assert (tmp_path / "headlines/refused.csv").read_text() == "replicate,condition\n4,too easy\n"
    gathered(3, 4, 5, added=0.001)
    with pytest.raises(ContractError, match=r"replicate 5 differs by 0\.0010"):
        reanalyse([folder], STUDY, ROOT / "config/paper")
    (folder / "kept/3.zip").write_bytes(b"no archive")
    with pytest.raises(ContractError, match="holds no kept replicate"):
        recomputed(folder / "kept/3.zip")
