"""A folder of results belongs to one study."""

import json

import pandas as pd
import pytest

from cocal.errors import ConfigError, ContractError
from cocal.store import provenance, write_frame
from cocal_study.provenance.owner import claim, owner_of, refuse_gaps, refuse_other_study
from cocal_study.store.contracts import JUDGEMENTS


def test_a_folder_belongs_to_the_study_that_claims_it_first(tmp_path):
    results = tmp_path / "results"
    assert owner_of(results) is None
    refuse_other_study(results, "first", "first.yaml")
    assert not results.exists()
    for _ in range(2):
        claim(results, "first", "first.yaml")
    assert json.loads((results / "study.json").read_text()) == {"study": "first"}
    words = (
        f"{results} belongs to the study 'first', .* the study 'second' would overwrite.* "
        r"`snakemake --directory studies/second --configfile config/second\.yaml \.\.\.`.* `make clean`$"
    )
    for act in (claim, refuse_other_study):
        with pytest.raises(ConfigError, match=words):
            act(results, "second", "config/second.yaml")
    assert owner_of(results) == "first"


def test_a_damaged_file_of_the_owner_is_named(tmp_path):
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(ContractError, match="not a readable JSON file that names a study"):
        owner_of(tmp_path)


def test_a_rollout_step_that_was_deleted_is_said(tmp_path):
    """Whichever it is, the last one too; folders without tables of steps are none of ours."""
    made = provenance("train", {"policy": {"steps": 4}})
    replies = pd.DataFrame({"key": ["0" * 32], "reply": ["right"], "engine": ["engine 1"]})
    folder = tmp_path / "rollouts/tiny/grpo"
    tables = [folder / f"step-{step:05d}.parquet" for step in range(1, 5)]
    (tmp_path / "rollouts/tiny/other").mkdir(parents=True)
    for table in tables:
        write_frame(table, replies, JUDGEMENTS, made)
    refuse_gaps(str(tmp_path))
    for number, table in enumerate(tables):
        refuse_gaps.cache_clear()
        table.rename(tmp_path / "kept")
        said = rf"step-{number + 1:05d}\.parquet: the table of this rollout step is missing; put it back, or delete"
        with pytest.raises(ContractError, match=said):
            refuse_gaps(str(tmp_path))
        (tmp_path / "kept").rename(table)
    refuse_gaps.cache_clear()
    refuse_gaps(str(tmp_path))
