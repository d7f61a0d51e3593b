"""Hidden states of evaluation responses."""

from pathlib import Path
from typing import ClassVar

from cocal.features.settings import FeatureSettings
from cocal.store.lineage import Source, descent, inherited
from cocal_study.config.evaluation import EvaluationSets
from cocal_study.stages.base import OutStores, Stage


class Features(Stage):
    """Reads the states of responses, or takes those that vLLM kept."""

    command: ClassVar[str] = "features"

    settings: FeatureSettings = FeatureSettings()
    """JSON: layers, dtype, batch_tokens"""
    samples: EvaluationSets
    """JSON: evaluated responses per question, by question set"""
    responses: Path
    """folder that holds {set}.parquet"""
    checkpoint: Path
    """policy that produced the responses"""
    kept: Path | None = None
    """states that vLLM kept of these responses; no pass is made"""
    prompt: bool = False
    """also store the state of the last prompt token"""
    task_response: bool = False
    """stop before the first <reason> or confidence statement"""
    output: OutStores
    """folder for {set}.zarr"""

    def reads(self):
        tables = [self.responses / f"{name}.parquet" for name in self.samples.root]
        return [self.checkpoint, *tables, *([self.kept] if self.kept else [])]

    def writes(self):
        return [self.output / f"{name}.zarr" for name in self.samples.root]

    def run(self) -> None:
        """Run one teacher-forced pass over the exact token ids of each response, or copy the states."""
        from cocal.features.extract import poolings_of
        from cocal.models.loading import load_policy, load_tokenizer
        from cocal.runtime.machine import fix_threads
        from cocal.store import read_frame
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.evaluated import copy_features, extract_features, task_responses

        fix_threads()
        settings = self.settings
        policy = None if self.kept else load_policy(self.checkpoint)
        columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
        for name, samples in self.samples.root.items():
            table, output = self.responses / f"{name}.parquet", self.output / f"{name}.zarr"
            frame = read_frame(table, RESPONSES, columns)
            frame = frame[frame["sample"] < samples].reset_index(drop=True)
            facts = {"task_response": self.task_response}
            facts |= inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset")
            if self.task_response:
                frame = task_responses(frame, load_tokenizer(self.checkpoint))
            sources = [Source(table), Source(self.checkpoint)]
            attributes = descent(output, self.command, settings, sources, **facts)
            if self.kept:
                copy_features(self.kept / f"{name}.zarr", frame, output=output, attributes=attributes)
            else:
                poolings = poolings_of(self.prompt)
                extract_features(policy, frame, settings, output=output, attributes=attributes, poolings=poolings)
