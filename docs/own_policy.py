"""A companion for a policy of your own, step by step: `python docs/own_policy.py CHECKPOINT ROLLOUTS FOLDER`.

CHECKPOINT is a model in Hugging Face format, ROLLOUTS a folder of its rollouts in one of the formats of
docs/own-policy.md, and FOLDER the place of the companion. The test suite runs this script with a tiny policy; the
flags after FOLDER make its companion tiny, too.
"""

import argparse

from cocal import Companion
from cocal.config.evaluation import CompanionSettings
from cocal.own_policy.fitting import Reading
from cocal.own_policy.models import Checkpoint
from cocal.runtime.progress import configure

parser = argparse.ArgumentParser()
for name in ("checkpoint", "rollouts", "folder"):
    parser.add_argument(name)
parser.add_argument("--widths", type=int, nargs="+", default=[2048, 1024, 512, 256])
parser.add_argument("--max-response-length", type=int)
parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto")
options = parser.parse_args()
configure("own policy")  # progress, on standard error

# The model and its tokenizer; AutoModelForCausalLM and AutoTokenizer of transformers do as well. This model computes in
# bfloat16 where it was saved so and the processor has instructions for it, unless a flag says otherwise.
model, tokenizer = Checkpoint.find(options.checkpoint).load(options.precision)

# Fit: the rollouts are read and checked, their hidden states computed, a tenth of the questions held out.
settings = CompanionSettings(targets=("binary",), widths=options.widths)
reading = Reading(max_response_length=options.max_response_length)
companion = Companion.fit(model, tokenizer, options.rollouts, settings=settings, reading=reading)
print(companion.about.in_words())

# Save it, and load it again. `push_to_hub("me/companion")` and `from_pretrained("me/companion")` do this on the Hub.
companion.save_pretrained(options.folder)
companion = Companion.from_pretrained(options.folder)

# Score new answers: prompts are texts, chats or token ids, responses texts or token ids.
prompts = ["What is 12 + 7?", [{"role": "user", "content": "What is 12 + 7?"}]]
responses = ["\\boxed{19}", "\\boxed{20}"]
for response, confidence in zip(responses, companion.score(model, tokenizer, prompts, responses), strict=True):
    print(f"{response}: {confidence:.3f}")

# The members behind the mean: one for each seed.
for seed in companion.about.spec.settings.seeds:
    print(seed, companion.score(model, tokenizer, prompts, responses, seed=seed))
