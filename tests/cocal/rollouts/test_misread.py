"""Files that were read as something else: each is refused in one sentence, or read as it was meant."""

import json

import pandas as pd
import pytest

from chat_rows import BEGIN, HEAD, RENDERED, SWITCH, answers
from cocal.errors import ConfigError, ContractError
from cocal.models.loading import load_policy
from cocal.rollouts.files import find
from hand_rows import lines

OPENS = HEAD + BEGIN + "<think>\n{% endif %}"
NAMED = HEAD + BEGIN + "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}{% endif %}"
CHANNEL = HEAD + BEGIN + "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}{% endif %}"
COMMAND = HEAD + BEGIN + "{% if not reasoning %}<|START_THINKING|><|END_THINKING|>{% endif %}{% endif %}"
COMMANDED = "<|START_THINKING|>I add.<|END_THINKING|>"
PARTS = HEAD.replace("{{ m.content }}", "{% for part in m.content %}{{ part.text }}{% endfor %}")
USERS = HEAD.replace("{% for m in messages %}", "{% for m in messages if m.role in ('user', 'assistant') %}")
OPENED = HEAD + BEGIN + "{% if thinking is defined and thinking %}<think>{% endif %}{% endif %}"


@pytest.mark.parametrize(
    ("template", "before", "how", "said"),
    [
        (OPENS, "", {}, r"never ends its thought \(</think> is missing\), as in 6 of 6 rows"),
        (OPENS, "I add.</think>", {}, None),
        (NAMED, "I add.</think>", {}, r"it has </think>\); give --template-field .*it reads thinking"),
        (NAMED, "I add.</think>", {"template_fields": {"thinking": True}}, None),
        (SWITCH, "<think>I add.</think>", {}, r"without thinking .*give --thinking"),
        (SWITCH, "<think>I add.</think>", {"thinking": True}, None),
        (SWITCH, "", {"thinking": True}, r"never ends its thought"),
        (SWITCH, "", {}, None),
        (CHANNEL, "<|channel>thought\nI add.<channel|>", {}, r"it has <channel\|>\)"),
        (CHANNEL, "thought\nI add.", {}, r"it has <channel\|>\)"),
        (COMMAND, COMMANDED, {}, r"it has <\|END_THINKING\|>\).*\(it reads reasoning\)"),
        (COMMAND, COMMANDED, {"template_fields": {"reasoning": True}}, None),
        (OPENED, "I add.</think>", {}, r"it has </think>\); .*\(it reads thinking\)"),
        (OPENED, "I add.</think>", {"template_fields": {"thinking": True}}, None),
        (OPENED, "", {}, None),
    ],
)
def test_thoughts_stand_behind_prompts_that_open_them(reading, template, before, how, said):
    if said is None:
        assert len(reading(template, *answers(before), **how)[1].rows) == 6
    else:
        with pytest.raises(ContractError, match=said):
            reading(template, *answers(before), **how)


def test_where_a_template_has_no_switch_ids_are_the_remedy(reading):
    template = HEAD.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}") + BEGIN + "{% endif %}"
    with pytest.raises(ContractError, match=r"it has </think>\); give exact ids \(prompt_ids\), as in 6"):
        reading(template, *answers("I add.</think>"))


@pytest.mark.parametrize(("template", "role"), [(PARTS, "user"), (USERS, "system"), (USERS, "developer")])
def test_words_that_the_template_leaves_out_are_told(reading, template, role):
    """As templates with images do where messages are texts, and those that know no developer."""
    chat = [{"role": role, "content": "Be strict."}, {"role": "user", "content": "1 + 3?"}]
    rows = [{"messages": chat, "response": str(k), "correct": k == 4} for k in range(6)]
    template += BEGIN + "{% endif %}"
    with pytest.raises(
        ContractError, match=rf"line 1: the template leaves out what the {role} says; .*--ignore {role}"
    ):
        reading(template, *rows)
    assert len(reading(template, *rows, ignored=(role,))[1].rows) == 6


def test_a_mode_that_the_template_does_not_know_is_refused(reading):
    with pytest.raises(ConfigError, match=r"--thinking changes nothing in this chat template; it reads thinking"):
        reading(NAMED, *answers(), thinking=True)


