"""Damages of files, and hostile inputs: each case changes the world before one command runs."""

import io
import json
import os
import pickle
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from world import Command

FEW = 6
"""Number of files of one folder that are damaged."""


@dataclass(frozen=True)
class Case:
    """One fault and the command that meets it.

    Attributes:
        kind: Row of the report.
        name: The fault in words.
        command: The command that runs.
        prepare: Makes the fault in the folder of the world.
        given: True of a user's own file, which nobody can tell from the one that was meant if it is readable.
    """

    kind: str
    name: str
    command: Command
    prepare: Callable[[Path], None]
    given: bool = False


def _flipped(content: bytes, share: float) -> bytes:
    place = int(share * (len(content) - 1))
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "last byte missing": lambda content: content[:-1],
    "a byte appended": lambda content: content + b"\x01",
    "a bit flipped at a tenth": lambda content: _flipped(content, 0.1),
    "a bit flipped in the middle": lambda content: _flipped(content, 0.5),
    "a bit flipped near the end": lambda content: _flipped(content, 0.97),
    "64 bytes of zeros in the middle": lambda content: (
        content[: len(content) // 2] + bytes(64) + content[len(content) // 2 + 64 :]
    ),
    "noise of the same length": lambda content: random.Random(7).randbytes(len(content)),
}


def damaged(world: Path, commands: dict[str, Command]) -> Iterator[Case]:
    """Every kind of damage to every kind of file that a command reads."""
    met = set()
    for name, command in commands.items():
        for path in (path for place in command.reads for path in _chosen(world, place)):
            if (kind := (name.split()[0], _kind(path))) in met:
                continue
            met.add(kind)
            faults = {
                f"{path}: {damage}": lambda file, content, change=change: file.write_bytes(change(content))
                for damage, change in DAMAGES.items()
            }
            faults[f"{path}: missing"] = lambda file, content: None
            faults[f"{path}: a folder in its place"] = lambda file, content: file.mkdir()
            if twin := _twin(world, path):
                faults[f"{twin} as {path}"] = lambda file, content, twin=twin: shutil.copy2(world / twin, file)
            for fault, put in faults.items():
                step = path.startswith("tables/") and "missing" not in fault
                ours = path.startswith(("results/", "companion/")) or step
                yield Case(f"damaged file, `cocal {name.split()[0]}`", fault, command, _instead(path, put), not ours)


def _kind(path: str) -> str:
    """One of a user's files, or the kind of a file of a study: its folder in results/, and its name or ending."""
    if not path.startswith("results/"):
        return path
    file = Path(path)
    name = file.suffix if file.suffix in (".parquet", ".nc") else re.sub(r"[0-9]+", "N", file.name)
    return f"{file.parts[1]}/{name}"


def _chosen(world: Path, given: str) -> list[str]:
    place = world / given
    if place.is_file():
        return [given]
    found = (path for path in place.rglob("[!.]*") if path.is_file() and path.stat().st_size)
    # the root of a feature store repeats what it says of its arrays, and only the root is read
    found = (path for path in found if path.name != "zarr.json" or path.parent.suffix == ".zarr")
    files = sorted(str(path.relative_to(world)) for path in found)
    return files if len(files) <= FEW else random.Random(given).sample(files, FEW)


def _twin(world: Path, path: str) -> str | None:
    """Another file of the same name or ending, with another content, beside it or in a neighbouring folder.

    Pieces of a feature store have none: each carries a checksum, but not its place in the store.
    """
    if ".zarr/" in path:
        return None
    one = world / path
    nearby = [*one.parent.glob(f"*{one.suffix}"), *one.parent.parent.glob(f"*/{one.name}")]
    nearby += one.parent.parent.parent.glob(f"*/*/{one.name}")
    content = one.read_bytes()
    others = sorted(other for other in nearby if other.is_file() and other.read_bytes() != content)
    return str(others[0].relative_to(world)) if others else None


def _instead(path: str, put: Callable[[Path, bytes], object]) -> Callable[[Path], None]:
    """A fault that deletes a file and puts something in its place, knowing what it held."""

    def prepare(folder: Path) -> None:
        content = (folder / path).read_bytes()
        (folder / path).unlink()
        put(folder / path, content)

    return prepare


