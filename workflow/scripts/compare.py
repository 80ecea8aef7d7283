"""Rule compare: printed numbers beside ours."""

from pathlib import Path

from fedbayes.analysis.compare import compare
from fedbayes.job import job

with job(snakemake.log[0]):
    compare(
        Path(snakemake.input.summary),
        Path(snakemake.input.published),
        snakemake.params.name,
        snakemake.wildcards.paper,
        snakemake.wildcards.scale,
        Path(snakemake.output.reproduction),
    )
