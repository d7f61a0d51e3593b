"""Token ids of prompts and responses: ends by the template, what was cut, padding, chats as templates of many models
write them; rows that the model cannot have read are refused, odd ones warned of."""

import json
import re
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

from cocal.errors import ContractError
from cocal.models.loading import Vocabulary, load_policy, read_vocabulary
from cocal.models.text import turn_end
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.format import Reading
from cocal.rollouts.lines import Fields
from cocal.rollouts.sample import Sample
from micro import change_json, own_copy

TEMPLATES = json.loads(Path(__file__).with_name("templates.json").read_text(encoding="utf-8"))
"""The tokenizer's end and beginning, the template, and the token that ends a turn."""
CHATML = TEMPLATES["Qwen"][2]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}\n{% endfor %}answer:"
ASKED = "What is 12 plus 7, dear model?"
CHAT = [{"role": "user", "content": ASKED}]
NAMES = re.compile(r"<\|[a-z_]+\|>|</?s>|\[gMASK\]|<sop>|<(?:bos|eos|start_of_turn|end_of_turn)>")


@pytest.fixture
def spoken(micro_checkpoint, tmp_path):
    """A vocabulary whose tokenizer has the template of a model, and the tokens in it."""

    def make(name, template=None, ends=(), pad=None):
        folder = own_copy(micro_checkpoint, tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}")
        tokenizer = load_policy(folder).tokenizer
        eos, bos, written, _ = TEMPLATES[name]
        tokenizer.chat_template = template or written
        tokens = sorted({*NAMES.findall(written), "<|user|>", "<|assistant|>", "<|vision_pad|>", "<think>", "</think>"})
        tokenizer.add_special_tokens({"additional_special_tokens": [one for one in tokens if "think" not in one]})
        tokenizer.add_tokens(["<think>", "</think>"])
        named = {"eos_token": eos, "pad_token": pad or "<|pad|>"} | ({"bos_token": bos} if bos else {})
        tokenizer.add_special_tokens(named)
        ids = tokenizer.convert_tokens_to_ids([*ends, eos])
        return Vocabulary(tokenizer, len(tokenizer), frozenset(ids))

    return make


@pytest.fixture
def encoder(own):
    """An encoder whose template refuses a chat of one word."""
    template = "{% if messages[0].content == 'no' %}{{ raise_exception('never no') }}{% endif %}" + TEMPLATE
    return Encoder(own.policy, Reading(template=template))


def rows(*lines):
    return [Fields.of(one, {}, "row", ("prompt", "response")).sample(one, f"row {k}") for k, one in enumerate(lines)]


def encoded(vocabulary, *lines, **options):
    return Encoder(vocabulary, Reading(**options)).encode(rows(*lines))


def text(vocabulary, ids):
    return vocabulary.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_text_ends_by_what_ends_a_turn_in_the_template(spoken, name):
    """GLM ends one by the next one's beginning, which its settings name."""
    vocabulary = spoken(name, ends=["<|user|>", "<|assistant|>"] if name == "GLM" else ())
    (one,) = encoded(vocabulary, {"prompt": "4 + 9?", "response": "It is 13."})
    assert text(vocabulary, one.response) == f"It is 13.{TEMPLATES[name][3]}"
    assert not one.truncated


def test_a_template_that_is_given_decides_and_so_does_none(spoken):
    vocabulary = spoken("Qwen", ends=["<|im_end|>"])
    line = {"prompt": "4 + 9?", "response": "13"}
    for template, end in (("", "<|endoftext|>"), (TEMPLATES["plain"][2], "<|endoftext|>"), (CHATML, "<|im_end|>")):
        (one,) = encoded(vocabulary, line, template=template)
        assert text(vocabulary, one.response) == f"13{end}"
    refusing = "{% if messages | length > 1 %}{{ raise_exception('one') }}{% endif %}{{ messages[0].content }}"
    assert turn_end(vocabulary.tokenizer, (), refusing) == vocabulary.tokenizer.eos_token_id


