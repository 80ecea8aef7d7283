"""Rule split_pictures: the picture of one client split."""

from pathlib import Path

from fedbayes.analysis.client_splits import Words
from fedbayes.analysis.split_pictures import split_picture
from fedbayes.job import job

with job(snakemake.log[0]):
    params = snakemake.params
    split_picture(
        Path(snakemake.input.split),
        Path(snakemake.input.manifest).parent,
        Words(params.titles, params.dataset_title, params.stand_in_for, snakemake.wildcards.scale),
        Path(snakemake.output.svg),
        Path(snakemake.output.png),
    )
