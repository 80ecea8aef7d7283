"""Finished results kept in the repository, and the tables of them in the README and on the papers' pages.

`python -m fedbayes.analysis.freeze <scale>` (or `make freeze`) brings `docs/reproduction/<paper>.csv` up to date.
`results/` is never committed; these small files are. Freezing a part of a campaign leaves the rows of all other cells
as they were. A paper's page shows all its rows, the README those that `headline` chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.compare import NUMBERS, read_reproduction
from fedbayes.analysis.published import meaning_of
from fedbayes.analysis.unplanned import warning
from fedbayes.io import read_json, write_text, write_with
from fedbayes.reading import ConfigError, complain

PRINTED = ["table", "dataset", "setting", "method", "metric"]
KEY = [*PRINTED, "variant", "preset", "scale"]
COLUMNS = ["paper", "paper_name", *KEY, "model", "unit", "printed", *NUMBERS, "verdict", "why_no_verdict", "doubtful"]
COLUMNS += [
    "ran_on",
    "stand_in_for",
    "marks",
    "seeds",
    "seed_list",
    "diverged",
    "reduction",
    "runs",
    "hardware",
    "hours",
    "commit",
]

START, END = "<!-- reproduction:start -->", "<!-- reproduction:end -->"
PAGE_COLUMNS = ["Paper", "Table", "Setting", "Method", "Preset", "Model", "Metric", "Ours", "Published", "Difference"]
PAGE_COLUMNS += ["Seeds", "Ran on", "Scale", "95 % interval", "Last round", "Client mean", "Verdict"]
README_COLUMNS = [column for column in PAGE_COLUMNS if column not in ("95 % interval", "Client mean")]
NUMERIC = {"Ours", "Published", "Difference", "Seeds", "95 % interval", "Last round", "Client mean"}

MOST_ROWS = 5  # of one paper in the README
CHOICE = (
    f"Chosen by rule, not by result: of each paper at most {MOST_ROWS} methods, its own first, with one printed number "
    "each, without variants where there are others; accuracy before other metrics, with a verdict before without, "
    "scale `paper` before `reduced`, more seeds before fewer, then the paper's own order."
)


def freeze(reproduction: Path, root: Path, target: Path) -> None:
    """Write the cells that ran into `target`, in place of their old rows and beside all others.

    Args:
        reproduction: what `compare` wrote for the paper.
        root: the folder that holds `results/`.
        target: the CSV file to write or to bring up to date.
    """
    rows = read_reproduction(reproduction)
    # What belongs to no table is a baseline, which only serves others; numbers the paper does not print have their own.
    ran = cast(list[dict[str, Any]], rows[(rows["status"] == "run") & (rows["table"] != "")].to_dict("records"))
    fresh = pd.DataFrame([row | _provenance(row["runs"].split(), root) for row in ran], columns=COLUMNS)
    fresh = fresh.assign(**{column: fresh[column].astype(float).map(_digits) for column in [*NUMBERS, "hours"]})
    old = _read_text(target) if target.exists() else fresh.iloc[:0]
    _warn_of_changed_code(fresh, target)
    merged = pd.concat([old, fresh.astype(str)], ignore_index=True).drop_duplicates(KEY, keep="last")
    write_with(target, partial(_in_printed_order(merged, rows)[COLUMNS].to_csv, index=False))


def _warn_of_changed_code(fresh: pd.DataFrame, target: Path) -> None:
    """One line on the terminal for runs that no commit has the code of; the column `commit` says so of each row."""
    changed = fresh[fresh["commit"].map(lambda commits: any(c.endswith("-dirty") for c in commits.split()))]
    if len(changed):
        runs = len({run for runs in changed["runs"] for run in runs.split()})
        print(
            f"fedbayes: warning: {display.count(len(changed), 'row')} of {target} ({display.count(runs, 'run')}) come "
            "from changed code that no commit has (`-dirty` in the column `commit`): run them again before you publish",
            file=sys.stderr,
        )


def _in_printed_order(frozen: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Frozen rows in the order in which the paper prints its numbers and its file has presets; what is gone is last."""

    def places(columns: list[str]) -> list[int]:
        place = {key: at for at, key in enumerate(rows[columns].drop_duplicates().itertuples(index=False, name=None))}
        return [place.get(key, len(place)) for key in frozen[columns].itertuples(index=False, name=None)]

    placed = frozen.assign(number=places(PRINTED), cell=places(KEY[:-1]))
    return placed.sort_values(["number", "cell", "variant", "preset", "scale"])


def _digits(value: float) -> str:
    """Six digits after the point at most; empty for NaN."""
    return "" if pd.isna(value) else f"{value:.6f}".rstrip("0").rstrip(".")


def _provenance(runs: Sequence[str], root: Path) -> dict[str, Any]:
    """Hardware, hours and commit of the runs of a cell, each told once."""
    records = [read_json(_record_file(run, root)) for run in runs]
    return {
        "hardware": " | ".join(dict.fromkeys(display.hardware(record) for record in records)),
        "hours": sum(record["seconds"] for record in records) / 3600,
        "commit": " ".join(dict.fromkeys(record["commit"] for record in records)),
    }


def _record_file(run: str, root: Path) -> Path:
    found = list(root.glob(f"results/runs/*/*/{run}/run.json"))
    if not found:
        raise complain("results/runs", run, "the run is not there; expected its run.json (make the results again)")
    return found[0]


def paper_table(frozen: Path) -> str:
    """All frozen results of one paper as a Markdown table."""
    return _markdown(read_frozen(frozen), PAGE_COLUMNS)


