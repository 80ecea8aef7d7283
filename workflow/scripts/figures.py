"""Rule figures: one figure of a paper."""

from pathlib import Path

from fedbayes.analysis.figures import figure
from fedbayes.job import job

with job(snakemake.log[0]):
    figure(
        f"{snakemake.wildcards.paper}/{snakemake.wildcards.figure}",
        Path(snakemake.input.index),
        Path("."),
        snakemake.params.titles,
        Path(snakemake.input.logged),
        Path(snakemake.output.svg),
        Path(snakemake.output.png),
        snakemake.params.class_names,
        snakemake.params.planned,
    )
