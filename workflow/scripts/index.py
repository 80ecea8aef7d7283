"""Rule index: the cells of a paper and the runs that fill them."""

import csv
from pathlib import Path

from fedbayes.io import replacing
from fedbayes.job import job
from fedbayes.plan import Cell

with (
    job(snakemake.log[0]),
    replacing(Path(snakemake.output.index)) as part,
    part.open("w", encoding="utf-8", newline="") as file,
):
    rows = csv.DictWriter(file, fieldnames=Cell.columns())
    rows.writeheader()
    rows.writerows(snakemake.params.cells)
