"""Rule train: one run."""

from pathlib import Path

import torch

from fedbayes.compiled import keep_compiled
from fedbayes.config import Execution
from fedbayes.devices import claimed
from fedbayes.job import job, show
from fedbayes.plan import Run
from fedbayes.runs.stopping import listening
from fedbayes.runs.train import train

torch.set_num_threads(snakemake.threads)
keep_compiled(Path("resources/compiled"))
execution = Execution.model_validate(snakemake.config["execution"])
# A job that waits for a GPU ends at a signal as any program does; one that trains keeps a checkpoint first.
with job(snakemake.log[0], history=True), claimed(execution) as execution, listening() as stop:
    train(
        run=Run(snakemake.params.spec),
        code=snakemake.params.code,
        dataset_folder=Path(snakemake.input.manifest).parent,
        split_file=Path(snakemake.input.split),
        shift_file=Path(snakemake.input.shift) if snakemake.input.shift else None,
        start_file=Path(snakemake.input.start) if snakemake.input.start else None,
        target=Path(snakemake.output.state).parent,
        split_sha256=snakemake.params.split_sha256,
        execution=execution,
        show=show,
        stop=stop,
    )
