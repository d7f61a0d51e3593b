"""The language model that a command is given: a folder, or a name on the Hub."""

from dataclasses import dataclass
from pathlib import Path

from cocal.checkpoints.hub import download
from cocal.checkpoints.loading import Policy, fingerprint, load_policy
from cocal.errors import ContractError
from cocal.standalone.about import BaseModelFacts


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is there, and has not been loaded yet.

    Attributes:
        name: Name on the Hub, or path, as it was given.
        folder: Folder of its files.
        revision: Commit on the Hub; None of a folder.
    """

    name: str
    folder: Path
    revision: str | None

    @classmethod
    def find(cls, name: str, revision: str | None = None) -> "Checkpoint":
        """A folder, or a checkpoint of the Hub, which is downloaded unless it is in the Hub's cache.

        Raises:
            ContractError: if there is none.
        """
        if Path(name).is_dir():
            return cls(name, Path(name), None)
        if name.startswith((".", "/", "~")) or name.count("/") != 1:
            raise ContractError(
                f"{name}: there is no such folder of a model, and it is no name on the Hub (owner/name)"
            )
        folder = download(name, revision or "main")
        return cls(name, folder, folder.name)

    def load(self) -> Policy:
        """The policy, as the workflow's commands load it; its tokenizer may lack a chat template."""
        return load_policy(self.folder, plain=True)

    def facts(self, policy: Policy) -> BaseModelFacts:
        """What a saved companion says of its model."""
        found = BaseModelFacts.of(policy.model.config, self.name)
        return found.model_copy(update={"revision": self.revision})

    def identity(self) -> str:
        """Digest that tells this checkpoint from others."""
        return self.revision or fingerprint(self.folder)
