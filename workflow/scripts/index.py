"""Rule index: the cells of a paper and the runs that fill them."""

import csv
from pathlib import Path

from fedbayes.io import replacing
from fedbayes.job import job

with job(snakemake.log[0]):
    cells = snakemake.params.cells
    with replacing(Path(snakemake.output.index)) as part, part.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, fieldnames=list(cells[0]))
        rows.writeheader()
        rows.writerows(cells)
