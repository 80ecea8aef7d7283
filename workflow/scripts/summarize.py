"""Rule summarize: statistics over seeds."""

from pathlib import Path

from fedbayes.analysis.summarize import summarize
from fedbayes.job import job

with job(snakemake.log[0]):
    summarize(Path(snakemake.input.index), Path("."), Path(snakemake.output.summary))