def test_the_ends_of_a_checkpoint_come_from_all_that_name_them(own, tmp_path):
    """A generation_config.json is lost on the way through some engines; then the template still ends a turn."""
    folder = own_copy(own.checkpoint, tmp_path / "model")
    tokenizer = load_policy(folder).tokenizer
    end = tokenizer.eos_token_id
    for name, ids in {"config.json": 7, "generation_config.json": [8, 9]}.items():
        change_json(folder / name, eos_token_id=ids)
    change_json(folder / "tokenizer_config.json", eos_token=tokenizer.pad_token)
    assert load_policy(folder).tokenizer.eos_token_id != end
    assert read_vocabulary(folder).ends >= {7, 8, 9, end}
    assert load_policy(folder).ends == read_vocabulary(folder).ends
    (folder / "generation_config.json").unlink()
    found = encoded(read_vocabulary(folder), {"prompt_ids": [5, 6], "response_ids": [30, end]})
    assert not found[0].truncated
    assert load_policy(folder).ends == read_vocabulary(folder).ends


def test_texts_that_carry_their_end_tell_which_were_cut(spoken):
    vocabulary = spoken("Qwen")
    given = ["It is 13.<|im_end|>", "It is", "13<|im_end|>\n", "so 13<|im_end|><|endoftext|><|endoftext|>"]
    lines = [{"prompt": "4 + 9?", "response": one} for one in given]
    found = encoded(vocabulary, *lines)
    wrote = ["It is 13.<|im_end|>", "It is", "13<|im_end|>", "so 13<|im_end|>"]
    assert [text(vocabulary, one.response) for one in found] == wrote
    assert [(one.truncated, one.told) for one in found] == [(False, True), (True, True), (False, True), (False, True)]
    (alone,) = encoded(vocabulary, lines[1])
    assert (text(vocabulary, alone.response), alone.truncated, alone.told) == ("It is<|im_end|>", False, False)
    said = encoded(vocabulary, lines[0], lines[1] | {"truncated": False})
    assert [one.truncated for one in said] == [False, False]


PADDED = [
    # prompt and response as they are given, whether it was cut, and what the policy read and wrote; B begins, P pads,
    # E ends, T ends a turn, V pads by its name alone
    ("PPBxy", "zwT", None, "Bxy", "zwT"),
    ("Bxy", "zwTPPP", None, "Bxy", "zwT"),
    ("PBxyP", "PzwT", None, "Bxy", "zwT"),
    ("Bxy", "zwPP", None, "Bxy", "zw"),
    ("Bxy", "zwTEEE", None, "Bxy", "zwT"),
    ("EEBxy", "zwEEE", None, "Bxy", "zwE"),
    ("Bxy", "zwEEE", True, "Bxy", "zw"),
    ("Bxy", "T", None, "Bxy", "T"),
    ("Bxy", "zwTnnn", None, "Bxy", "zwT"),
    ("nnnBxy", "zwT", None, "Bxy", "zwT"),
    ("BTxBy", "zTwT", None, "BTxBy", "zTwT"),
    ("BxPy", "zPw", None, "BxPy", "zPw"),
    ("VVBxy", "zwVV", None, "Bxy", "zw"),
]


@pytest.mark.parametrize(("prompt", "response", "cut", "read", "wrote"), PADDED)
def test_padding_is_taken_from_ids_by_its_pattern(spoken, prompt, response, cut, read, wrote):
    vocabulary = spoken("Qwen")
    names = {"B": "<|im_start|>", "P": "<|pad|>", "E": "<|endoftext|>", "T": "<|im_end|>", "V": "<|vision_pad|>"}
    ids = {one: vocabulary.tokenizer.convert_tokens_to_ids(token) for one, token in names.items()}
    ids |= {one: 40 + place for place, one in enumerate("xyzwn")}
    given = {"prompt_ids": [ids[one] for one in prompt], "response_ids": [ids[one] for one in response]}
    (found,) = encoded(vocabulary, given | {"truncated": cut})
    assert found.prompt.tolist() == [ids[one] for one in read]
    assert found.response.tolist() == [ids[one] for one in wrote]
    assert found.truncated == (wrote[-1] not in "ET")


