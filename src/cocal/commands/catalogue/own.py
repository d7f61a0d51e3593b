"""Commands for a policy of one's own, without a workflow."""

from pathlib import Path

from cocal.commands import flags
from cocal.commands.flags import Command, Either, fields, flag, model, output, required
from cocal.commands.outputs import FOLDER, LINES, Kind


def _is_report(folder: Path) -> bool:
    page = folder / "index.html"
    return not page.exists() or b"Quality of the confidences in" in page.read_bytes()


_COMPANION = required("--companion COMPANION", "its folder, or its name on the Hub")
_TARGET = flag("--target", "which members (default: binary if there are any)", choices=["binary", "group"])
_BATCH = "tokens in one forward pass (default: 4096 on a processor, 16384 on a GPU or with portable numerics)"
_BFLOAT16 = "bfloat16 on a GPU, and where its weights are stored so and the processor has instructions for it"
_PASSES = (
    flag(
        "--precision",
        f"number format of the model's passes (default: {_BFLOAT16}; otherwise float32)",
        default="auto",
        choices=["auto", "float32", "bfloat16"],
    ),
    flags.NUMERICS,
    flag("--batch-tokens", _BATCH, type=flags.COUNT),
)
_ADAPTER = flag(
    "--adapter FOLDER",
    "adapter (LoRA) that PEFT has trained on the model, which is merged into it in memory",
    type=Path,
)
_CORRECT_ABOVE = flag("--correct-above X", "a reward above X is a correct response", type=flags.FINITE)
_LIMIT = flag(
    "--max-response-length TOKENS",
    "responses of so many tokens count as cut, where they do not say so (default: as in `cocal fit`)",
    type=flags.COUNT,
)
_SCORED = (
    fields("such as correct=acc, reward=score or question_id=id"),
    flag("--name FIELD", "field of the confidence", default="confidence"),
    _CORRECT_ABOVE,
)
_VERIFY = (
    flag("pair", "gold answer and answer of a mathematical question", nargs="*"),
    flag("--file FILE", "judge JSON lines with `gold` and `answer` instead, of which --output is a copy", type=Path),
    output("--output OUT", "the lines of --file with `correct` and `rule`", LINES),
    flags.OVERWRITE,
)
_RESAMPLES = flag("--resamples", "resamples of the questions for intervals", type=flags.RESAMPLES, default=1000)
_DECIDED = (
    flag("input scored.jsonl", "JSON lines, as `cocal score` writes them", type=Path),
    output("--output OUT", "JSON lines, one for each question", LINES, required=True),
    flags.OVERWRITE,
    *_SCORED,
)
_CHOSEN = (
    flag("--answer FIELD", "field of the answer, or `boxed`: the last box (default: `answer`, else `boxed`)"),
    flag(
        "--domain",
        "how equal answers are found: by the verifier of mathematics, or by exact match",
        default="mathematics",
        choices=["mathematics", "factual"],
    ),
    _RESAMPLES,
)
_CALIBRATION = flag("--calibration LABELLED", "scored lines with labels, others", type=Path)
_THRESHOLD = flag("--threshold T", "a threshold that was certified earlier", type=flags.SHARE)
_CERTIFIED = (
    Either((_CALIBRATION, _THRESHOLD), required=True),
    flag("--delta", "chance that the bound fails (default: 0.1)", type=flags.CHANCE),
)
_WAYS = {
    "best-of-n": Command(
        "Give each question its most confident response, among equals the earliest.", (*_DECIDED, *_CHOSEN)
    ),
    "vote": Command(
        "Give each question the answer with the largest sum of confidences, by its most confident response. "
        "Between answers with equal sums the one that occurs first wins. A response without an answer has no vote.",
        (*_DECIDED, *_CHOSEN),
    ),
    "abstain": Command(
        """\
The most confident response to each question is given if its confidence reaches a threshold; otherwise the verdict is
"abstain". Labelled responses to other questions certify the threshold by Learn then Test (Angelopoulos et al., 2021,
arXiv:2110.01052), with exact binomial p-values and fixed sequence testing in its fallback form (Wiens, 2003). With a
probability of at least 1 - DELTA over the calibration questions, a new question that is answered is answered wrongly
with a probability of at most RISK. This holds for any confidences, as long as calibration and new questions are
independent draws from one distribution, each with one decided response; further responses to a question count for
nothing.""",
        (*_DECIDED, *_CERTIFIED, flag("--max-risk RISK", "bound of the risk (default: 0.1)", type=flags.CHANCE)),
    ),
    "stop": Command(
        """\
Responses that `cocal score --every` has scored are stopped where their confidence falls below a threshold, as `cocal
serve` does it (confidence_stop_below). Labelled responses to other questions certify the threshold as for "abstain":
with a probability of at least 1 - DELTA over the calibration questions, a stopped response to a new question would have
been right with a probability of at most RISK. The first response to each question counts.""",
        (
            flag("input scored.jsonl", "JSON lines, as `cocal score --every` writes them", type=Path),
            output(
                "--output OUT", "the same lines with `stopped_at`, a number of tokens or null", LINES, required=True
            ),
            flags.OVERWRITE,
            *_SCORED,
            *_CERTIFIED,
            flag("--risk RISK", "bound of the share of right ones (default: 0.1)", type=flags.CHANCE),
        ),
    ),
}
_FIT = (
    *model("the policy whose rollouts these are: its last checkpoint"),
    _ADAPTER,
    required(
        "--rollouts PATH",
        "folder or files: JSON lines (of verl, open-instruct, prime-rl, or your own), TRL's completions (.parquet), "
        "slime's dumps (.pt), rollout tables of a study; the format is guessed and said",
        nargs="+",
        type=Path,
    ),
    output("--output FOLDER", "folder of the companion", FOLDER, required=True),
    flags.OVERWRITE,
    fields("such as response=text, correct=acc, reward=my_reward"),
    flag(
        "--correct-above X",
        "a reward above X is correct (default: rewards are 0 and 1, or -1 and 1)",
        type=flags.FINITE,
    ),
    flag(
        "--max-response-length TOKENS",
        "responses of so many tokens count as cut (see --truncated), where the rollouts do not say which were cut",
        type=flags.COUNT,
    ),
    flag(
        "--template FILE",
        "chat template (Jinja) in place of the tokenizer's own; with an empty file, or where neither is there, prompts "
        "are plain text",
        type=Path,
    ),
    flag("--thinking", "chats are rendered in thinking mode", action="store_true"),
    flags.pairs(
        "--template-field NAME=VALUE", "a value that the chat template reads", "thinking=true", flags.json_or_text
    ),
    flags.IGNORED,
    flag(
        "--target",
        "what is learnt: correctness, or the accuracy of the group (default: binary, the paper's main variant)",
        default="binary",
        choices=["binary", "group"],
    ),
    flag(
        "--seeds SEED",
        "one member for each; confidences are their mean (default: the paper's five)",
        nargs="+",
        type=flags.SEED,
    ),
    flag(
        "--recipe",
        "best: a linear probe and MLPs on standardised states, chosen by cross-validation over questions; paper: the "
        "paper's MLP (default: best, and for the group target paper)",
        choices=["best", "paper"],
    ),
    flag(
        "--truncated",
        "responses that were cut at the limit keep the verifier's labels, count as wrong, or are not learnt, as in the "
        "paper (default: as-labelled with the recipe best, leave-out with the paper's)",
        choices=["as-labelled", "wrong", "leave-out"],
    ),
    flag(
        "--with",
        "what the companion reads beside states: the probabilities that the model gave the tokens, or nothing (default "
        "with the recipe best: what cross-validation finds better, and one of states alone beside it)",
        dest="beside",
        choices=["token-probability", "nothing"],
    ),
    flag(
        "--prefixes TOKENS",
        "learn from responses after every so many tokens, too, so that confidences hold while a response grows",
        type=flags.COUNT,
    ),
    flag("--keep-states", "keep the states in the companion's folder, for a quick second fit", action="store_true"),
    flag(
        "--widths",
        "widths of the hidden layers (default: with the recipe best 32 16 and 128 64, with the paper's 2048 1024 512 "
        "256)",
        nargs="+",
        type=flags.COUNT,
    ),
    flag(
        "--passes",
        "bound of the passes over the rollouts (default: 30 with the recipe best, 10 with the paper's)",
        type=flags.COUNT,
    ),
    flag("--layer", "zero-based index of the block to read (default: the last one)", type=flags.INDEX),
    flag("--license NAME", "licence of the companion by the Hub's name for it, such as apache-2.0, for its card"),
    flag("--states", "number format of the hidden states", default="bfloat16", choices=["bfloat16", "float32"]),
    *_PASSES,
)
_SCORE = (
    _COMPANION,
    *model("the language model that gave the responses"),
    _ADAPTER,
    flag("input in.jsonl", "JSON lines with prompt and response: text or ids", type=Path),
    output("output out.jsonl", "the same lines with a field `confidence`", LINES),
    flags.OVERWRITE,
    fields("such as response=output or prompt=question; by default as in `cocal fit`"),
    flags.IGNORED,
    flag("--name FIELD", "name of the new field", type=flags.NEW_FIELD, default="confidence"),
    _TARGET,
    flag("--seed", "the member of one seed alone (default: the mean over all seeds)", type=int),
    flag(
        "--every TOKENS",
        "also writes the confidences after every so many tokens, as a field `confidence_trajectory`",
        type=flags.COUNT,
    ),
    _LIMIT,
    *_PASSES,
)
_SERVE = (
    _COMPANION,
    *model("the language model that is served"),
    _TARGET,
    flag("--abstain-below P", "abstain from answers with a lower confidence, or with none", type=flags.SHARE),
    flag(
        "--abstained",
        "what becomes of such an answer: its text is withheld, or it is marked (default: withheld)",
        default="withheld",
        choices=["withheld", "marked"],
    ),
)
_EVALUATE = (
    flag("input scored.jsonl", "JSON lines with `confidence` and a label", type=Path),
    output("--output FOLDER", "folder of the report", Kind(folder=True, alike=_is_report), required=True),
    flags.OVERWRITE,
    flag("--companion COMPANION", "the companion that gave them, whose card is to stand beside the numbers"),
    *_SCORED,
    flag("--beside FIELD", "another confidence to compare with; once for each", default=[], action="append"),
    _RESAMPLES,
)
_CHECKPOINTS = Kind(made=lambda file: file.read_bytes().startswith(b"checkpoint,step,responses,questions,ece,"))
_MONITOR = (
    _COMPANION,
    *model("the later checkpoint"),
    required("--rollouts PATH", "its new labelled rollouts, as in `cocal fit`", nargs="+", type=Path),
    output("--output CSV", "lines of checkpoints, to which this is added", _CHECKPOINTS, required=True),
    fields("such as response=text or correct=acc; by default as in `cocal fit`"),
    flags.IGNORED,
    _CORRECT_ABOVE,
    _LIMIT,
    flag("--max-ece X", "bound (default: the worse end of the interval on the card)", type=flags.SHARE),
    flag("--min-auroc X", "likewise", type=flags.SHARE),
    flag("--max-brier X", "likewise", type=flags.SHARE),
    _TARGET,
    _RESAMPLES,
    *_PASSES,
)

OWN = {
    "fit": Command("fit a companion on the rollouts of your own training", _FIT),
    "score": Command("add a companion's confidence to every response of a file", _SCORE),
    "serve": Command(
        "serve a model by vLLM, with the companion's confidence in every answer",
        _SERVE,
        passes_on=True,
        description="Serve a model by vLLM's OpenAI-compatible server, with the companion's confidence in every "
        "answer. All other flags are those of `vllm serve`, such as --port 8000 or --max-model-len 4096.",
    ),
    "evaluate": Command("measure confidences against labels: numbers, plots, one page", _EVALUATE),
    "verify": Command(
        "say whether an answer equals a gold answer, by which rule, and in which form both were compared",
        _VERIFY,
    ),
    "monitor": Command(
        "measure a companion on a later checkpoint's rollouts; status 3 where it no longer holds",
        _MONITOR,
        description="ECE, AUROC and Brier score on new labelled rollouts, with intervals, beside those of the "
        "companion's card. The status is 3 where a whole interval is worse than its bound (1 and 2: errors).",
    ),
    "decide": Command(
        "choose among responses by their confidences: best-of-n, voting, or abstention at a bounded error rate",
        ways=_WAYS,
    ),
}
