"""The typed description of everything a user may write in `config/`.

Pydantic models are the source of truth: `config/schema.json` is generated from them, planning checks every YAML file
against them, and a run's identity is the canonical JSON of what they hold. Unknown keys are refused everywhere.

This module imports nothing heavier than pydantic, because Snakemake reads it again for every job.
"""

from __future__ import annotations

from itertools import product
from string import Formatter
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from fedbayes.record import Record
from fedbayes.shifts import NoisyClients
from fedbayes.split_rules import AnySplit, ClassFacts

Scale = Literal["smoke", "reduced", "paper"]
ModelKind = Literal["pm", "gm"]
Personal = Literal["broadcast", "trained", "fine-tuned", "adapted"]


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values, refused if one stands twice: a seed written twice would count as two."""
    twice = [value for at, value in enumerate(values) if value in values[:at]]
    if twice:
        raise ValueError(f"found {twice[0]!r} twice; expected each once")
    return values


Seeds = Annotated[tuple[NonNegativeInt, ...], Field(strict=False, min_length=1), AfterValidator(_once)]
Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1), AfterValidator(_once)]
Models = Annotated[tuple[ModelKind, ...], Field(strict=False, min_length=1), AfterValidator(_once)]
Shown = Annotated[str, Field(pattern=r"^(Table|Figure) \w+$")]

# File names of tables that no paper prints begin with this; an experiment's name follows.
OWN_TABLE = "ours-"


class MethodConfig(Record):
    """Base of every method's `Config`: the fields that change its numbers, each with its symbol and source."""


# For a field that a method gets once there are runs of it: `Field("as before", json_schema_extra=LATER, ...)`. At its
# default it is no part of a run's name, so what ran before keeps its own.
LATER: dict[str, JsonValue] = {"later": True}


class NetworkConfig(Record):
    """Base of every network's `Config`: its sizes, apart from those the data fix."""


# ---------------------------------------------------------------- datasets


class ArrayFacts(ClassFacts):
    """What `fetch` holds the arrays it made against."""

    shape: tuple[PositiveInt, ...] = Field(
        strict=False, description="Shape of one sample: (channel, height, width) of an image, (position,) of a text."
    )
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        None, description="Digest of the arrays `fetch` writes; empty for data whose digest is not known."
    )


class DatasetFacts(ArrayFacts):
    """What planning must know of a dataset without opening it (`config/datasets.yaml`)."""

    title: str = Field(description="Name as people write it, shown in every table.")
    source: str = Field(description="Where the data come from, in words.")
    stand_in_for: str | None = Field(None, description="The dataset this one stands in for, if it is a stand-in.")
    embedded: str | None = Field(None, description="The embedded set that scale `smoke` runs in its place.")
    class_names: tuple[str, ...] | None = Field(
        None, strict=False, description="What the classes are called, in the order of their labels; shown in figures."
    )
    users: int | None = Field(
        None,
        gt=0,
        description="Clients of its papers' split by users, which only the data can count; for estimates alone.",
    )
    by_hand: bool = Field(
        default=False,
        description="Nothing downloads it: whoever has it not could not make its splits, so none is pinned.",
    )

    @model_validator(mode="after")
    def _names_agree(self) -> DatasetFacts:
        if self.class_names is not None and len(self.class_names) != self.classes:
            found = f"class_names has {len(self.class_names)} names"
            raise ValueError(f"{found}; expected one for each of the {self.classes} classes")
        return self

    @property
    def pinned(self) -> bool:
        """Whether its splits are committed: anybody can get the dataset, and its digest says that it is the same."""
        return self.sha256 is not None and not self.by_hand


# ---------------------------------------------------------------- one run


