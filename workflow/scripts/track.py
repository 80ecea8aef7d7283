"""Rule track: finished runs to MLflow."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import job
from fedbayes.tracking import PaperInfo, publish_runs

with job(snakemake.log[0]):
    cells = snakemake.params.cells
    publish_runs(snakemake.params.uri, Path("."), PaperInfo(**snakemake.params.paper), cells)
    write_json(Path(snakemake.output.receipt), {"runs": sorted({cell["run"] for cell in cells})})
