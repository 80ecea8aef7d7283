"""Rule train: one run."""

import os
from pathlib import Path

# Compiled steps are kept between jobs; PyTorch reads this when it is imported.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path("resources/compiled").resolve()))

import torch

from fedbayes.config import Execution
from fedbayes.job import job, show
from fedbayes.plan import Run
from fedbayes.runs.train import train

torch.set_num_threads(snakemake.threads)

with job(snakemake.log[0]):
    train(
        run=Run(snakemake.params.spec),
        code=snakemake.params.code,
        dataset_folder=Path(snakemake.input.manifest).parent,
        split_file=Path(snakemake.input.split),
        shift_file=Path(snakemake.input.shift) if snakemake.input.shift else None,
        start_file=Path(snakemake.input.start) if snakemake.input.start else None,
        target=Path(snakemake.output.state).parent,
        split_sha256=snakemake.params.split_sha256,
        execution=Execution.model_validate(snakemake.config["execution"]),
        show=show,
    )
