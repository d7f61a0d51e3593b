"""Rows of answers, and templates behind which they are read."""

HEAD = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
BEGIN = "{% if add_generation_prompt %}<|im_start|>assistant\n"
SWITCH = HEAD + BEGIN + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
RENDERED = "<|im_start|>user\nWhat is 1 + 3?<|im_end|>\n<|im_start|>assistant\n"
"""The last is a question as these templates write it."""


def answers(before="", **more) -> list[dict]:
    return [
        {"prompt": f"What is {k} + 3?", "response": f"{before}It is {k + 3}.", "correct": k > 2, "step": 1} | more
        for k in range(6)
    ]