def readme_table(frozen: Sequence[Path]) -> str:
    """The headline rows of every paper as one Markdown table, the rule they are chosen by, and where all others are."""
    papers = {file: rows for file in frozen if len(rows := read_frozen(file))}
    if not papers:
        return "No results have been frozen yet.\n"
    table = _markdown(pd.concat([headline(rows) for rows in papers.values()]), README_COLUMNS)
    everything = "; ".join(_where(file, rows) for file, rows in papers.items())
    return f"{table}\n{CHOICE} All rows, with intervals and client means: {everything}.\n"


def headline(rows: pd.DataFrame) -> pd.DataFrame:
    """The few rows of a paper that the README shows, by the rule that `CHOICE` states, in the paper's order."""
    printed = rows[rows["printed"] != ""]
    main = printed[printed["variant"] == ""]
    main = printed if main.empty else main
    names = zip(main["method"], main["paper_name"], strict=True)
    ranked = main.assign(
        foreign=[not method.startswith(paper) for method, paper in names],
        other=main["metric"].map(lambda metric: meaning_of(metric).metric != "accuracy"),
        unjudged=main["verdict"] == "",
        smaller=main["scale"] != "paper",
        fewer=-main["seeds"].astype(int),
    ).sort_values(["foreign", "other", "unjudged", "smaller", "fewer"], kind="stable")
    chosen = ranked.drop_duplicates("method").head(MOST_ROWS)
    return rows.loc[sorted(chosen.index)]


def _where(file: Path, rows: pd.DataFrame) -> str:
    """Links to all rows of a paper, from the README."""
    csv = f"docs/reproduction/{file.name}"
    page = f"docs/papers/{file.stem}.md#results"
    return f"{rows['paper_name'].iloc[0]} [{display.count(len(rows), 'row')}]({page}) ([CSV]({csv}))"


def _markdown(frozen: pd.DataFrame, columns: Sequence[str]) -> str:
    rows = [_shown(row) for row in cast(list[dict[str, Any]], frozen.to_dict("records"))]
    rule = ["---:" if column in NUMERIC else "---" for column in columns]
    lines = [columns, rule, *([row[column] for column in columns] for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def read_frozen(file: Path) -> pd.DataFrame:
    """A frozen file: numbers as numbers, all else as text."""
    text = _read_text(file)
    return text.assign(**{column: pd.to_numeric(text[column]) for column in NUMBERS})


def _read_text(file: Path) -> pd.DataFrame:
    """A frozen file as text; a column that it is too old to have is empty."""
    return pd.read_csv(file, dtype=str, keep_default_na=False).reindex(columns=COLUMNS, fill_value="")


def _shown(row: dict[str, Any]) -> dict[str, str]:
    variant = f" ({row['variant']})" if row["variant"] else ""
    unit = f" {row['unit']}" if row["unit"] else ""
    ours = display.with_spread(row["ours"], row["std"], row)
    return {
        "Paper": row["paper_name"],
        "Table": display.title(row["table"]),
        "Setting": display.setting(row) + variant,
        "Method": row["method"],
        "Preset": row["preset"],
        "Model": display.model(row),
        "Metric": display.measure(row["metric"]).replace(" (%)", ""),
        "Ours": f"{ours}{unit}" if ours else "no value",
        "Published": f"{row['printed']}{unit}" if row["printed"] else display.NOTHING,
        "Difference": display.number(row["difference"], row, sign="+"),
        "Seeds": row["seeds"],
        "Ran on": display.ran_on(row),
        "Scale": row["scale"],
        "95 % interval": display.interval(row),
        "Last round": display.number(row["ours_last"], row) or display.NOTHING,
        "Client mean": display.number(row["ours_client_mean"], row) or display.NOTHING,
        "Verdict": "; ".join(filter(None, [display.judged(row), display.diverged(row)])),
    }


def fill(page: Path, table: str) -> None:
    """Put a table between the two marks of a Markdown file; the rest stays as it is."""
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise complain(str(page), "", f"expected the lines {START} and {END}, in this order")
    write_text(page, f"{before}{START}\n{table}{END}{after}")


def freeze_scale(scale: str, root: Path) -> None:
    """Freeze every paper that has results at a scale, and renew the tables of the README and of the papers' pages."""
    if scale not in ("reduced", "paper"):
        raise complain("make freeze", "scale", f"found {scale!r}; allowed: reduced, paper (smoke proves nothing)")
    results = sorted((root / "results" / scale / "reproduction").glob("*.csv"))
    if not results:
        raise complain("make freeze", "", f"there are no results at scale {scale} under results/ to freeze")
    for file in results:
        _check_scale(file, scale)
    for file in results:
        target = root / "docs/reproduction" / file.name
        freeze(file, root, target)
        if words := warning(_read_text(target), target, root):
            print(words, file=sys.stderr)
        page = root / "docs/papers" / f"{file.stem}.md"
        if page.exists():  # a user's own paper may have no page yet
            fill(page, paper_table(target))
    fill(root / "README.md", readme_table(sorted((root / "docs/reproduction").glob("*.csv"))))


def _check_scale(reproduction: Path, scale: str) -> None:
    """Refuse results that were made at another scale than their folder says."""
    rows = read_reproduction(reproduction)
    others = sorted(set(rows.loc[rows["status"] == "run", "scale"]) - {scale})
    if others:
        raise complain(str(reproduction), "scale", f"found rows of {', '.join(others)}; expected {scale} only")


if __name__ == "__main__":
    try:
        freeze_scale(sys.argv[1] if len(sys.argv) > 1 else "paper", Path("."))
    except ConfigError as error:
        sys.exit(f"fedbayes: {error}")