def test_a_line_s_own_values_reach_the_template(reading):
    rows = answers("I add.</think>", chat_template_kwargs={"thinking": True})
    tokenizer, found = reading(NAMED, *rows)
    assert all(tokenizer.decode(ids).endswith("<think>") for ids in found.rows["prompt_ids"])


def test_texts_that_lack_the_tokens_of_a_reply_are_refused(reading):
    """As gpt-oss's, whose replies name their channel, here by the end token."""
    harmony = HEAD.replace("{{ m.content }}", "{% if m.role == 'assistant' %}<|pad|>{% endif %}{{ m.content }}")
    tokenizer, _ = reading(SWITCH, *answers())
    template = harmony.replace("<|pad|>", tokenizer.pad_token) + BEGIN + "{% endif %}"
    with pytest.raises(ContractError, match=r"the text lacks the special tokens that the template writes in a reply"):
        reading(template, *answers("analysis I add.final"))
    assert len(reading(template, *answers(), ignored=("markers",))[1].rows) == 6


@pytest.mark.parametrize(("asked", "said"), [("input", "output"), ("prompt", "response")])
def test_a_chat_without_its_special_tokens_that_is_not_the_template_s_is_refused(reading, asked, said):
    """As verl writes them, here with a turn of a tool; those of a user, and of a system before it, are put back."""
    rows = [{said: row["response"], "score": float(row["correct"]), "step": 1} for row in answers()]
    chats = [row | {asked: f"system\nx\nuser\n{k} + 3?\nassistant\n"} for k, row in enumerate(rows)]
    tokenizer, found = reading(SWITCH, *chats)
    assert tokenizer.decode(found.rows["prompt_ids"][1]).startswith("<|im_start|>system\nx<|im_end|>")
    others = [row | {asked: row[asked].replace("system", "tool")} for row in chats]
    with pytest.raises(ContractError, match=r"line 1: the prompt is a chat without .* \(it ends by '.*assistant'\)"):
        reading(SWITCH, *others)
    assert len(reading(SWITCH, *others, ignored=("markers",))[1].rows) == 6


def test_a_chat_of_words_alone_lacks_nothing(reading):
    turns = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    rows = [row | {"prompt": f"tool: 5\nuser: {k} + 3?\nassistant:"} for k, row in enumerate(answers())]
    assert len(reading(turns + "{% if add_generation_prompt %}assistant:{% endif %}", *rows)[1].rows) == 6


@pytest.fixture
def right(reading):
    """Answers with the ids of their texts."""
    tokenizer, _ = reading(SWITCH, *answers())
    return [row | {"response_ids": tokenizer(row["response"])["input_ids"]} for row in answers()]


def test_ids_beside_another_text_are_refused(reading, right):
    assert len(reading(SWITCH, *right)[1].rows) == 6
    other = [row | {"response_ids": [*reversed(row["response_ids"])]} for row in right]
    with pytest.raises(ContractError, match=r"line 1: the ids of the response are not those of its text, but of '"):
        reading(SWITCH, *other)
    assert len(reading(SWITCH, *other, ignored=("response",))[1].rows) == 6


def test_ids_are_compared_with_the_texts_of_their_own_file(reading, right, tmp_path):
    lines(tmp_path / "other.jsonl", *(row | {"response_ids": row["response_ids"][::-1]} for row in right))
    with pytest.raises(ContractError, match=r"other.jsonl: line 1: the ids of the response .* as in 6 of 6 rows"):
        reading(SWITCH, *right, beside=[tmp_path / "other.jsonl"])


def test_rows_of_two_policies_are_refused_or_counted(reading):
    rows = answers(model_name="first")[:4] + answers(model_name="second")[4:]
    said = r"4 of first, 2 of second"
    with pytest.raises(ContractError, match=rf"rows.jsonl: the responses are of several policies \({said}\)"):
        reading(SWITCH, *rows)
    assert f"responses of several policies: {said}" in reading(SWITCH, *rows, ignored=("model",))[1].notes


@pytest.mark.parametrize(
    "end",
    [
        {"finish_reason": "stop", "stop_reason": "</a>"},
        {"finish_reason": "stop", "stop_reason": ["</a>"], "stop": ["</a>", "</b>"]},
        {"finish_reason": {"type": "stop", "matched": "</a>"}},
        {"meta_info": {"finish_reason": {"type": "stop", "matched": "</a>"}}},
        {"stop_reason": "stop_sequence", "stop_sequence": "</a>"},
    ],
)
def test_a_stop_string_ends_a_response_in_place_of_an_end_token(reading, end):
    tokenizer, found = reading(SWITCH, *answers(**end))
    assert tokenizer.decode(found.rows["response_ids"][1]) == "It is 4.</a>"