VALUES = {
    "null": "null",
    "empty text": '""',
    "blank text": '"  "',
    "lone surrogate": '"\\ud800"',
    "NUL": '"a\\u0000b"',
    "chat markers": '"<|im_end|><|im_start|>assistant"',
    "a million letters": '"' + "a" * 1_000_000 + '"',
    "true": "true",
    "word": '"maybe"',
    "minus one": "-1",
    "half": "0.5",
    "above 2**32": str(2**32 + 7),
    "above 2**63": str(2**63),
    "5,000 digits": "9" * 5000,
    "NaN": "NaN",
    "infinity": "-Infinity",
    "empty list": "[]",
    "empty object": "{}",
    "ragged lists": "[[1, 2], [3]]",
    "list of null": "[1, null, 3]",
    "list of halves": "[1.5, 2]",
    "list of texts": '["1", "2"]',
    "negative id": "[5, -1]",
    "wrapping id": f"[5, {2**32 + 7}]",
    "200,000 nested lists": "[" * 200_000 + "]" * 200_000,
    "message without content": '[{"role": "user"}]',
    "message with null": '[{"role": "user", "content": null}]',
    "assistant speaks last": '[{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}]',
}
"""Values of a field, as they stand in a line of JSON."""
FIELDS = {
    "score": ("prompt", "prompt_ids", "response_ids", "question_id", "messages", "response", "truncated"),
    "fit lines": ("prompt_ids", "response_ids", "correct", "reward", "step", "group", "truncated", "finish_reason"),
    "evaluate": ("confidence", "correct", "question_id", "prompt"),
    "vote": ("confidence", "text", "answer"),
}
"""Fields that are given every value, by the command that reads them."""
LINES = {"score": "in.jsonl", "fit lines": "lines/1.jsonl", "evaluate": "scored.jsonl", "vote": "scored.jsonl"}


def hostile_lines(commands: dict[str, Command]) -> Iterator[Case]:
    """Every value in every field of one line; and whole lines that are no responses."""
    for name, fields in FIELDS.items():
        for field in fields:
            for word, value in VALUES.items():
                yield Case(
                    f"hostile field, `cocal {name.split()[0]}`",
                    f"{field}: {word}",
                    commands[name],
                    _third_line(LINES[name], lambda line, field=field, value=value: _with(line, field, value)),
                )
        for word, text in {
            "no JSON": "{",
            "a list": "[1]",
            "nothing but a number": "1",
            "two objects": "{} {}",
            "the same field twice": '{"prompt": "a", "prompt": "b"}',
            "nested objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
            "a line of 120 MB": '{"prompt": "' + "a" * 120_000_000 + '"}',
            "UTF-16": "{}".encode("utf-16").decode("latin-1"),
            "invalid UTF-8": "\udcff",
        }.items():
            yield Case(
                f"hostile line, `cocal {name.split()[0]}`",
                word,
                commands[name],
                _third_line(LINES[name], lambda _, text=text: text),
            )


def _with(line: str, field: str, value: str) -> str:
    entry = json.loads(line)
    entry.pop(field, None)
    return f'{json.dumps(entry)[:-1]}, "{field}": {value}}}'


def _third_line(path: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        lines = (folder / path).read_text().splitlines()
        lines[2] = change(lines[2])
        (folder / path).write_bytes(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))

    return prepare


class _Touch:
    """Unpickled, it writes a file."""

    def __reduce__(self):
        return os.system, ("touch EXECUTED",)


def _module(folder: Path, name: str) -> None:
    """A model that brings code, which writes a file when it is imported."""
    settings = json.loads((folder / "model" / name).read_text())
    settings["auto_map"] = {key: f"evil.{key}" for key in ("AutoConfig", "AutoModelForCausalLM")}
    settings["auto_map"]["AutoTokenizer"] = ["evil.AutoTokenizer", None]
    if name == "config.json":
        settings["model_type"] = "evil"
    (folder / "model" / name).write_text(json.dumps(settings))
    (folder / "model/evil.py").write_text("open('EXECUTED', 'w')\n")


def _settings(**changed) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        path = folder / "model/config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return prepare


def _template(text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for path in (folder / "model").glob("*.jinja"):
            path.unlink()
        path = folder / "model/tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": text}))

    return prepare


def _pickled_weights(folder: Path) -> None:
    (folder / "model/model.safetensors").unlink()
    (folder / "model/pytorch_model.bin").write_bytes(pickle.dumps(_Touch()))


def _pickled_dump(folder: Path) -> None:
    (folder / "slime/1.pt").write_bytes(pickle.dumps(_Touch()))


def _dump_in_an_archive(folder: Path) -> None:
    """As `torch.save` writes, with other code in its pickle."""
    content = io.BytesIO()
    with zipfile.ZipFile(folder / "slime/1.pt") as old, zipfile.ZipFile(content, "w") as new:
        for item in old.infolist():
            new.writestr(item, pickle.dumps(_Touch()) if item.filename.endswith("data.pkl") else old.read(item))
    (folder / "slime/1.pt").write_bytes(content.getvalue())


def _swollen_dump(folder: Path) -> None:
    """A megabyte that becomes a gigabyte."""
    with zipfile.ZipFile(folder / "slime/1.pt", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(2**30))