def test_padding_by_the_end_or_the_beginning_of_texts_is_taken_off(spoken):
    """Where nothing else pads: Llama's end, and GPT-2's one token for all."""
    llama = spoken("Llama", pad="<|end_of_text|>")
    begin, header, end, turn = llama.tokenizer.convert_tokens_to_ids(
        ["<|begin_of_text|>", "<|start_header_id|>", "<|end_of_text|>", "<|eot_id|>"]
    )
    line = {"prompt_ids": [end, begin, header, 40], "response_ids": [50, turn, end, end]}
    (found,) = encoded(llama, line, {**line, "prompt_ids": [end, end, end, begin, header, 40]})[:1]
    assert (found.prompt.tolist(), found.response.tolist()) == ([begin, header, 40], [50, turn])
    both = Encoder(spoken("Mistral", pad="<s>"))
    begin = both.policy.tokenizer.bos_token_id
    (found,) = both.encode([Sample.read("row", prompt_ids=[begin] * 3 + [40], response_ids=[50])])
    assert found.prompt.tolist() == [begin, 40]


def test_padding_within_and_a_mask_that_tells_of_padding_are_refused(spoken):
    vocabulary = spoken("Qwen")
    pad, turn = (vocabulary.tokenizer.convert_tokens_to_ids(one) for one in ("<|pad|>", "<|im_end|>"))
    line = {"prompt_ids": [41, pad, pad, 42], "response_ids": [50, pad, pad, 51, turn, 43]}
    with pytest.raises(ContractError, match=f"row 0: the response has padding within it \\(id {pad} from token 1 on"):
        encoded(vocabulary, line)
    with pytest.raises(ContractError, match="row 0: the prompt has padding within it"):
        encoded(vocabulary, line | {"response_ids": [50, turn]})
    with pytest.raises(ContractError, match="row 0: attention_mask tells of padding; give ids without it"):
        encoded(vocabulary, line | {"attention_mask": [1, 0, 0, 1, 1, 0, 0, 1, 1, 0]})


def test_thoughts_calls_and_tools_reach_the_template(spoken):
    template = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call.function.name }}{% endfor %}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant{{ '\n' }}"
    )
    vocabulary = spoken("Qwen", template)
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "4 + 9?"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "adder", "arguments": {"a": 4}}}]},
        {"content": "13", "tool_call_id": "7", "role": "tool"},
        {"role": "assistant", "reasoning_content": "Added.", "content": "13"},
        {"role": "user", "content": "And 2 more?"},
    ]
    tools = [{"type": "function", "function": {"name": "adder"}}]
    (found,) = encoded(vocabulary, {"messages": talk, "tools": tools, "response": "15"})
    assert text(vocabulary, found.prompt) == (
        '[{"type": "function", "function": {"name": "adder"}}]<|im_start|>user\n4 + 9?<|im_end|>\n'
        "<|im_start|>assistant\nadder<|im_end|>\n<|im_start|>tool\n13<|im_end|>\n"
        "<|im_start|>assistant\n<think>Added.</think>13<|im_end|>\n<|im_start|>user\nAnd 2 more?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    (stated,) = encoded(vocabulary, {"messages": talk, "tools": json.dumps(tools), "response": "15"})
    assert stated.prompt.tolist() == found.prompt.tolist()
    for other in (3, "many", ["adder"]):  # no tools
        (alone,) = encoded(vocabulary, {"messages": talk, "tools": other, "response": "15"})
        assert text(vocabulary, alone.prompt).startswith("<|im_start|>user")
    reply = [{"role": "assistant", "reasoning_content": "Added.", "content": "13"}]
    with pytest.raises(ContractError, match="has reasoning_content, which its text lacks; give the text that the"):
        encoded(vocabulary, {"prompt": "4 + 9?", "response": reply})


DATED = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}\n" + CHATML


def test_a_template_that_writes_the_day_is_warned_of(own, tmp_path, caplog):
    folder = own_copy(own.checkpoint, tmp_path / "model")
    Encoder(load_policy(folder))
    assert caplog.text == ""
    (folder / "chat_template.jinja").write_text(DATED)
    Encoder(load_policy(folder))
    assert "the chat template writes the day, for which today is taken" in caplog.text


@pytest.mark.parametrize("name", ["Qwen", "Gemma", "Llama"])
def test_chats_with_examples_are_restored_as_they_were(spoken, name):
    """Of texts without special tokens, as verl writes them."""
    vocabulary = spoken(name)
    tokenizer = vocabulary.tokenizer
    shots = [("user", "4 + 9?"), ("assistant", "13"), ("user", "1 + 1?"), ("assistant", "2"), ("user", "2 + 3?")]
    for turns in (shots[4:], shots[2:], shots):
        chat = [{"role": role, "content": content} for role, content in turns]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        line = {"input": tokenizer.decode(ids, skip_special_tokens=True), "output": "5", "score": 1}
        (found,) = encoded(vocabulary, line, thinking=True)
        assert (found.origin, found.prompt.tolist()) == ("restored", ids)


