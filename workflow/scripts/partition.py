"""Rule partition: the samples of each client."""

from pathlib import Path

from fedbayes.data.splits import make_split
from fedbayes.job import job
from fedbayes.split_rules import split_of

with job(snakemake.log[0]):
    make_split(
        Path(snakemake.input.manifest).parent,
        split_of(snakemake.params.split),
        int(snakemake.wildcards.seed),
        Path(snakemake.output.split),
        snakemake.params.committed,
    )