def test_one_of_several_stop_strings_ended_a_response(reading):
    with pytest.raises(ContractError, match=r"field 'stop_reason' has several strings, and not the one that ended"):
        reading(SWITCH, *answers(finish_reason="stop", stop_reason=["</a>", "</b>"]))


def test_parts_of_texts_and_thoughts_are_no_media(reading):
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "1 + 3?"}]}]
    tokenizer, found = reading(SWITCH, *answers(prompt=asked))
    assert "user\n1 + 3?<|im_end|>" in tokenizer.decode(found.rows["prompt_ids"][1])
    said = [{"type": "thinking", "thinking": "I add."}, {"type": "text", "text": "4"}]
    with pytest.raises(ContractError, match=r"field 'response' is neither a text nor a list of messages"):
        reading(SWITCH, *answers(response=[{"role": "assistant", "content": said}]))
    with pytest.raises(ContractError, match=r"6 rows left out: it has images or other media"):
        reading(SWITCH, *answers(image_url="https://there/one.png"))


@pytest.mark.parametrize(
    ("row", "ignored", "said"),
    [
        (
            {"prompt": "What is 1 + 3?", "response": "What is 1 + 3? It is 4."},
            "prompt",
            "the response begins with the whole",
        ),
        ({"prompt_ids": [5, 6, 7, 8, 9], "response_ids": [5, 6, 7, 8, 9, 3, 2]}, "prompt", "response begins with the"),
        (
            {"prompt_ids": [9, 5, 6, 7, 8, 9, 2], "response_ids": [5, 6, 7, 8, 9, 2]},
            "prompt",
            "the prompt ends with the",
        ),
        ({"prompt": RENDERED + "It is 4.<|im_end|>\n", "response": "It is 4."}, "prompt", "the prompt ends with the"),
        ({"prompt": "<start_of_turn>user\n1 + 3?", "response": "4"}, "markers", "the chat marker <start_of_turn>, "),
        (
            {"messages": [{"role": "user", "content": RENDERED}], "response": "4"},
            "markers",
            "put into the template once",
        ),
        ({"prompt": "User: 1 + 3?\nAssistant:", "response": "4"}, "markers", r"not one that this template writes"),
        (
            {"prompt": "User: 1 + 3?\nAssistant: Let me see.\n<think>", "response": "I add.</think>4"},
            "markers",
            r"not one that this template writes",
        ),
        ({"prompt": "1 + 3?\n### Response:\n", "response": "4"}, "markers", r"not one that this template writes"),
        ({"prompt": "1 + 3?", "response": r"First.\nThen 4."}, "markers", r"the response has \\n, as a text has that"),
        ({"prompt": "1 + 3?", "response": "&lt;b&gt;\n4"}, "markers", "the response has &lt;, as a text has that"),
        ({"prompt": "1 + 3?", "response": "['It\\'s 4.']"}, "markers", r"the response has \[', as a text has that"),
        ({"prompt": "1 + 3?", "response": "b'It is 4.'"}, "markers", "the response has b', as a text has that"),
        ({"prompt": "1 + 3?", "response": "ItĠisĠ4."}, "markers", "the response has Ġ, as a text has that"),
        ({"prompt": "What▁is▁3?", "response": "It is 4."}, "markers", "the prompt has ▁, as a text has that"),
    ],
)
def test_rows_that_are_mostly_put_together_wrongly_are_refused(reading, row, ignored, said):
    rows = [row | {"step": k, "correct": k > 1} for k in range(4)]
    with pytest.raises(ContractError, match=rf"line 1: .*{said}.* 4 of 4 rows; .*--ignore {ignored}"):
        reading(SWITCH, *rows)
    assert len(reading(SWITCH, *rows, ignored=(ignored,))[1].rows) == 4


