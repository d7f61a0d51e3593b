"""Parts of prompts, responses and their ends in fields that are not read are refused, and what is no part is not."""

import pytest

from chat_rows import RENDERED, SWITCH, answers
from cocal.errors import ContractError


@pytest.mark.parametrize("name", ["sys_prompt", "thinking_text", "stop"])
def test_a_field_of_the_prompt_or_the_response_is_not_dropped(reading, name):
    rows = answers(**{name: "Be strict."})
    with pytest.raises(ContractError, match=rf"line 1: the field '{name}' \('Be strict.'\) may be a part of what"):
        reading(SWITCH, *rows)
    assert len(reading(SWITCH, *rows, ignored=(name,))[1].rows) == 6


@pytest.mark.parametrize(
    ("outer", "value", "said"),
    [
        ("options", ["four", "five"], "field 'options' "),
        ("choices", {"label": ["A"], "text": ["four"]}, "field 'choices' "),
        ("full_prompt", "Think first.\nWhat is 1 + 3?", "field 'full_prompt' "),
        ("options", {"temperature": 0.7, "stop": ["</a>"]}, "field 'stop' "),
        ("systemPrompt", "Be strict.", "field 'systemPrompt' "),
        ("system_prompts", ["Be strict."], "field 'system_prompts' "),
        ("chatHistory", [{"role": "user", "content": "Bonjour"}], "field 'chatHistory' "),
        ("tool_definitions", [{"name": "adder"}], "field 'tool_definitions' "),
        ("extra_body", {"chat_template_kwargs": {"effort": "high"}}, "field 'chat_template_kwargs' "),
        ("sampling_params", {"stop": ["</a>"], "n": 4}, "field 'stop' "),
        ("reasoning_trace", "I add.", "field 'reasoning_trace' "),
        ("reasoning_details", [{"text": "I add."}], "field 'reasoning_details' "),
        ("raw_response", "I add. It is 4.", "field 'raw_response' "),
        ("completion", "I add. It is 4.", "field 'completion' "),
        ("metadata", {"system_prompt": "Be strict."}, "field 'system_prompt' "),
        ("request", {"stop": ["</a>"]}, "field 'stop' "),
        ("stop_strs", ["</a>"], "field 'stop_strs' "),
        ("generation", {"until": ["</a>"]}, "field 'until' "),
        ("template_args", {"effort": "high"}, "field 'effort' "),
        ("date", "today", "field 'date' "),
        ("turns", [{"role": "system", "content": "Be strict."}], "field 'turns' "),
        ("role_prompt", "You are a teacher.", "field 'role_prompt' "),
        ("sent", "Be strict. What is 0 + 3? 4? What is 1 + 3?", "field 'sent' "),
    ],
)
def test_a_part_under_another_name_or_one_level_down_is_not_dropped(reading, outer, value, said):
    rows, template = answers(**{outer: value}), "{{ effort }}{{ date }}" + SWITCH
    with pytest.raises(ContractError, match=rf"line 1: the {said}.*--ignore {outer} if"):
        reading(template, *rows)
    assert len(reading(template, *rows, ignored=(outer,))[1].rows) == 6


