"""`cocal fit` and `cocal score` as the owner of a policy types them: from verl's lines to confidences."""

import json
import re
import shlex
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.confidence import UNKNOWN, scoring
from cocal.confidence.scored import read_scored
from cocal.fitting.models import Checkpoint
from cocal.models.loading import load_policy, load_tokenizer
from cocal.rollouts.format import Reading
from cocal.runtime.numerics import PORTABLE, computes_bfloat16
from cocal.store.origin import PROVENANCE
from hand_rows import lines
from micro import in_bfloat16, own_copy, scale_weights
from own_rollouts import CHANGES, read_lines, run, write_lines


def without_confidences(path):
    return [{name: value for name, value in line.items() if "confidence" not in name} for line in read_lines(path)]


def test_verl_s_lines_become_a_companion_and_get_confidences(tmp_path, own, score):
    config = Companion.from_pretrained(own.companion).config
    said = " ".join(config.notes)
    for words in (
        "3 files of verl's JSON lines",
        "only where these are missing: score; not read: gts, request_id",
        "60 prompts are texts without chat markers, which were put back",
        "ids were made anew",
        "15 groups have 4 responses",
    ):
        assert words in said
    assert config.spec.training_responses + config.spec.validation_responses == (~own.rollouts["truncated"]).sum()
    assert not list(own.companion.parent.glob(".*.fit"))
    assert score(own.verl / "2.jsonl") == 0
    assert without_confidences(tmp_path / "scored.jsonl") == read_lines(own.verl / "2.jsonl")
    scored = read_lines(tmp_path / "scored.jsonl")
    assert {line["confidence_ids"] for line in scored} == {"tokenised"}
    assert all(0 < line["confidence"] < 1 for line in scored)


def test_a_fit_warns_where_nothing_says_which_responses_were_cut(own, fit, caplog):
    for flags, told in (((), True), (("--max-response-length", "20"), False)):
        caplog.clear()
        assert fit(own.verl, *flags, to=f"{told}") == 0
        warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert any("rows do not say whether they were cut at the limit" in said for said in warned) == told


def test_responses_beyond_the_limit_and_the_mean_confidence_are_told(tmp_path, own, score, capsys, caplog, monkeypatch):
    monkeypatch.setattr(scoring, "ROWS", 6)
    caplog.set_level("INFO")
    assert score(own.verl / "2.jsonl", "--max-response-length", "3") == 0
    printed = capsys.readouterr().out
    assert re.search(r"3 tokens or more count as cut, .*; [1-9]\d* are longer: if these were sampled with", printed)
    rows = read_lines(tmp_path / "scored.jsonl")
    mean = np.mean([line["confidence"] for line in rows])
    assert f"response {len(rows)}/{len(rows)}, mean confidence {mean:.3f}" in caplog.text
    assert f"{len(rows)} have ids that were made anew from texts" in printed
    metrics = Companion.from_pretrained(own.companion).config.held_out.metrics
    (card,) = (one.value for one in metrics if one.metric == "mean_confidence")
    assert f"  mean confidence {mean:.3f}, {card:.3f} on the card\n" in printed


def test_given_ids_are_scored_exactly_and_labels_are_optional(tmp_path, score, source, own, capsys):
    lines(source, *({k: v for k, v in line.items() if k != "correct"} for line in read_lines(source)))
    assert score(source, "--seed", "137", "--name", "p") == 0
    assert "made anew" not in capsys.readouterr().out
    scored = read_lines(tmp_path / "scored.jsonl")
    given = own.rollouts["prompt_ids"], own.rollouts["response_ids"]
    expected = Companion.from_pretrained(own.companion).score(*own.policy, *given, seed=137)
    np.testing.assert_array_equal([line["p"] for line in scored], expected)
    assert {line["confidence_ids"] for line in scored} == {"given"}
    assert {line["p_by"] for line in scored} == {f"{Companion.from_pretrained(own.companion).identity()[:12]} 137"}


def test_texts_and_chats_are_scored_too(tmp_path, score):
    found = []
    for line in (
        {"prompt": "What is 2 + 3?", "response": "5", "id": "ü"},
        {"messages": [{"role": "user", "content": "What is 2 + 3?"}], "response": "5"},
        {"prompt": "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n", "response": "5<|im_end|>"},
        {"input": "user\nWhat is 2 + 3?\nassistant\n", "output": "5"},
    ):
        (tmp_path / "in.jsonl").write_text(json.dumps(line, ensure_ascii=False) + "\n\n", encoding="utf-8")
        assert score(tmp_path / "in.jsonl") == 0
        assert without_confidences(tmp_path / "scored.jsonl") == [line]
        found += [one["confidence"] for one in read_lines(tmp_path / "scored.jsonl")]
    assert len({*found}) == 1