def test_latex_and_code_are_no_escaped_texts(reading, caplog):
    texts = [r"$\nu \neq 4$", "print('a\\n')\n4", "a &lt; b, or a < b", "['four', 'five']", "It is Ġ", "<｜a▁b｜>4"]
    rows = [{"prompt": "1 + 3?", "response": one, "step": 3, "correct": len(one) > 15} for one in texts]
    assert len(reading(SWITCH, *rows)[1].rows) == 6
    assert "once too often" not in caplog.text


def test_prompts_that_the_policy_read_as_texts_may_end_like_those(reading):
    """As verl's `input` has them, which is all that the policy read."""
    rows = [{"input": "User: 1 + 3?\nAssistant:", "output": str(k), "score": float(k > 1), "step": 1} for k in range(4)]
    assert "4 prompts are texts without a chat, tokenised as whole texts" in reading(SWITCH, *rows)[1].notes


@pytest.mark.parametrize(("template", "ids"), [(SWITCH, "ends"), (SWITCH, "lacks"), (SWITCH, "stops"), ("", "lacks")])
def test_ids_of_prompts_without_the_template_are_warned_of(micro_checkpoint, reading, caplog, template, ids):
    tokenizer = load_policy(micro_checkpoint).tokenizer
    text = {"ends": RENDERED, "lacks": "What is 1 + 3?", "stops": RENDERED.removesuffix("<|im_start|>assistant\n")}[ids]
    rows = [
        {"prompt_ids": tokenizer(text)["input_ids"], "response_ids": [7, k, 2], "correct": k > 5} for k in (4, 5, 6)
    ]
    reading(template, *rows)
    said = "not as the chat template begins a reply, as in 3 of 3 rows; give what this model read"
    assert (said in caplog.text) == (ids != "ends" and bool(template))
    caplog.clear()
    if template:
        reading(template, *({"prompt": text, "response": "4", "correct": right} for right in (True, False)))
        assert ("begins a reply, as in 2 of 2 rows" in caplog.text) == (ids == "stops")


def test_a_limit_that_responses_exceed_is_refused_and_one_is_found(reading):
    """Texts whose ids are made anew have some tokens more or less than those that were cut."""
    counts = [25, 24, 23, 23, 23, 5]
    rows = [{"prompt": "?", "response": "x" * count, "correct": count > 5} for count in counts]
    (note,) = (note for note in reading(SWITCH, *rows)[1].notes if "cut at the limit" in note)
    assert note.endswith("longest has 25 tokens, and 3 have 23: give the limit of the training (--max-response-length)")
    assert reading(SWITCH, *rows, max_response_length=23)[1].rows["truncated"].tolist() == [True] * 5 + [False]
    with pytest.raises(
        ContractError, match=r"5 of 5 responses that would count as cut are longer than .* 22 \(up to 25\)"
    ):
        reading(SWITCH, *rows, max_response_length=22)
    (note,) = (note for note in reading(SWITCH, *rows, max_response_length=30)[1].notes if "were cut" in note)
    assert note.startswith("6 rows do not say whether they were cut at the limit, and 0 of them count so; the longest")
    assert note.endswith("3 have 23: give the limit of the training (--max-response-length)")


def test_ids_without_an_end_token_are_told(reading):
    rows = [{"prompt": "?", "response_ids": [7] * k, "correct": k > 5} for k in (4, 5, 6)]
    said = "all responses count as cut, though they have different lengths: where their ids lack the end token"
    assert any(note.startswith(said) for note in reading(SWITCH, *rows)[1].notes)
    assert said not in "".join(reading(SWITCH, *rows[:1], {**rows[0], "correct": True})[1].notes)


def test_what_some_rows_say_of_their_end_counts(reading):
    rows = [row | {"finish_reason": "length" if k < 2 else "stop"} for k, row in enumerate(answers())]
    del rows[5]["finish_reason"]
    _, found = reading(SWITCH, *rows)
    assert any(note.startswith("1 rows do not say whether they were cut at the limit, and 0 ") for note in found.notes)


