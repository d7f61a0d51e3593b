"""Rollouts are written while the next are computed: nothing counts as written before it stands on disk."""

import threading

import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.policy import recorder as recorder_module
from cocal.policy.recorder import Outputs, RolloutRecorder
from cocal.store import write_frame
from cocal.store.run_folder import RunFolder
from evaluated_study import responses


@pytest.fixture
def recorder(tmp_path) -> RolloutRecorder:
    return RolloutRecorder(RunFolder(tmp_path / "run", "digest"), 2, {})


def _rollouts(step: int) -> pd.DataFrame:
    return responses().assign(step=step)


def test_a_step_is_missing_until_it_is_written_which_an_error_does_not_stop(recorder, monkeypatch):
    held = threading.Event()

    def write(*arguments):
        assert held.wait(60)
        write_frame(*arguments)

    def interrupted():
        recorder.write(_rollouts(1))
        assert recorder.missing() == [1, 2]
        threading.Timer(0.2, held.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder_module, "write_frame", write)
    with pytest.raises(KeyboardInterrupt), recorder:
        interrupted()
    assert recorder.missing() == [2]


def test_a_last_write_that_failed_is_not_published(recorder, tmp_path):
    recorder.write(_rollouts(1))
    recorder.write(_rollouts(2).drop(columns="reward_task"))
    with pytest.raises(ContractError, match="reward_task"):
        recorder.publish(Outputs({}, tmp_path / "rollouts"), items=2)
    assert not (tmp_path / "rollouts").exists()
