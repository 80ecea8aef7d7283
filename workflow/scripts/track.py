"""Rule track: finished runs to MLflow."""

from pathlib import Path

from fedbayes.job import alone, job
from fedbayes.receipts import receipt
from fedbayes.tracking import PaperInfo, publish_runs
from fedbayes.tracking_uri import tracking_uri

with job(snakemake.log[0]):
    cells, paper = snakemake.params.cells, PaperInfo(**snakemake.params.paper)
    content = {"runs": sorted({cell["run"] for cell in cells})}
    with receipt(Path(snakemake.output.receipt), content), alone(Path("results/tracking/lock")) as publisher:
        publish_runs(tracking_uri(), publisher, Path("."), paper, cells)