class Preprocess(Record):
    """Stored values to network inputs."""

    kind: Literal["channels", "pixelwise", "as-stored", "vectors"] = Field(
        "channels",
        description="channels: pixels scaled to [0, 1], then (x - mean) / std for each channel; pixelwise: each pixel "
        "by its own mean and deviation over the dataset (FedProx); as-stored: tokens and features as they are; "
        "vectors: tokens to the dataset's frozen word vectors.",
    )
    mean: tuple[float, ...] | None = Field(
        None, strict=False, description="Of `channels`: one value, or one a channel."
    )
    std: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(None, strict=False, description="Likewise.")
    augment: Literal["crop-and-flip"] | None = Field(
        None, description="Random changes of training images: cut out of a padded image, mirrored half of the time."
    )

    @model_validator(mode="after")
    def has_what_its_kind_needs(self) -> Preprocess:
        """Only `channels` has a mean and a deviation, and only images can be cropped."""
        for name in ("mean", "std"):
            if (getattr(self, name) is None) == (self.kind == "channels"):
                raise ValueError(f"{name} belongs to the kind 'channels', which needs it, and to no other")
        if self.augment and self.kind not in ("channels", "pixelwise"):
            raise ValueError(f"augment: {self.augment!r} is for images; the kind is {self.kind!r}")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The plain kind keeps the form, and so runs keep the names, it had before there were others.
        return {k: v for k, v in handler(self).items() if v is not None and v != "channels"}


class Training(Record):
    """Rounds and participation."""

    rounds: PositiveInt = Field(description="T, communication rounds.")
    clients_per_round: PositiveInt = Field(description="S, clients whose uploads the server merges in a round.")
    trains: Literal["selected", "all"] = Field(
        description="Who trains: only the S selected clients, or all of them while S upload."
    )


class Local(Record):
    """Which batches a client sees in one round."""

    batch: PositiveInt = Field(description="b, samples in a batch.")
    amount: PositiveInt = Field(description="R, how many `unit`s a round has.")
    unit: Literal["batches", "epochs"]
    order: Literal["cyclic", "shuffled", "iid", "full"] = Field(
        description="cyclic: the stored order, going on where the last round stopped; shuffled: a new permutation each "
        "epoch; iid: drawn with replacement; full: all data in one batch."
    )


class Protocol(Record):
    """When and which models are tested, and which rounds the paper's number is taken from."""

    models: Models = Field(description="Models tested during training: pm, gm or both.")
    every: PositiveInt = Field(description="Test after every n-th round (and before the first and after the last).")
    pm_every: PositiveInt | None = Field(
        None, description="The same for personal models, where their tests are dear; absent: `every`."
    )
    window: tuple[int, int] = Field(
        strict=False, description="Rounds [first, last] of which the paper prints the best; both ends belong."
    )
    gm_tests: Literal["clients", "whole"] = Field(
        "clients",
        description="What the global model is tested on: the clients' test sets, or the dataset's own test part, once.",
    )
    personal: Personal | None = Field(
        None,
        description="When the personal model is tested. broadcast: after the broadcast, before any local work; "
        "trained: as the client's last training visit left it; fine-tuned: after the broadcast and one local visit "
        "more; adapted: after the broadcast and `adapt_batches`. Absent: as the method's own paper does it.",
    )
    adapt_batches: PositiveInt | None = Field(None, description="Of `adapted`: batches of training data it takes.")
    newcomer: Literal["frozen-shared", "fine-tuned"] | None = Field(
        None,
        description="How a client that was not in training comes to its model. frozen-shared: it trains its private "
        "part alone; fine-tuned: an ordinary local visit. Absent: as the method's own paper does it.",
    )
    newcomer_visits: PositiveInt = Field(
        1, description="Local visits of a client that was not in training, before it is tested; what is shared stays."
    )
    keep: tuple[NonNegativeInt, ...] = Field(
        (), strict=False, description="Rounds whose states are kept, and evaluated beside the best and the last one."
    )
    on_training: bool = Field(
        default=False,
        description="Whether the models are tested on the clients' own training samples, too: condition `train`.",
    )

    @model_validator(mode="after")
    def has_batches_to_adapt_on(self) -> Protocol:
        """Only `adapted` takes a number of batches, and needs it."""
        if (self.personal == "adapted") != (self.adapt_batches is not None):
            raise ValueError("adapt_batches belongs to `personal: adapted`, which needs it, and to no other")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What has a default is left out where it has that: runs keep the names they had before there was the key.
        fields = type(self).model_fields
        return {key: value for key, value in handler(self).items() if getattr(self, key) != fields[key].default}


