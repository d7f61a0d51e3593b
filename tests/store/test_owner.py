"""A folder of results belongs to one study."""

import json

import pytest

from cocal.errors import ConfigError, ContractError
from cocal.store.owner import claim, owner_of, refuse_other_study


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
