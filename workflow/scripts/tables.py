"""Rule tables: one table of a paper, ours beside theirs."""

from pathlib import Path

from fedbayes.analysis.tables import table
from fedbayes.job import job

with job(snakemake.log[0]):
    out = snakemake.output
    table(Path(snakemake.input.reproduction), snakemake.wildcards.table, Path(out.html), Path(out.tex), Path(out.csv))
