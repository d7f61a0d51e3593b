"""What a fit prints, and what its card and a report say, counted again from the lines that were given."""

import hashlib
import json
import os
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import ModelCard

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.own_policy import fitting
from cocal.own_policy.evaluation import draw, read, report
from cocal.own_policy.rollouts import experience_of, find
from cocal.own_policy.scored import Reading
from cocal.own_policy.states import Encoder
from hand_rows import lines
from own_rollouts import SMALL, killed_at, read_lines, run, write_lines


@pytest.fixture
def counted(own):
    """Complete responses to learn from and to choose by, and wrong ones among the first: by the lowest keyed hashes."""
    rows, settings = own.rollouts, CompanionSettings()
    texts = {" ".join(text.lower().split()) for text in own.texts[rows["question_id"]]}
    key = f"split {settings.split_seed}".encode()
    keyed = sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=16, key=key).digest())
    held = {*keyed[: max(1, round(settings.validation_share * len(texts)))]}
    out = np.array([" ".join(own.texts[name].lower().split()) in held for name in rows["question_id"]])
    whole = ~rows["truncated"].to_numpy()
    wrong = ~rows["correct"].to_numpy()
    return out, int((whole & ~out).sum()), int((whole & out).sum()), float(wrong[whole & ~out].mean())


def test_a_fit_says_what_it_learnt_from_and_what_chose_its_pass(own, source, fit, counted, tmp_path, capsys):
    out, training, validation, wrong = counted
    assert len({training, validation, int(out.sum()), len(out)}) == 4
    assert round(100 * wrong, 1) != round(100 - 100 * wrong, 1), "the share of right ones is another number"
    assert fit(source) == 0
    printed = capsys.readouterr().out
    assert (
        f"It learnt from {training:,} responses, {100 * wrong:.1f} % of them wrong; {validation:,} responses" in printed
    )
    spec = Companion.from_pretrained(tmp_path / "companion").about.spec
    assert (spec.training_responses, spec.validation_responses) == (training, validation)
    assert spec.training_error_share == pytest.approx(wrong)
    card = ModelCard.load(tmp_path / "companion/README.md").text
    numbers = [text.replace(",", "") for text in re.findall(r"\d[\d,.]*", card)]
    assert str(training) in numbers
    assert str(validation) in numbers
    learnt = re.search(rf"\b{training:,}\b[^.|]*?(\d+\.\d) %[^.|]*(wrong|incorrect)", card)
    assert learnt is None or float(learnt[1]) == pytest.approx(100 * wrong, abs=0.05)


def test_the_small_print_of_a_report_counts_what_is_drawn(tmp_path):
    """A question whose responses have no valid confidence is in no curve."""
    rows = [{"question_id": k // 3, "confidence": k / 60, "correct": k % 4 > 0} for k in range(48)]
    for row in rows[:6] + rows[9:10]:
        row["confidence"] = None
    scored = read(lines(tmp_path / "in.jsonl", *rows), Reading({}))
    numbers = report(scored, tmp_path / "report")
    figure = draw(scored, numbers, pd.read_csv(tmp_path / "report/reliability.csv"))
    said = [text.get_text() for text in figure.texts]
    assert said == ["in.jsonl: 41 responses to 14 questions"]
    page = (tmp_path / "report/index.html").read_text()
    assert "48" in page
    assert "7 of them have no valid confidence" in page


def test_states_that_were_kept_of_other_responses_are_not_taken(tmp_path, own, monkeypatch):
    """A killed fit goes on with a file of the same size and time, in which two responses are other ones."""
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    words = ("fit", "--model", own.checkpoint, "--rollouts", source, *SMALL, "--output")
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "fit_companions", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(*words, tmp_path / "companion")
    state, rows = source.stat(), read_lines(source)
    for row in (rows[1], rows[5]):
        row["response_ids"] = row["response_ids"][1::-1] + row["response_ids"][2:]
    lines(source, *rows)
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    if source.stat().st_size != state.st_size:
        source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert source.stat().st_size == state.st_size
    seen = killed_at(monkeypatch, fitting, "pooled_states", 0, 2)
    assert run(*words, tmp_path / "companion") == 0
    assert sum(seen) == len(rows), "all states are computed again"
    assert run(*words, tmp_path / "again") == 0
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "companion" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_files_without_steps_are_learnt_in_the_order_of_their_numbers(tmp_path, own):
    """1, 2, ..., 10, 11: neither as texts sort nor as the folder lists them."""
    folder = tmp_path / "dump"
    folder.mkdir()
    parts = [own.rollouts[k : k + 5].reset_index(drop=True) for k in range(0, 60, 5)]
    for number in (11, 1, 10, 2, *range(3, 10), 12):
        write_lines(folder / f"{number}.jsonl", parts[number - 1], own.texts)
        rows = read_lines(folder / f"{number}.jsonl")
        lines(folder / f"{number}.jsonl", *({k: v for k, v in row.items() if k != "step"} for row in rows))
    for places in ([folder], sorted(folder.iterdir()), sorted(folder.iterdir())[::-1]):
        found = experience_of(find(places).samples({}, Counter()), Encoder(own.policy))
        assert found.rows["response_ids"].map(list).tolist() == own.rollouts["response_ids"].map(list).tolist()
