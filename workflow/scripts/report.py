"""Rule report: the page for people, and the table for the terminal."""

from pathlib import Path

from fedbayes.analysis.report import chapters_of, report
from fedbayes.analysis.terminal import terminal_table
from fedbayes.commit import commit
from fedbayes.io import write_text
from fedbayes.job import job

with job(snakemake.log[0]):
    reproductions, indices, tables, figures, splits = (
        [Path(file) for file in snakemake.input[kind]]
        for kind in ("reproductions", "indices", "tables", "figures", "splits")
    )
    chapters = chapters_of(
        snakemake.params.papers,
        snakemake.params.left_out,
        reproductions,
        indices,
        tables,
        figures,
        splits,
        snakemake.params.planned,
    )
    report(snakemake.wildcards.scale, chapters, Path("."), commit(), Path(snakemake.output.html))
    write_text(Path(snakemake.output.text), terminal_table(reproductions))
