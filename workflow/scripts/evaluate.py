"""Rule evaluate: the states a run kept."""

from pathlib import Path

import torch

from fedbayes.config import Execution
from fedbayes.devices import claimed
from fedbayes.job import job
from fedbayes.plan import Run
from fedbayes.runs.evaluate import evaluate

torch.set_num_threads(snakemake.threads)
execution = Execution.model_validate(snakemake.config["execution"])
with job(snakemake.log[0], history=True), claimed(execution) as execution:
    evaluate(
        run=Run(snakemake.params.spec),
        state_file=Path(snakemake.input.state),
        dataset_folder=Path(snakemake.input.manifest).parent,
        split_file=Path(snakemake.input.split),
        shift_file=Path(snakemake.input.shift) if snakemake.input.shift else None,
        outsiders_folder=Path(snakemake.input.outsiders[0]).parent if snakemake.input.outsiders else None,
        start_file=Path(snakemake.input.start) if snakemake.input.start else None,
        target=Path(snakemake.output.evaluation),
        samples_target=Path(snakemake.output.predictions),
        split_sha256=snakemake.params.split_sha256,
        execution=execution,
    )