class NetworkChoice(BaseModel):
    """A network by file name under `src/fedbayes/models/`; the other keys are its own `Config`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


# ---------------------------------------------------------------- a paper


class Place(NamedTuple):
    """One printed number of each method in a setting: how `config/published.csv` names it, and what ours is tested on.

    Attributes:
        dataset: column `dataset` there; empty for a setting the paper does not have.
        setting: column `setting` there.
        condition: the condition of the test whose value stands beside the printed number.
    """

    dataset: str = ""
    setting: str = ""
    condition: str = "clean"


class PublishedKey(Record):
    """How `config/published.csv` names what a setting reproduces."""

    dataset: str
    setting: str = Field(description="May hold the names of `conditions` in braces: `state {state}, device {device}`.")
    conditions: dict[str, Names] = Field(
        default_factory=dict,
        description="What the names in braces stand for. Each combination is a printed number of its own, beside which "
        "stands ours under the condition that joins the values: `normal-A`. Absent: one number, all test samples.",
    )

    @model_validator(mode="after")
    def has_what_its_braces_name(self) -> PublishedKey:
        """Every name in braces has its values, and no others are given."""
        named = {name for _, name, _, _ in Formatter().parse(self.setting) if name is not None}
        if named != set(self.conditions):
            found = f"found {sorted(self.conditions)}; expected the names in braces in `setting`: {sorted(named)}"
            raise ValueError(f"conditions: {found}")
        return self

    def places(self) -> tuple[Place, ...]:
        """The printed numbers, by combination of conditions."""
        if not self.conditions:
            return (Place(self.dataset, self.setting),)
        combined = [dict(zip(self.conditions, values, strict=True)) for values in product(*self.conditions.values())]
        return tuple(Place(self.dataset, self.setting.format(**each), "-".join(each.values())) for each in combined)


class Setting(Record):
    """One column of a table: a dataset, how it is split and how clients' inputs are shifted."""

    title: str
    published: PublishedKey | None = Field(None, description="Empty for a setting the paper does not have.")
    dataset: str
    split: AnySplit
    shift: NoisyClients | None = Field(None, description="How clients' inputs differ; absent: they are as fetched.")
    outsiders: str | None = Field(
        None, description="A dataset of other classes that the global model is shown when it is evaluated."
    )
    training: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `training`.")
    local: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `local`.")
    protocol: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `protocol`.")
    methods: Names | None = Field(None, description="Methods run in this setting; absent means all.")
    set: dict[str, Any] = Field(
        default_factory=dict, description="Fields of its methods that this setting changes, as tables of tuning do."
    )
    variant: str = Field("", description="How this reading of the paper differs from the main one; empty for that.")

    def places(self) -> tuple[Place, ...]:
        """The printed numbers that a run in this setting stands beside; one without names if there are none."""
        return self.published.places() if self.published else (Place(),)


class MethodEntry(Record):
    """One row of a table: a method, its presets and what this paper sets differently."""

    method: str = Field(description="File name under `src/fedbayes/methods/`.")
    presets: Names = Field(("paper",), description="Presets to run, each its own row.")
    set: dict[str, Any] = Field(default_factory=dict, description="Fields of the method this paper sets itself.")
    training: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `training`.")
    local: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `local`.")
    protocol: dict[str, Any] = Field(default_factory=dict, description="Changes to the experiment's `protocol`.")
    warm_start: str | None = Field(
        None,
        description="Another method of the experiment: this one begins with the global weights that run ended with, "
        "instead of initial ones.",
    )


class Baseline(Record):
    """The run that metrics such as relative false accepts are relative to, on the same dataset and seed."""

    experiment: str
    method: str


class Experiment(Record):
    """A table or figure of a paper: settings (columns) x methods (rows), everything else shared."""

    title: str
    shows: tuple[Shown, ...] = Field(strict=False, description="Tables and figures of the paper made from it.")
    published_table: str | None = Field(
        None,
        description="`table` column of `config/published.csv`; empty where the paper prints no number, as in figures: "
        "the experiment then has a table of its own, unless it is another one's `baseline`.",
    )
    model: NetworkChoice
    preprocess: Preprocess
    training: Training
    local: Local
    protocol: Protocol
    settings: dict[str, Setting]
    methods: dict[str, MethodEntry] = Field(description="Keyed by the method's name as the paper prints it.")
    baseline: Baseline | None = Field(None, description="What relative metrics compare with; absent: none are made.")


