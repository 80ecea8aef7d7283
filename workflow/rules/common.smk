# The plan, wildcard constraints and input functions. What grows beyond that belongs to fedbayes.plan, where it is tested.
import sys
from functools import cache
from typing import get_args

from fedbayes.asked import cells_asked, check_asked, folders_asked, tables_asked
from fedbayes.codedigest import code_digest
from fedbayes.config import ArrayFacts, Scale
from fedbayes.costs import Rates, summary
from fedbayes.job_requests import memory_mb, minutes
from fedbayes.plan import ConfigError, load_plan
from fedbayes.receipts import due, missed_words
from fedbayes.slurm_guard import guard
from fedbayes.tracking_uri import store_name, tracking_uri

try:
    PLAN = load_plan(config, ROOT)
except ConfigError as error:
    # One sentence for the user; a traceback would hide it.
    sys.exit(f"fedbayes: {error}")

RATES = Rates.read(ROOT)

# Once, before anything starts and in a dry run: not in the sub-process of every job. Only the linter leaves variables of
# the environment unchecked.
if workflow.is_main_process and workflow.check_envvars:
    print(summary(PLAN, RATES, Path()), file=sys.stderr)
    guard(PLAN.config.execution.slurm_patience_seconds)

# Scripts read this part of the configuration, with every default filled in.
config["execution"] = PLAN.config.execution.model_dump()
SCALE = PLAN.config.scale
STORE = store_name(tracking_uri())
DATABASE = ["mlflow.db"] if STORE == "local" else []
RECEIPTS = f"results/tracking/{STORE}"
FETCHED = {"inputs": "inputs.npy", "labels": "labels.npy", "tables": "tables.npz", "manifest": "manifest.json"}


wildcard_constraints:
    dataset="|".join(PLAN.datasets),
    method="[a-z0-9_]+",
    run="[0-9a-f]{12}",
    root="data|results/splits",
    split="[A-Za-z0-9_.-]+",
    shift="[A-Za-z0-9_.-]+",
    seed=r"\d+",
    # The plan holds one scale at a time; rule `other_scale` says so.
    scale=SCALE,
    other="|".join(name for name in get_args(Scale) if name != SCALE),
    paper="|".join(PLAN.papers),
    # Printed ones, and those of experiments whose numbers the paper does not print.
    table=r"table[a-z0-9]+|ours-[a-z0-9-]+",
    figure=r"figure[a-z0-9]+",
    again=r"|\.\d+",
    picture="|".join(name for pictures in PLAN.split_pictures.values() for name in pictures),


def split_of(wildcards):
    """The specification of a split file."""
    return PLAN.splits[f"{wildcards.root}/{wildcards.dataset}/{wildcards.split}/seed{wildcards.seed}.npz"]


def ask_for_scale(wildcards):
    """Stop at a file of another scale with what to add to the command."""
    file, scale = f"results/{wildcards.other}/{wildcards.file}", wildcards.other
    # Not an exception, here and below: Snakemake would put the sentence into a traceback.
    sys.exit(f"fedbayes: {file} is of scale {scale}, and this plan is of scale {SCALE}: add --config scale={scale}")


def run_of(wildcards):
    """The run a path belongs to."""
    if wildcards.run not in PLAN.runs:
        sys.exit(
            f"fedbayes: run {wildcards.run} is not in the plan of scale {SCALE}: a run of another scale is asked for "
            "together with --config scale=<scale>, one of other papers, experiments or seeds together with those"
        )
    return PLAN.runs[wildcards.run]


def cost_of(wildcards):
    """What a run is expected to take."""
    return RATES.cost(PLAN, run_of(wildcards))


def shifted_run(wildcards):
    """A run that needs a file of shifted samples."""
    where = f"{wildcards.dataset}/{wildcards.split}/{wildcards.shift}"
    return PLAN.shifts[f"results/shifts/{where}/seed{wildcards.seed}.npz"]


def shift_file(wildcards):
    """The shifted samples of a run, if it has a shift."""
    found = run_of(wildcards).shift_file
    return ancient(found) if found else []


