"""Rule track_means: means, printed numbers, verdicts, tables, figures and client splits of a paper to MLflow."""

from pathlib import Path

from fedbayes.job import alone, job
from fedbayes.receipts import need, receipt
from fedbayes.tracking import PaperInfo, publish_cells
from fedbayes.tracking_uri import tracking_uri

with job(snakemake.log[0]):
    tables, figures = ([Path(file) for file in snakemake.input[kind]] for kind in ("tables", "figures"))
    splits = {key: Path(file) for key, file in snakemake.params.splits.items()}
    paper, reproduction = PaperInfo(**snakemake.params.paper), Path(snakemake.input.reproduction)
    counts = {"tables": len(tables), "figures": len(figures), "splits": len(snakemake.input.splits)}
    content = {"paper": paper.key} | counts
    with receipt(Path(snakemake.output.receipt), content), alone(Path("results/tracking/lock")) as publisher:
        need(snakemake.input.runs)
        publish_cells(tracking_uri(), publisher, paper, reproduction, figures, tables, splits)