def test_a_beginning_is_not_doubled(spoken, own):
    """Where a tokenizer begins texts with a token that the text has already."""
    vocabulary = spoken("Llama")
    tokenizer = vocabulary.tokenizer
    begin = (tokenizer.bos_token, tokenizer.bos_token_id)
    tokenizer._tokenizer.post_processor = TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])
    for prompt in ("4 + 9 =", f"{begin[0]}4 + 9 ="):
        (found,) = encoded(vocabulary, {"prompt": prompt, "response": "13"}, template="")
        assert found.prompt.tolist().count(begin[1]) == 1


def test_a_beginning_that_an_engine_would_add_is_read(spoken):
    """Before a text that no template has begun, and a template's text from which somebody has taken it; behind the
    former, a reply ends by the tokenizer's own end."""
    vocabulary = spoken("Llama")
    tokenizer = vocabulary.tokenizer
    begin = (tokenizer.bos_token, tokenizer.bos_token_id)
    tokenizer._tokenizer.post_processor = TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])
    whole = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    asked = [{"prompt": text, "response": "13"} for text in ("4 + 9 =", whole.removeprefix(begin[0]), whole)]
    texts = [(found.origin, text(vocabulary, found.prompt)) for found in encoded(vocabulary, *asked, raw=True)]
    assert texts == [("text", f"{begin[0]}4 + 9 ="), ("template", whole), ("template", whole)]
    ends = [text(vocabulary, found.response[-1:]) for found in encoded(vocabulary, *asked, raw=True)]
    assert ends == [tokenizer.eos_token, "<|eot_id|>", "<|eot_id|>"]
    (kept,) = encoded(vocabulary, asked[0], raw=True, ignored=("markers",))
    assert text(vocabulary, kept.response[-1:]) == "<|eot_id|>", "of a text that somebody says to be a chat's"
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    (alone,) = encoded(vocabulary, asked[1])
    assert text(vocabulary, alone.prompt) == whole.removeprefix(begin[0]), "where the tokenizer begins texts by nothing"


STRANGE = ["<｜User｜>", "[INST] 2? [/INST]", "<s>", "<<SYS>>Add.<</SYS>>", "[gMASK]<sop>", "<｜begin▁of▁sentence｜>"]


@pytest.mark.parametrize("prompt", [f"{one}2?" for one in STRANGE])
def test_markers_of_other_models_are_told(spoken, caplog, prompt):
    encoded(spoken("Gemma"), {"prompt": "x [y] <z> 2?", "response": "2"}, {"prompt": prompt, "response": "2"})
    assert "row 1: the text has the chat marker" in caplog.text
    assert "1 of 2 rows" in caplog.text


def test_markers_that_are_no_special_tokens_show_a_template_s_text(spoken):
    """DeepSeek's, which remain where special tokens are left out."""
    turn = "<｜{{ m.role | capitalize }}｜>{{ m.content }}"
    vocabulary = spoken("plain", f"{{% for m in messages %}}{turn}{{% endfor %}}<｜Assistant｜><think>\n")
    vocabulary.tokenizer.add_tokens(["<｜User｜>", "<｜Assistant｜>"])
    vocabulary = vocabulary._replace(vocabulary=len(vocabulary.tokenizer))
    few = "<｜User｜>4?<｜Assistant｜>4<｜User｜>5?<｜Assistant｜><think>\n"
    (found, asked) = encoded(vocabulary, {"prompt": few, "response": "5"}, {"prompt": "Say <think>", "response": "5"})
    assert (found.origin, text(vocabulary, found.prompt)) == ("template", few)
    assert asked.origin == "chat"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"messages": [*CHAT, {"role": "assistant", "content": "19"}], "response": "19"},
            "the chat ends with the assistant's reply; give that as the response",
        ),
        ({"messages": [{"role": "user", "content": "no"}], "response": "19"}, "refuses the chat (never no)"),
        (
            {"prompt_ids": [5, 384], "response_ids": [6, 2]},
            "prompt token 1 is 384, outside the model's vocabulary of 384",
        ),
    ],
)
def test_a_row_that_the_model_cannot_have_read_is_refused(own, encoder, line, message):
    with pytest.raises(ContractError, match=re.escape(f"row 1: {message}" if "refuses" not in message else message)):
        encoder.encode(rows({"prompt": "1?", "response": "1"}, line))