def test_prompts_are_read_as_those_that_the_companion_learnt_from(tmp_path, own, score):
    """TRL's texts went to the policy without a template: lines with such texts do so again, and chats stay chats."""
    tokenizer, folder = own.policy.tokenizer, tmp_path / "trl"
    folder.mkdir()
    for step, rows in own.rollouts.groupby("step"):
        table = {"prompt": own.texts[rows["question_id"]].tolist(), "right": rows["correct"].astype(float).tolist()}
        table["completion"] = tokenizer.batch_decode(rows["response_ids"].tolist(), skip_special_tokens=True)
        pq.write_table(pa.table(table), folder / f"completions_{step:05}.parquet")
    assert own.fit(folder, tmp_path / "plain") == 0
    text, ids = "What is 2 + 3?", tokenizer("What is 2 + 3?")["input_ids"]
    chat = [{"role": "user", "content": text}]
    written = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    of_template = tokenizer(written, add_special_tokens=False)["input_ids"]
    given = [{"prompt": text}, {"prompt_ids": ids}, {"messages": chat}, {"prompt_ids": of_template}]
    lines(tmp_path / "in.jsonl", *({**one, "response": "5"} for one in given))
    assert score(tmp_path / "in.jsonl", companion=tmp_path / "plain") == 0
    plain, exact, of_chat, rendered = (one["confidence"] for one in read_lines(tmp_path / "scored.jsonl"))
    assert plain == pytest.approx(exact, abs=1e-6)
    assert of_chat == pytest.approx(rendered, abs=1e-6)
    assert abs(plain - of_chat) > 1e-4


def test_prompts_that_were_learnt_from_are_counted(own, source, score, caplog):
    known, new = read_lines(source)[:3], {"prompt_ids": [5, 6, 7], "response_ids": [3, 4], "score": 1.0}
    for given, count in (([*known, new, new], 3), ([new], 0)):
        lines(source, *given)
        caplog.clear()
        assert score(source) == 0
        said = f"{count} prompts are among those that the companion learnt from"
        assert (said in caplog.text) == (count > 0)
        scored = read_scored(source.with_name("scored.jsonl"), Reading())
        assert [one.get("confidence_learnt") for one in read_lines(scored.source)].count(True) == count
        assert any(note.startswith(f"{count} of {len(given)} prompts are among") for note in scored.notes) == (
            count > 0
        )


def test_what_the_card_does_not_say_is_warned_of(tmp_path, own, source, score, decide, caplog, capsys):
    companion = Companion.from_pretrained(own.companion)
    config, held = companion.config, companion.config.held_out
    for told, constant in ((False, 1.0), (True, 0.0)):  # Brier scores, of which the companion's is never the best
        other = held.model_copy(update={"constant": constant})
        parts = {"held_out": other, "held_out_all_steps": None if told else other}
        parts |= {"asked": ""} if told else {}
        companion.config = config.model_copy(update={**parts, "held_out_complete": None})
        companion.save_pretrained(tmp_path / f"{told}")
        caplog.clear()
        assert score(source, companion=tmp_path / f"{told}") == 0
        assert ("on the card, last stage" in capsys.readouterr().out) != told
        assert (UNKNOWN in caplog.text) == ("Not shown to be better than a constant on all" in caplog.text) == told
        rows = read_lines(tmp_path / "scored.jsonl")
        assert {row["confidence_learnt"] for row in rows} == {None if told else True}
        assert decide("best-of-n", rows)[0] == 0
        assert (UNKNOWN in capsys.readouterr().out) == told


def test_scoring_takes_the_same_memory_however_many_responses_there_are(tmp_path, own, monkeypatch):
    """With ten times the responses, the most that Python holds stays the same."""
    monkeypatch.setattr(scoring, "ROWS", 64)
    monkeypatch.setattr(Companion, "score_encoded", lambda self, policy, rows, **_: (np.zeros(len(rows)), [], None))
    companion, most = Companion.from_pretrained(own.companion), []
    for count in (100, 1000):
        wanted = scoring.Wanted(tmp_path / "in.jsonl", {})
        wanted.source.write_text(f'{{"prompt_ids": {[1, 2] * 100}, "response_ids": {[3, 4] * 100}}}\n' * count)
        checked = scoring.check(wanted, companion.config)
        folder = type("Folder", (), {"path": tmp_path / str(count)})
        folder.path.mkdir()
        tracemalloc.start()
        scoring.score_file(companion, own.policy, wanted, checked, folder)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len((folder.path / "scored.jsonl").read_text().splitlines()) == count
    assert most[1] < 1.2 * most[0]