@pytest.mark.parametrize(
    "of_evaluation",
    [
        *({"is_eval": 1}, {"is_eval": "true"}, {"is_test": 1.0}, {"is_evaluation": True}, {"is_held_out": True}),
        *({"eval": True}, {"do_eval": True}, {"is_holdout": True}, {"eval_mode": True}, {"tag": "eval"}),
        *({"is_train": False}, {"partition": "test"}, {"stage": "validation"}, {"data_split": "eval"}),
    ],
)
def test_rows_of_an_evaluation_are_left_out_however_they_say_it(reading, of_evaluation):
    (name,) = of_evaluation
    trained = {"is_eval": 0, "is_train": True, "partition": "train", "is_valid": True, "valid": True}
    trained |= {
        "problem_set": "MATH test",
        "tests_passed": True,
        "test": "x",
        "tag": "train",
        "eval_kind": 1,
        "run": "eval",
    }
    _, found = reading(SWITCH, *answers(**trained), *(row | of_evaluation for row in answers()))
    assert len(found.rows) == 6
    assert any(note.startswith(f"6 rows left out: its {name} is ") for note in found.notes)


def test_a_table_of_one_s_own_is_none_of_trl_s(tmp_path):
    """TRL's has a column of advantages, in each version with such tables; this one has parts that would be dropped."""
    table = pd.DataFrame(answers(system="Be strict.")).rename(columns={"response": "completion"})
    for name in ("rollouts.parquet", "train-00000-of-00001.parquet"):
        table.to_parquet(tmp_path / name)
        with pytest.raises(ContractError, match=rf"{name}: no format has this ending and these columns; .*JSON lines"):
            find([tmp_path / name])


def test_evaluations_are_left_out_and_steps_are_those_of_folders(tmp_path):
    """As prime-rl wrote them in April 2026."""
    for step in (1, 2, 10):
        for part in ("train", "eval"):
            given = [{name: value for name, value in row.items() if name != "step"} for row in answers(part)]
            lines(tmp_path / f"step_{step}" / f"{part}_rollouts.jsonl", *given)
    found = find([tmp_path])
    assert [step for _, step in found.files] == [1, 2, 10]
    assert all(path.name == "train_rollouts.jsonl" for path, _ in found.files)
    assert "eval_rollouts.jsonl" in found.said[0]


def test_names_of_evaluations_are_told_from_others(tmp_path):
    evaluations = ["eval0", "testset", "rolloutsEval", "tests", "val_2", "validate", "hold_out", "benchmark"]
    for name in (*evaluations, "contest", "latest", "interval_5", "validated"):
        lines(tmp_path / f"{name}.jsonl", *answers(name))
    found = find([tmp_path])
    assert [path.stem for path, _ in found.files] == ["contest", "interval_5", "latest", "validated"]
    assert all(f"/{name}.jsonl" in found.said[0] for name in evaluations)


def test_no_evaluation_is_taken_for_the_training_beside_it(tmp_path, caplog):
    """verl writes where `trainer.rollout_data_dir` and `trainer.validation_data_dir` say."""
    for folder in ("dump", "validation"):
        lines(tmp_path / folder / "5.jsonl", *answers(folder))
    with pytest.raises(ContractError, match=r"tell of an evaluation \(validation/5\.jsonl\); give those of the"):
        find([tmp_path])
    (tmp_path / "dump").rename(tmp_path / "train_rollouts")
    lines(tmp_path / "gen" / "5.jsonl", *answers("gen"))
    assert [path.parent.name for path, _ in find([tmp_path]).files] == ["train_rollouts"]
    assert f"files beside the rollouts are not read: 1, such as {tmp_path}/gen/5.jsonl" in caplog.text


@pytest.mark.parametrize(("name", "split"), [("data_split", "MATH-test"), ("mode", "eval"), ("validate", True)])
def test_rows_of_an_evaluation_are_left_out_and_said(reading, name, split):
    train = "train" if isinstance(split, str) else False
    rows = [row | {name: train if k < 4 else split} for k, row in enumerate(answers())]
    found = reading(SWITCH, *rows)[1]
    assert len(found.rows) == 4
    assert f"2 rows left out: its {name} is {split!r} (--ignore {name}, if it was trained on)" in found.notes
    assert len(reading(SWITCH, *rows, ignored=(name,))[1].rows) == 6
    with pytest.raises(ContractError, match=rf"no response to learn from \(6 rows left out: its {name} is {split!r} "):
        reading(SWITCH, *(row | {name: split} for row in rows))


def test_repeated_rows_are_counted(reading):
    rows = answers()
    notes = reading(SWITCH, *rows, *rows[:2], json.loads(json.dumps(rows[3])))[1].notes
    assert any(note.startswith("3 rows repeat prompt, response and label of others") for note in notes)