def test_a_row_that_was_hardly_meant_so_is_warned_of(encoder, caplog):
    """A prompt that stands within the response, and the marker of another model."""
    good = [{"prompt": "1?", "response": "1"}, {"prompt": ASKED, "response": "19 of those <|im_end|>"}]
    good += [{"prompt": "a <|b| c", "response": "x < y > z"}]
    encoder.encode(rows(*good))
    assert caplog.text == ""
    twice = {"messages": CHAT, "response": f"user\n{ASKED}\nassistant\n19"}
    encoder.encode(rows(*good, twice, twice, {"prompt": "1?", "response": "1<|eot_id|>"}))
    assert "row 3: the whole prompt stands again in the response, as in 2 of 6 rows" in caplog.text
    assert "row 5: the text has the chat marker <|eot_id|>, which this model's tokenizer lacks" in caplog.text
    caplog.clear()
    encoder.encode(rows(twice, *good, {"prompt": "1?", "response": "1<|im_sep|>"}))  # the next block of a long file
    assert caplog.text == ""
    encoder.forget()
    encoder.encode(rows(twice, *good))
    assert "row 0: the whole prompt stands again in the response, as in 1 of 4 rows" in caplog.text


@pytest.mark.parametrize("name", TEMPLATES)
def test_ids_of_prompts_that_the_template_ends_are_no_doubt(spoken, caplog, name):
    vocabulary = spoken(name, ends=["<|user|>", "<|assistant|>"] if name == "GLM" else ())
    ids = vocabulary.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    known = name != "plain"
    for more, told in (([], False), ([5, 6, 7] * 9, known)):
        encoded(vocabulary, {"prompt_ids": [*ids, *more], "response_ids": [5, 6, 7]})
        assert ("and not as the chat template begins a reply, as in 1 of 1 rows" in caplog.text) == told


@pytest.mark.parametrize("opening", ["<|im_start|>assistant\n<think>\n", "assistant\n<think>\n", "<think>\n"])
def test_a_response_that_repeats_the_end_of_the_prompt_is_warned_of(spoken, caplog, opening):
    template = "{{ '<|im_start|>user\\n' + messages[0].content + '<|im_end|>\\n<|im_start|>assistant\\n<think>\\n' }}"
    vocabulary = spoken("Qwen", template=template, ends=["<|im_end|>"])
    encoded(vocabulary, {"prompt": "4 + 9?", "response": "It is <think>\n 13."})
    assert "begins with" not in caplog.text
    encoded(vocabulary, {"prompt": "4 + 9?", "response": f"{opening}hm</think>It is 13."})
    said = f"the response begins with {opening!r}, which ends the prompt already"
    assert f"row 0: {said}" in caplog.text
    caplog.clear()
    ids = vocabulary.tokenizer(f"{opening}hm</think>It is 13.")["input_ids"]
    encoded(vocabulary, {"prompt": "4 + 9?", "response_ids": ids})
    assert said in caplog.text


def test_padding_in_the_text_of_a_prompt_is_no_part_of_it(spoken):
    vocabulary = spoken("Qwen", ends=["<|im_end|>"])
    whole = "<|im_start|>user\n4 + 9?<|im_end|>\n<|im_start|>assistant\n"
    plain, padded = encoded(vocabulary, *({"prompt": p + whole, "response": "13"} for p in ("", "<|pad|><|pad|>")))
    assert padded.prompt.tolist() == plain.prompt.tolist()


@pytest.mark.parametrize(("limit", "cut"), [(None, True), (4, False), (3, True)])
def test_a_limit_decides_what_was_cut_of_ids_without_an_end(spoken, limit, cut):
    line = {"prompt_ids": [5, 6], "response_ids": [30, 31, 32]}
    (one,) = encoded(spoken("Qwen"), line, max_response_length=limit)
    assert (one.truncated, one.response.tolist()) == (cut, [30, 31, 32])