def test_swapped_folders_and_answers_within_a_chat_are_told(tmp_path, own, score, source, capsys):
    assert score(source, companion=own.checkpoint, model=own.companion) == 2
    assert "belongs to a language model (qwen3) and not to a companion; are --comp" in capsys.readouterr().err
    said = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    lines(tmp_path / "chat.jsonl", {"messages": said})
    assert score(tmp_path / "chat.jsonl") == 2
    assert "such as the last message of a chat, has to be put beside it first" in capsys.readouterr().err


def test_a_list_of_rows_is_a_table(own, table):
    settings = CompanionSettings(widths=(8,), dropout=(0.0,), passes=1, seeds=(42,), targets=("binary",))
    found = [Companion.fit(*own.policy, given, settings=settings) for given in (table, table.to_dict("records"))]
    states = np.random.default_rng(0).normal(size=(5, found[0].config.spec.inputs)).astype(np.float32)
    np.testing.assert_array_equal(*(one.score_states(states) for one in found))


def test_a_row_without_a_response_gets_none_and_says_why(tmp_path, own, score, source, capsys):
    rows = read_lines(source)
    lines(source, rows[0], rows[1] | {"response_ids": []}, *rows[2:], rows[3] | {"response_ids": []})
    assert score(source) == 0
    assert "no confidence for 2: its response is empty" in capsys.readouterr().out
    scored = read_lines(tmp_path / "scored.jsonl")
    assert [line["confidence"] for line in scored].count(None) == 2
    assert scored[1] == rows[1] | {"response_ids": [], "confidence": None, "confidence_reason": "its response is empty"}
    found = [line["confidence"] for line in (scored[0], *scored[2:-1])]
    given = (own.rollouts[name].drop(own.rollouts.index[1]) for name in ("prompt_ids", "response_ids"))
    np.testing.assert_allclose(found, Companion.from_pretrained(own.companion).score(*own.policy, *given), rtol=1e-5)
    assert run("evaluate", tmp_path / "scored.jsonl", "--output", tmp_path / "report") == 0
    lines(source, *(row | {"response_ids": []} for row in rows[:2]))
    assert score(source) == 2
    assert f"{source}: there is no response to score (its response is empty)" in capsys.readouterr().err
    lines(source, rows[0], rows[1] | {"images": ["one.png"]})
    assert score(source, "--overwrite") == 0
    assert read_lines(tmp_path / "scored.jsonl")[1]["confidence_reason"] == "it has images or other media"


def test_a_field_that_the_first_rows_lack_is_read(tmp_path, score, source):
    """Whether a response was cut, which the first says by its length alone."""
    rows = read_lines(source)
    given = lines(tmp_path / "in.jsonl", rows[0], *(row | {"truncated": k == 2} for k, row in enumerate(rows[1:9], 1)))
    assert score(given) == 0
    cut = [row["confidence_response"]["truncated"] for row in read_lines(tmp_path / "scored.jsonl")]
    assert cut[1:4] == [False, True, False]


def test_other_weights_are_warned_of_and_another_vocabulary_is_refused(
    tmp_path, own, fit, score, source, caplog, capsys
):
    mine = own_copy(own.checkpoint, tmp_path / "mine")
    assert fit(source, "--model", mine) == 0
    as_fitted = {"companion": tmp_path / "companion"}
    assert score(source, **as_fitted, model=own_copy(mine, tmp_path / "moved")) == 0
    assert "its weights are not those" not in caplog.text
    scale_weights(other := own_copy(mine, tmp_path / "other"), 1.01)
    assert score(source, **as_fitted, model=other) == 0
    assert f"{other}: its weights are not those of {mine}; its confidences may be worse calibrated" in caplog.text
    companion = Companion.from_pretrained(as_fitted["companion"])
    for folder, dtype in ((mine, torch.float32), (mine, torch.bfloat16), (other, torch.float32)):
        caplog.clear()
        companion.score(*load_policy(folder, dtype=dtype), ["What is 2 + 3?"], ["5"])
        said = f"the model's weights are not those of {mine}, for which the companion was fitted"
        assert (said in caplog.text) == (folder == other)
    content = json.loads((file := mine / "tokenizer.json").read_text())
    ids = content["model"]["vocab"]
    content["model"]["vocab"] = dict(zip(ids, [*ids.values()][1:] + [*ids.values()][:1], strict=True))
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert score(source, **as_fitted, model=mine) == 2
    assert f"{mine}: its tokenizer gives other ids to texts than that of" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "told"), [("checkpoint-1", True), ("global_step_2", False), ("mine", False)])
