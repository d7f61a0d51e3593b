"""The start of `cocal serve`: what is checked before vLLM loads anything, and the command of vLLM's server."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec

from cocal.companion.settings import Target
from cocal.engines.states import FIRST_RUNNER, engine_settings
from cocal.errors import ConfigError, first_line
from cocal.fitting.config import CompanionConfig
from cocal.fitting.models import Checkpoint

VERSION = "0.32."
"""The versions of vLLM whose interfaces these are; they are experimental, and another version may change them."""
PLUGIN = "cocal"
ENDPOINTS = "vllm.endpoint_plugins"
CONNECTOR = "cocal.serving.connector:CompanionConnector"
_REFUSED = {
    **dict.fromkeys(
        ("--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens"),
        "the states of all computed tokens are read, and a speculative method computes some that are thrown away",
    ),
    **dict.fromkeys(
        ("--kv-transfer-config", "--kv-offloading-size", "--kv-offloading-backend"),
        "the companion is a KV connector, and vLLM has one at a time",
    ),
    "--config": "flags in a file would not be looked at; give them in the command",
    "--scheduler-cls": "the companion has a scheduler of its own",
    "--worker-cls": "the companion has a worker of its own",
    "--additional-config": "it names the companion's block, and vLLM has one",
    "--enable-lora": "the companion was fitted for the model without adapters; merge the adapter into the model",
    **dict.fromkeys(
        ("--pipeline-parallel-size", "-pp"),
        "the states of the companion's block are read by the first worker; use --tensor-parallel-size",
    ),
    "--trust-remote-code": "code that a checkpoint brings is never run",
}
"""vLLM's flags that cannot be given, with the reason."""
_TELLING = {
    "--enable-prompt-tokens-details": "answers of low confidence are withheld (--abstain-below), and how much of a "
    "prompt the cache holds would tell whether it begins as such an answer does"
}
"""Those that cannot be given where answers may be withheld."""


@dataclass(frozen=True)
class Served:
    """What is served beside the model.

    Attributes:
        companion: The companion's folder, or its name on the Hub.
        target: The target that is scored; None for the usual one.
        abstain_below, withhold: See `cocal.serving.choices.Shown`.
    """

    companion: str
    target: Target | None = None
    abstain_below: float | None = None
    withhold: bool = True

    def of(self, config: CompanionConfig) -> Target:
        """The target that is scored, or a ConfigError if the companion has no such target."""
        config.spec.chosen(self.target)
        return self.target or config.spec.usual_target


def check_flags(flags: Sequence[str], withholds: bool) -> None:
    """Raise a ConfigError for flags of vLLM that the companion does not fit, or that tell of withheld answers."""
    refused = _REFUSED | (_TELLING if withholds else {})
    for flag in flags:
        name = flag.partition("=")[0].partition(".")[0].replace("_", "-")
        # vLLM takes a beginning for the whole flag
        meant = [other for other in refused if other == name or (len(name) > 2 and other.startswith(name))]
        if meant:
            raise ConfigError(f"{flag}: this flag of vLLM cannot be given here: {refused[meant[0]]}")


def check_vllm() -> None:
    """Raise a ConfigError if vLLM or the plug-in is missing, or vLLM has another version's interfaces."""
    if find_spec("vllm") is None:
        raise ConfigError(
            "vLLM is not installed for this Python: in a checkout, `pip install '.[serve]'` on a machine with a GPU, "
            "`make vllm` for a processor"
        )
    from vllm import __version__ as version

    if not version.startswith(VERSION):
        raise ConfigError(f"vLLM is {version}, but the companion was made for {VERSION}x; install vllm=={VERSION}0")
    if PLUGIN not in entry_points(group=ENDPOINTS).names:
        raise ConfigError("this installation of cocal has no entry point for vLLM; install cocal again (pip install)")
    try:
        entry_points(group=ENDPOINTS)[PLUGIN].load()
    except Exception as error:  # vLLM would log it and serve without confidences, and would withhold nothing
        raise ConfigError(
            f"the plug-in of cocal for vLLM cannot be loaded ({first_line(error)}); install cocal again (pip install)"
        ) from error


def command(
    served: Served, config: CompanionConfig, checkpoint: Checkpoint, flags: Sequence[str], model_impl: str = "vllm"
) -> list[str]:
    """The words of the command that starts vLLM's server with a `model_impl` (`cocal.engines.states.implementation`);
    the user's flags of vLLM come last and win."""
    from torch import cuda

    given = {flag.partition("=")[0].replace("_", "-") for flag in flags}
    settings = engine_settings([config.spec.layer], CONNECTOR, **asdict(served))
    own = {
        "--kv-transfer-config": json.dumps(settings["kv_transfer_config"]),
        "--additional-config": json.dumps(settings["additional_config"]),
        "--model-impl": model_impl,
        "--scheduler-cls": settings["scheduler_cls"],
        "--worker-cls": settings["worker_cls"],
        "--served-model-name": checkpoint.name,
        "--dtype": checkpoint.usual_precision(),
        "--default-chat-template-kwargs": json.dumps({"enable_thinking": config.thinking, **config.template_fields}),
    }
    if config.template:  # in a file, since vLLM would take backslashes out of one that is given in place
        with tempfile.NamedTemporaryFile("w", prefix="cocal-", suffix=".jinja", delete=False, encoding="utf-8") as file:
            file.write(config.template)
        own["--chat-template"] = file.name
    if not cuda.is_available():
        own["--block-size"] = "32"  # a processor's usual 128 would share no prefix of short responses
        if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
            own["--kv-cache-memory-bytes"] = str(2**30)
    words = [word for flag, value in own.items() if flag not in given for word in (flag, value)]
    if not cuda.is_available():
        words.append("--enforce-eager")
        # this build dies of a seeded request whose prompt is read in several steps (an error of its random generator)
        if not given & {"--enable-chunked-prefill", "--no-enable-chunked-prefill", "--max-num-batched-tokens"}:
            words.append("--no-enable-chunked-prefill")
    # the module, and not the command `vllm`, which does not start in vLLM's build for processors
    start = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry"]
    return [*start, "--model", str(checkpoint.folder), *words, *flags]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of vLLM's server: defaults, the `given` values, and the plug-in beside the installed ones."""
    from torch import cuda

    groups = ("general", "platform", "io_processor", "stat_logger")
    installed = {name for group in groups for name in entry_points(group=f"vllm.{group}_plugins").names}
    plugins = {*given["VLLM_PLUGINS"].split(",")} if "VLLM_PLUGINS" in given else installed
    usual = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # servers beside one another must not share a core
        "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it is compiled at the start, which fails without nvcc
    }
    if not cuda.is_available():
        usual["TORCH_COMPILE_DISABLE"] = "1"  # it needs a compiler and gains nothing on a processor
    return {**usual, **given, **FIRST_RUNNER, "VLLM_PLUGINS": ",".join(sorted(plugins | {PLUGIN}))}
