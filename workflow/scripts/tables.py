"""Rule tables: one table of a paper, ours beside theirs."""

from pathlib import Path

from fedbayes.analysis.tables import table
from fedbayes.job import job

with job(snakemake.log[0]):
    table(
        Path(snakemake.input.reproduction),
        snakemake.wildcards.table,
        Path(snakemake.output.html),
        Path(snakemake.output.tex),
        Path(snakemake.output.csv),
        snakemake.params.planned,
    )