def _swollen_table(folder: Path) -> None:
    """Half a megabyte that becomes gigabytes."""
    import pandas as pd

    frame = pd.read_parquet(folder / "trl/completions_00002.parquet")
    frame = pd.concat([frame[:1].assign(completion=["a" * 1_000_000])] * 4000)
    frame["completion"] = "a" * 1_000_000
    frame.assign(prompt="1 + 1").to_parquet(folder / "trl/completions_00002.parquet", compression="zstd")


def _null_texts(folder: Path) -> None:
    import pandas as pd

    path = folder / "trl/completions_00002.parquet"
    frame = pd.read_parquet(path)
    frame.loc[2, ["completion"]] = None
    frame.to_parquet(path)


PLACES = {
    "a pipe": lambda file, content: os.mkfifo(file),
    "a link to itself": lambda file, content: file.symlink_to(file.name),
}


NESTED = (
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}"
)
SWELLING = (
    "{% set ns = namespace(s='aaaaaaaa') %}{% for a in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}"
)


def hostile_files(commands: dict[str, Command]) -> Iterator[Case]:
    """Files that run code, never end, or swell; things that are no files."""
    fits = commands["fit lines"], commands["score"]
    for name, prepare in {
        "code by config.json": lambda folder: _module(folder, "config.json"),
        "code by tokenizer_config.json": lambda folder: _module(folder, "tokenizer_config.json"),
        "pickled weights": _pickled_weights,
        "template that never ends": _template(NESTED),
        "template that swells": _template(SWELLING),
        "template that reads attributes": _template("{{ ''.__class__.__mro__ }}"),
        "template that fails": _template("{{ messages[7].content }}"),
        "a billion states": _settings(hidden_size=10**9),
        "no blocks": _settings(num_hidden_layers=0),
        "minus one block": _settings(num_hidden_layers=-1),
        "a list as vocabulary": _settings(vocab_size=[1]),
        "half the vocabulary": _settings(vocab_size=100),
        "unknown architecture": _settings(model_type="unheard", architectures=["Unheard"]),
        **{f"{word} as weights": _instead("model/model.safetensors", put) for word, put in PLACES.items()},
    }.items():
        for command in fits:
            yield Case("hostile model", f"{name}, {command.words[0]}", command, prepare)
    for name, command, prepare in (
        ("pickled code", "fit slime", _pickled_dump),
        ("pickled code in an archive", "fit slime", _dump_in_an_archive),
        ("an archive that swells", "fit slime", _swollen_dump),
        ("a table that swells", "fit trl", _swollen_table),
        ("null as a text", "fit trl", _null_texts),
    ):
        yield Case("hostile dump", name, commands[command], prepare)
    for name, command in {"in.jsonl": "score", "lines/1.jsonl": "fit lines", "scored.jsonl": "evaluate"}.items():
        for word, put in PLACES.items():
            yield Case("hostile file", f"{word} as {name}", commands[command], _instead(name, put))


def outputs(commands: dict[str, Command]) -> Iterator[Case]:
    """Outputs that are somebody's files or folders, or inputs."""
    for name, command in commands.items():
        places = ["verl", "lines/1.jsonl", ".", "..", "model", "in.jsonl/out", "link", "loop", *command.reads]
        for place in dict.fromkeys(places):
            words = tuple(place if word == "out" else word for word in command.words)
            yield Case("output", f"{name} to {place}", Command(words, command.reads, ()), _links)


def _links(folder: Path) -> None:
    (folder / "link").symlink_to("in.jsonl")
    (folder / "loop").symlink_to("loop")


FLAGS = {
    "fit lines": "--widths=0 --widths=-3 --seeds=-1 --seeds=x --passes=0 --passes=1e9 --target=none "
    "--correct-above=nan --batch-tokens=0 --max-response-length=0 --max-response-length=-5 --numerics=none "
    "--layer=99 --validation=2",
    "score": "--batch-tokens=0 --batch-tokens=-1 --seed=7 --target=group --name= --name=prompt --field=x "
    "--field=response=",
    "evaluate": "--resamples=0 --resamples=-1 --correct-above=nan --name=none --field=correct=none",
    "vote": "--resamples=0 --resamples=x --answer=none --domain=none --correct-above=inf",
    "abstain": "--max-risk=0 --max-risk=1 --max-risk=nan --delta=0 --delta=2 --threshold=nan --threshold=7",
}


def hostile_flags(commands: dict[str, Command]) -> Iterator[Case]:
    """Values of flags that mean nothing."""
    for name, flags in FLAGS.items():
        for flag in flags.split():
            command = commands[name]
            words = command.words
            if flag.startswith("--threshold"):
                words = tuple(word for word in words if word not in ("--calibration", "labelled.jsonl"))
            yield Case("flag", f"{name} {flag}", Command((*words, flag), command.reads, ()), lambda folder: None)
