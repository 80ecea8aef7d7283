"""Rule fetch: a dataset's arrays and manifest."""

from pathlib import Path

from fedbayes.config import ArrayFacts
from fedbayes.data.fetch import fetch
from fedbayes.data.sources import data_root
from fedbayes.job import job

with job(snakemake.log[0]):
    fetch(
        snakemake.wildcards.dataset,
        ArrayFacts.model_validate(snakemake.params.facts),
        Path(snakemake.output.manifest).parent,
        data_root(snakemake.config["execution"]["data_root"]),
    )