class Changes(Record):
    """What a scale changes of splits, of how runs train and are tested, and of methods' fields."""

    split: dict[str, Any] = Field(
        default_factory=dict,
        description="Changes to splits: `clients: 20` wherever a rule has it, `labels: {clients: 20}` of one rule.",
    )
    training: dict[str, Any] = Field(default_factory=dict)
    local: dict[str, Any] = Field(default_factory=dict)
    protocol: dict[str, Any] = Field(default_factory=dict)
    set: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Changes to methods' fields, by method: `pfedgp: {chains: 2}`."
    )


class Only(Record):
    """Which part of an experiment a scale runs; what is absent limits nothing."""

    settings: tuple[str, ...] | None = Field(None, strict=False)
    methods: tuple[str, ...] | None = Field(None, strict=False)
    presets: PositiveInt | None = Field(None, description="So many presets of each method, the first ones.")


class ScaleChanges(Changes):
    """What a reduced scale changes. Every change shows up in the tables' `reduction` column by itself."""

    seeds: Seeds
    embedded_data: bool = Field(
        default=False, description="Run the embedded set of each dataset instead of the dataset."
    )
    experiments: dict[str, Changes] = Field(
        default_factory=dict, description="Changes to single experiments, which win over those to all of them."
    )
    only: dict[str, Only] = Field(default_factory=dict)

    def of(self, experiment: str) -> tuple[Changes, Changes]:
        """What it changes of one experiment: what it changes of all, then of this one alone."""
        return self, self.experiments.get(experiment, Changes())


class PaperScale(Record):
    """Scale `paper` changes nothing: it may only say which seeds to run."""

    seeds: Seeds


class Scales(Record):
    """The three scales of a paper."""

    smoke: ScaleChanges
    reduced: ScaleChanges
    paper: PaperScale


class Paper(Record):
    """`config/papers/<paper>.yaml`: reads like the experimental section of the paper."""

    name: str = Field(description="The method's name, as the `paper` column of `config/published.csv` writes it.")
    title: str
    citation: str
    url: str
    experiments: dict[str, Experiment]
    scales: Scales


class MethodPresets(Record):
    """`config/methods/<method>.yaml`: named sets of values, each value with its source in a comment."""

    title: str = Field(description="Name as people write it.")
    presets: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def has_both_presets(self) -> MethodPresets:
        """Every method says what its text says and what its public code does."""
        missing = {"paper", "reference"} - set(self.presets)
        if missing:
            raise ValueError(f"needs the presets 'paper' and 'reference'; {sorted(missing)[0]!r} is missing")
        return self


# ---------------------------------------------------------------- what to run


class Execution(Record):
    """Where and how jobs run. Nothing here changes a run's name."""

    # Not strict: Snakemake hands over values of --config as text.
    model_config = ConfigDict(strict=False)

    device: str = Field(
        "cpu",
        pattern=r"^(auto|cpu|mps|cuda(:(0|[1-9]\d*))?)$",
        description="auto, cpu, mps, cuda or cuda:N; every job has a GPU to itself.",
    )
    data_root: str | None = Field(
        None, description="Folder in torchvision's layout; the variable FEDBAYES_DATA is used where this is empty."
    )
    checkpoint_seconds: Annotated[float, Field(ge=0)] = Field(
        60.0, description="Least time between two checkpoints of a run; 0 writes one every round."
    )
    slurm_patience_seconds: Annotated[float, Field(gt=0)] = Field(
        1800.0, description="How long a SLURM that does not answer is waited for before Snakemake ends."
    )
    lift: Literal["auto", "vmap", "loop"] = Field("auto", description="How clients are lifted over a batch axis.")
    compile: bool | Literal["auto"] = Field("auto", description="Whether the steps of a run are compiled.")
    chunk: PositiveInt | None = Field(None, description="Clients in memory at once; empty means all.")

    @property
    def gpus(self) -> int:
        """GPUs that a job is known to claim: none for `auto`, because who plans cannot know what is where jobs run."""
        return 0 if self.device in ("auto", "cpu") else 1


class Config(Record):
    """`config/config.yaml`: what to run."""

    model_config = ConfigDict(strict=False)  # as above

    scale: Scale = "smoke"
    papers: Names
    experiments: Names | None = Field(None, description="These experiments of the papers alone; absent: all.")
    seeds: Seeds | None = Field(None, description="Instead of the scale's own.")
    execution: Execution = Field(default_factory=lambda: Execution())
