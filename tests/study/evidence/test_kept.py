"""What is kept of a replicate: the numbers that come from it are those of the study."""

import numpy as np
import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal_study.commands.gather import reanalyse
from cocal_study.config.study import load_study
from cocal_study.evidence.kept import NUMBERS, _coded, _decoded, keep, recomputed
from cocal_study.planning.replicates import Gathered
from smoke_study import ROOT

STUDY = load_study(ROOT / "config/smoke.yaml")


def test_confidences_are_kept_in_steps_and_missing_ones_stay_missing():
    given = np.array([[0.0, 1.0, 0.502, np.nan], [0.25, 0.999, np.nan, 0.1], [0.2, 0.3, 0.4, 0.0]])
    found = _decoded(_coded(given))
    assert np.isnan(found).tolist() == np.isnan(given).tolist()
    np.testing.assert_allclose(found, given, atol=0.5 / 254)


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
    np.testing.assert_allclose(
        own, main, atol=0.07
    )  # a few responses, which a step of 1/254 ties or moves to another bin
    exact = [name for name in main.index if name[2] == "accuracy"]
    np.testing.assert_allclose(own[exact], main[exact], atol=1e-9)
    both = pd.read_csv(smoke / "results/tables/sampling.csv").set_index(NUMBERS)["value"].dropna()
    close = found.reindex(both.index)
    np.testing.assert_allclose(close, both, atol=0.11)  # one of five pairs of a question is a tie of half
    assert (close["own"] - close["second"].reindex(close["own"].index)).abs().max() > 0.01
    assert {"length"} < set(found.reset_index()["method"])

    makers = {3: {"commit": "1a2b", "numerics": "portable", "processor": "one", "versions": {}}}
    (folder / "gathered.json").write_text(Gathered(study="smoke", replicates=makers).model_dump_json())
    (folder / "tables").mkdir()
    table = found["own"].reindex(main.index).rename("replicate_3").reset_index()
    table.to_csv(folder / "tables/main.csv", index=False, na_rep="NaN")
    reanalyse([folder], STUDY, ROOT / "config/paper")
    said = capsys.readouterr().out
    assert "1 replicates, whose numbers are within 0.0000" in said
    assert "CoCal beats PostCal, binary target" in said
    table.assign(replicate_3=table["replicate_3"] + 0.01).to_csv(folder / "tables/main.csv", index=False, na_rep="NaN")
    with pytest.raises(ContractError, match="replicate 3 differs by"):
        reanalyse([folder], STUDY, ROOT / "config/paper")
    (folder / "kept/3.zip").write_bytes(b"no archive")
    with pytest.raises(ContractError, match="holds no kept replicate"):
        recomputed(folder / "kept/3.zip")
