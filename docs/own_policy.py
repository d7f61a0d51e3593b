"""A companion for a policy of your own, step by step: `python docs/own_policy.py CHECKPOINT ROLLOUTS FOLDER`.

CHECKPOINT is a model in Hugging Face format with a chat template, ROLLOUTS a folder of its rollouts in one of the
formats of docs/own-policy.md, and FOLDER the place of the companion. The test suite runs this script with a tiny
policy; the flags after FOLDER make its companion tiny, too.
"""

import argparse

import torch

from cocal import Companion
from cocal.companion.settings import CompanionSettings
from cocal.own_policy.fitting import Reading
from cocal.own_policy.models import Checkpoint
from cocal.runtime.progress import configure

parser = argparse.ArgumentParser()
for name in ("checkpoint", "rollouts", "folder"):
    parser.add_argument(name)
parser.add_argument("--widths", type=int, nargs="+", default=[2048, 1024, 512, 256])
parser.add_argument("--max-response-length", type=int)
parser.add_argument("--question", default="What is 12 + 7?")
parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto")
options = parser.parse_args()
configure("own policy")  # progress, on standard error

# The model and its tokenizer; AutoModelForCausalLM and AutoTokenizer of transformers do as well. This model computes in
# bfloat16 where it was saved so and the processor has instructions for it, unless a flag says otherwise.
model, tokenizer = Checkpoint.find(options.checkpoint).load(options.precision)

# Fit: the rollouts are read and checked, their hidden states computed, a tenth of the questions held out.
settings = CompanionSettings(targets=("binary",), widths=options.widths)  # the paper's; without settings, the best
reading = Reading(max_response_length=options.max_response_length)
companion = Companion.fit(model, tokenizer, options.rollouts, settings=settings, reading=reading)
print(companion.about.in_words())

# Save it, and load it again. `push_to_hub("me/companion")` and `from_pretrained("me/companion")` do this on the Hub.
companion.save_pretrained(options.folder)
companion = Companion.from_pretrained(options.folder)

# Score answers: prompts are texts, chats or token ids, responses texts or token ids. Here the model answers a question
# four times.
chat = [{"role": "user", "content": options.question}]
prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True, return_tensors="pt")
prompt = prompt.to(model.device)
torch.manual_seed(0)
sampled = model.generate(**prompt, do_sample=True, max_new_tokens=64, num_return_sequences=4)
new, end = sampled[:, prompt["input_ids"].shape[1] :].tolist(), tokenizer.eos_token_id
answers = [ids[: ids.index(end) + 1] if end in ids else ids for ids in new]
for answer, confidence in zip(answers, companion.score(model, tokenizer, [chat] * 4, answers), strict=True):
    print(f"{confidence:.3f}: {tokenizer.decode(answer, skip_special_tokens=True)!r}")

# The members behind the mean: one for each seed.
for seed in companion.about.spec.settings.seeds:
    print(seed, companion.score(model, tokenizer, [chat] * 4, answers, seed=seed).round(3))