def start_file(wildcards):
    """The state that a run begins with, if it has a warm start."""
    return PLAN.start_file(run_of(wildcards)) or []


def dataset_files(wildcards):
    """What `fetch` made: taken as it is where a digest answers for it, and looked at for its age where none does."""
    files = {name: f"resources/{wildcards.dataset}/{file}" for name, file in FETCHED.items()}
    known = PLAN.datasets[wildcards.dataset].sha256 is not None
    return {name: ancient(file) if known else file for name, file in files.items()}


def outsider_files(wildcards):
    """What `fetch` made of the outsiders that a run's global model is shown, if there are any."""
    name = PLAN.outsiders.get(wildcards.run)
    return [ancient(f"resources/{name}/{file}") for file in FETCHED.values()] if name else []


@cache
def asked():
    """The tables that are asked for by their file names, by paper; known once the command line has been read."""
    tables = tables_asked(workflow.dag_settings.targets, SCALE)
    try:
        check_asked(PLAN, tables)
    except ConfigError as error:
        sys.exit(f"fedbayes: {error}")
    return tables


def artefacts(paper, name):
    """A file of every run of a paper; of those that its tables need where tables are asked for by their names."""
    return [f"{folder}/{name}" for folder in folders_asked(PLAN, paper, asked(), Path())]


def shown(kind, pattern, papers=tuple(PLAN.papers)):
    """The files of every table or figure of the given papers."""
    return [
        str(pattern).format(scale=SCALE, paper=paper, **{kind.lower(): name})
        for paper in papers
        for name in PLAN.shown(paper, kind)
    ]


@cache
def planned_at_paper(paper):
    """The cells of a paper at scale paper, all experiments, one seed: tables and figures say what of them did not run."""
    whole = load_plan(config | {"scale": "paper", "papers": [paper], "experiments": None, "seeds": [0]}, ROOT)
    columns = ["experiment", "setting", "variant", "method", "preset"]
    columns += ["published_table", "published_dataset", "published_setting"]
    return [{column: getattr(cell, column) for column in columns} for cell in whole.cells]


def picture_of(wildcards):
    """The client split a picture shows."""
    return PLAN.split_pictures[wildcards.paper][wildcards.picture]


def pictured(pattern, papers=tuple(PLAN.papers)):
    """The picture of every client split of the given papers."""
    return [
        str(pattern).format(scale=SCALE, paper=paper, picture=name)
        for paper in papers
        for name in PLAN.split_pictures[paper]
    ]


def pictured_by_setting(pattern, paper):
    """The same for one paper, by `<experiment>/<setting>`."""
    pictures = PLAN.split_pictures[paper].values()
    return {
        key: file for picture, file in zip(pictures, pictured(pattern, [paper]), strict=True) for key in picture.titles
    }


def paper_info(paper):
    """What MLflow shows of a paper."""
    header = PLAN.headers[paper]
    return {"key": paper, "title": header["title"], "citation": header["citation"], "url": header["url"]}


@cache
def receipts_of(paper):
    """What proves that the runs of a paper have been published.

    Receipts that say `missed` are files of finished jobs: the next one is asked for instead. The names stay what they
    were when jobs were planned.
    """
    batches = [batch for batch, cells in PLAN.tracking_batches.items() if cells[0].paper == paper]
    return [due(f"{RECEIPTS}/{SCALE}/{batch}.json") for batch in batches]


@cache
def tracking_receipts():
    """The same for all papers, and for their means."""
    runs = [receipt for paper in PLAN.papers for receipt in receipts_of(paper)]
    return runs + [due(f"{RECEIPTS}/{SCALE}/means-{paper}.json") for paper in PLAN.papers]


def closing_words():
    """What a finished reproduction says: its table, where the report is, and what MLflow has not got."""
    page = Path("results") / SCALE / "report" / "index.html"
    summary = page.parent.with_name("summary.txt")
    done = [f"{summary.read_text()}\nReport: {page}"] if page.exists() and summary.exists() else []
    return "\n".join(done + [words for words in [missed_words(tracking_receipts())] if words])