def test_rollouts_of_steps_after_the_checkpoint_are_told(tmp_path, own, fit, source, caplog, name, told):
    rows = [row | {"step": min(row["step"], 2)} for row in read_lines(source)]
    mine = own_copy(own.checkpoint, tmp_path / name)
    (mine / PROVENANCE).unlink(missing_ok=True)
    assert fit(lines(source, *rows), "--model", mine) == 0
    assert ("the checkpoint is of step 1, but the rollouts end at step 2" in caplog.text) == told


def test_a_model_that_finds_the_responses_unlikely_is_told(own, table):
    unlikely = own.policy.model.config.vocab_size - 1
    strange = table.assign(response_ids=[[unlikely] * (2 + len(ids)) for ids in table["response_ids"]])
    for rollouts, count in ((table, 0), (strange, 1)):
        config = Companion.fit(*own.policy, rollouts, recipe="best", token_probability=True).config
        said = "less likely than random tokens (a mean log-probability of -"
        assert sum(said in note for note in config.notes) == count


@pytest.mark.slow
def test_responses_that_the_policy_would_hardly_give_are_told(own, table, caplog):
    """Where most of them are so."""
    companion = Companion.fit(*own.policy, table, recipe="best", token_probability=True)
    prompts, responses = table["prompt_ids"].tolist(), table["response_ids"].tolist()
    strange = [np.array(ids)[::-1] for ids in responses]
    few = len(responses) // 3
    for given, told in ((responses, False), (strange[:few] + responses[few:], False), (strange, True)):
        caplog.clear()
        companion.score(*own.policy, prompts, given)
        assert ("less likely to the model" in caplog.text) == told


def test_thinking_mode_goes_from_the_fit_to_the_scores(tmp_path, own, source, fit):
    """Chats are rendered as ids of the same template would be, in the mode that the fit was told."""
    model = own_copy(own.checkpoint, tmp_path / "model")
    CHANGES["template"](model, source)
    tokenizer = load_tokenizer(model)
    files = {"thinking": [], "plain": [], "chats": []}
    for line in read_lines(source):
        chat = [{"role": "user", "content": line["prompt"]}]
        rest = {name: line[name] for name in ("response_ids", "correct", "step", "truncated", "question_id")}
        files["chats"].append({"messages": chat, **rest})
        for name in ("thinking", "plain"):
            options = {"add_generation_prompt": True, "return_dict": False, "enable_thinking": name == "thinking"}
            ids = tokenizer.apply_chat_template(chat, **options)
            files[name].append({"prompt": line["prompt"], "prompt_ids": ids, **rest})
    paths = {name: lines(tmp_path / f"{name}.jsonl", *given) for name, given in files.items()}

    def weights(name, *flags):
        to = f"{name}{len(flags)}"
        assert fit(paths[name], "--model", model, *flags, to=to) == 0
        return (tmp_path / to / "model.safetensors").read_bytes()

    thinks = ("--thinking", "--ignore", "markers")  # the texts never end their thought
    assert weights("chats", *thinks) == weights("thinking") != weights("plain") == weights("chats")

    def confidences(name, companion):
        assert own.score(paths[name], tmp_path / "out.jsonl", model=model, companion=tmp_path / companion) == 0
        return np.array([line["confidence"] for line in read_lines(tmp_path / "out.jsonl")])

    np.testing.assert_array_equal(confidences("chats", "chats3"), confidences("thinking", "chats3"))
    np.testing.assert_array_equal(confidences("chats", "chats0"), confidences("plain", "chats0"))
    assert (confidences("plain", "chats3") != confidences("thinking", "chats3")).mean() > 0.9


