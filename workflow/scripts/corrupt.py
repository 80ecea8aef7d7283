"""Rule corrupt: the samples of each client as its noise model shows them."""

from pathlib import Path

from fedbayes.data.shift_files import make_shift
from fedbayes.job import job
from fedbayes.shifts import NoisyClients

with job(snakemake.log[0]):
    make_shift(
        Path(snakemake.input.manifest).parent,
        Path(snakemake.input.split),
        NoisyClients.model_validate(snakemake.params.shift),
        int(snakemake.wildcards.seed),
        Path(snakemake.output.shift),
    )