def test_fields_that_are_no_part_of_the_prompt_stay_unread(reading):
    """Names of other things, a number, what is not set, and what the prompt has, as a chat, too."""
    other = {"system_fingerprint": "fp_44", "example_id": "q3", "num_examples": 5, "context": None}
    other |= {"enable_thinking": False, "options": ["+ 3?", "what is"], "prompt_tokens": 12, "completion_tokens": 57}
    other |= {"sampling_params": {"temperature": 1.0, "stop": ["<|im_end|>"], "stop_token_ids": [7]}}
    other |= {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}, "model": {"name": "q", "revision": 3}}
    rows = [row | other | {"question": row["prompt"][:6], "history": [{"content": "what is"}]} for row in answers()]
    rows = [row | {"raw_response": f"{row['response']}<|im_end|>", "completion": row["response"]} for row in rows]
    whole = [f"<|im_start|>user\n{row['prompt']}<|im_end|>\n<|im_start|>assistant\n" for row in rows]
    rows = [row | {"rendered_prompt": one, "text": one + row["response"]} for row, one in zip(rows, whole, strict=True)]
    rows = [row | {"turns": [{"role": "assistant", "content": row["response"]}]} for row in rows]
    judged = [{"role": "system", "content": "Grade it."}, {"role": "user", "content": "The answer: {}"}]
    rows = [
        row | {"judged": [one | {"content": one["content"].format(row["response"])} for one in judged]} for row in rows
    ]
    task = {"question": "Add both.", "examples": ["1 + 1"], "stopped": True, "prompt_id": "a 1", "tests": "x"}
    rows = [row | {"extra_info": task, "prompt_source": "a set of sums", "stopped": True} for row in rows]
    rows = [row | {"solution": f"{row['prompt']} We add both."} for row in rows]
    told = [{"role": "user", "content": "What is 1 + 3?"}, {"role": "assistant", "content": "By counting, it is 4."}]
    rows = [
        row | {"reference": [one | {"content": one["content"].replace("1", row["prompt"][8:9])} for one in told]}
        for row in rows
    ]
    assert len(reading(SWITCH, *rows)[1].rows) == 6
    chats = [row | {"messages": [{"role": "user", "content": row.pop("prompt")}]} for row in answers()]
    sent = [row | {"full_prompt": RENDERED.replace("1", str(k))} for k, row in enumerate(chats)]
    assert len(reading(SWITCH, *sent)[1].rows) == 6
    short = [row | {"system_prompt": f"Say {row['messages'][0]['content']} again."} for row in chats]
    with pytest.raises(ContractError, match=r"field 'system_prompt' \('Say What is"):
        reading(SWITCH, *short)


def test_ends_that_have_not_come_and_answers_of_an_api_are_no_parts(reading):
    cut = answers(truncated=True, sampling_params={"stop": ["</a>"]}, completion={"choices": [{"text": "I add."}]})
    own = answers(chat_template_kwargs={"effort": "high"}, extra_body={"chat_template_kwargs": {"effort": "high"}})
    whole = [row | {"raw_response": f"{row['response']}<eos><end_of_turn>\n"} for row in cut]
    assert len(reading(SWITCH, *cut, *whole)[1].rows) == 12
    assert len(reading(SWITCH, *own)[1].rows) == 6


def test_a_reason_of_the_end_is_no_stop_string(reading):
    tokenizer, found = reading(SWITCH, *answers(finish_reason="stop", stop_reason="end_turn"))
    assert tokenizer.decode(found.rows["response_ids"][1]) == "It is 4.<|im_end|>"
    with pytest.raises(ContractError, match=r"it ended by 'done'.*, or give --ignore finish_reason if the policy"):
        reading(SWITCH, *answers(finish_reason="done"))
    for name in ("finish_reason", "stop_reason"):
        tokenizer, found = reading(SWITCH, *answers(**{name: "done"}), ignored=("finish_reason",))
        assert tokenizer.decode(found.rows["response_ids"][1]) == "It is 4.<|im_end|>"
    tokenizer, found = reading(SWITCH, *answers(finish_reason="stop", matched_stop="Finished"))
    assert tokenizer.decode(found.rows["response_ids"][1]) == "It is 4.Finished"


def test_tools_among_the_values_of_a_template_reach_it(reading):
    template = "{% for tool in tools or [] %}{{ tool.name }} {% endfor %}" + SWITCH
    tools = [{"name": "adder"}]
    assert len(reading(template, *answers(tools=tools, chat_template_kwargs={"tools": tools}))[1].rows) == 6
    tokenizer, found = reading(template, *answers(chat_template_kwargs={"tools": tools}))
    assert tokenizer.decode(found.rows["prompt_ids"][1]).startswith("adder <|im_start|>user")


@pytest.mark.parametrize("name", ["prompt", "question"])
def test_a_prompt_beside_the_chat_that_is_read_is_a_part_of_it(reading, name):
    chat = [{"role": "system", "content": "Be strict."}, {"role": "user", "content": "1 + 3?"}]
    rows = [{"messages": chat, "response": str(k), "correct": k == 4} for k in range(6)]
    for same in ("1 + 3?", RENDERED.replace("What is 1", "1")):
        assert len(reading(SWITCH, *(row | {name: same} for row in rows))[1].rows) == 6
    with pytest.raises(ContractError, match=rf"line 1: the field '{name}' \('Solve.'\) may be a part of what"):
        reading(SWITCH, *(row | {name: "Solve."} for row in rows))
    other = [{name: "Solve.", "input": "1 + 3?", "output": row["response"], "score": row["correct"]} for row in rows]
    with pytest.raises(ContractError, match=rf"the field '{name}' \('Solve.'\) may be a part of what"):
        reading(SWITCH, *other)