@pytest.mark.slow
def test_names_of_fields_are_kept_and_printed_commands_carry_them(tmp_path, capsys, own):
    """The commands that are printed are run as they are, with files whose fields have names of their own."""
    rows = [
        {
            "question": own.texts[row.question_id],
            "text": own.policy.tokenizer.decode(row.response_ids, skip_special_tokens=True),
            "grade": 9.5 if row.correct else 2.25,
            "at": int(row.step),
            "output": "not the response",
        }
        for row in own.rollouts.itertuples()
    ]
    folder = tmp_path / "a folder"
    folder.mkdir()
    mine, new, out = lines(folder / "mine.jsonl", *rows), folder / "new.jsonl", folder / "out.jsonl"
    lines(new, *({name: value for name, value in row.items() if name != "at"} for row in rows[::-1]))
    flags = ["--field", "response=text", "--field", "reward=grade", "--field", "step=at", "--correct-above", "4.75"]
    flags += ["--max-response-length", "20", "--batch-tokens", "2000"]
    assert own.fit(mine, folder / "companion", *flags) == 0
    config = Companion.from_pretrained(folder / "companion").config
    assert config.fields == {"response": "text", "reward": "grade", "step": "at"}
    assert (config.correct_above, config.max_response_length) == (4.75, 20)

    command = shlex.split(capsys.readouterr().out.rpartition("Next: cocal ")[2])
    assert command[-6:-2] == ["--batch-tokens", "2000", "--field", "response=text"]
    assert run(*({"in.jsonl": new, "out.jsonl": out}.get(word, word) for word in command)) == 0
    printed = capsys.readouterr().out
    assert "fields: question as prompt, text as response; not read: grade, output" in printed
    assert "responses of 20 tokens or more count as cut" in printed
    given = ("--companion", folder / "companion", "--model", own.checkpoint, "--batch-tokens", "2000")
    assert run("score", *given, new, tmp_path / "again.jsonl") == 0
    assert "text as response" in capsys.readouterr().out, "the companion's own names do without flags"
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()

    vote, evaluate = (line.partition("cocal ")[2] for line in printed.splitlines()[-2:])
    assert run(*(folder / word if word == "chosen.jsonl" else word for word in shlex.split(vote))) == 0
    assert run(*(folder / word if word == "report" else word for word in shlex.split(evaluate))) == 0
    printed = capsys.readouterr().out
    assert "a reward above 4.75 means correct" in printed
    assert f"{'Accuracy (%)':<30} {100 * own.rollouts['correct'].mean():6.1f}" in printed
    assert "not read: output\n" in printed


def test_responses_unlike_those_that_were_learnt_from_are_told(tmp_path, caplog, own, fit, source, score):
    """All are cut to one token: their length and their share of cut ones are others than the last stage's."""
    assert fit(source) == 0
    config = Companion.from_pretrained(tmp_path / "companion").config
    last = own.rollouts[own.rollouts["step"] >= config.held_out.steps[0]]
    low, middle, high = np.quantile(last["response_ids"].map(len), [0.25, 0.5, 0.75])
    assert score(source, companion=tmp_path / "companion") == 0
    assert "These responses differ" not in caplog.text
    short = own.rollouts.assign(response_ids=own.rollouts["response_ids"].map(lambda ids: ids[:1]), truncated=True)
    short = write_lines(tmp_path / "short.jsonl", short, own.texts)
    assert score(short, companion=tmp_path / "companion") == 0
    assert (
        f"a median length of 1 tokens instead of {middle:.0f} (half of those have {low:.0f} to {high:.0f}), and 100.0 %"
        f" of them cut at the limit instead of {100 * last['truncated'].mean():.1f} %"
    ) in caplog.text


@pytest.mark.parametrize("field", ["confidence", "confidence_trajectory"])
def test_a_scored_file_is_not_scored_again(tmp_path, capsys, score, own, field):
    source = write_lines(tmp_path / "in.jsonl", own.rollouts, own.texts, **{field: [0.5] * len(own.rollouts)})
    assert score(source) == 2
    said = f"line 1: there is a field {field!r} already; give the confidences another name (--name)"
    assert said in capsys.readouterr().err
    assert score(source, "--name", "companion") == 0


def test_a_command_of_one_s_own_takes_the_precision_of_the_weights(micro_checkpoint, tmp_path, monkeypatch):
    """bfloat16 where weights are stored so and the processor has products of it, but never with portable numerics."""
    stored = in_bfloat16(micro_checkpoint, tmp_path / "stored")

    def loaded(folder, *precision):
        return Checkpoint.find(str(folder)).load(*precision).model.dtype

    assert loaded(stored, "bfloat16") == loaded(micro_checkpoint, "bfloat16") == torch.bfloat16
    assert loaded(stored) == loaded(micro_checkpoint) == torch.float32
    for name in PORTABLE:
        monkeypatch.delenv(name)
    assert loaded(stored) == (torch.bfloat16 if computes_bfloat16() else torch.float32)
    assert loaded(stored, "float32") == loaded(micro_checkpoint) == torch.float32
