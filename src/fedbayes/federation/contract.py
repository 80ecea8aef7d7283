"""What a method is: pure functions for one client, and the small records they exchange with the engine.

A method is written for *one* client, as its paper writes it; the engine lifts it over the cohort (`cohort.py`). All
state is NamedTuples and dicts of tensors. Client code never sees the server's state: what travels is `Down` and `Up`,
so communication is counted from what is really sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from torch import Tensor

# A 0-dim int64 tensor that names a stream of random numbers; see rng.py.
Key: TypeAlias = Tensor
# Trees of tensors (NamedTuples and dicts) whose shape is the method's own business.
Tree: TypeAlias = Any
Server: TypeAlias = Tree  # what the server keeps between rounds
Client: TypeAlias = Tree  # what a client keeps between rounds
Down: TypeAlias = Tree  # what the server sends to a client
Up: TypeAlias = Tree  # what a client sends to the server
Info: TypeAlias = Tree  # what a client reports of a visit, for the log only
Work: TypeAlias = Tree  # a visit in progress
Model: TypeAlias = Tree  # whatever `predict` needs


class Facts(NamedTuple):
    """What a client knows of itself without looking at its data. All are tensors, one entry a client."""

    id: Tensor  # index of the client in the population
    size: Tensor  # n_i, number of training samples
    counts: Tensor  # training samples of each class
    round: Tensor  # number of rounds completed before this one
    batch: Tensor  # samples in a whole batch of the experiment's feed
    steps: Tensor  # steps that the experiment's feed gives a visit


class Batch(NamedTuple):
    """Samples of one step, to be read only: `x` may be a view of the dataset itself.

    A feed with `draws` > 1 adds a leading axis to all three.
    """

    x: Tensor
    y: Tensor
    mask: Tensor  # 1 for a real sample, 0 for padding


def drawn(batch: Batch, number: int) -> Batch:
    """One of the batches of a feed with several draws."""
    return Batch(*(part[number] for part in batch))


class Cohort(NamedTuple):
    """Whose messages the server merges."""

    ids: Tensor
    sizes: Tensor
    population: int
    trained: int  # clients of the population that ever train: all but newcomers
    unlabeled: Tensor | None = None  # inputs that the server holds itself, where the split gives it some


class Feed(NamedTuple):
    """Which batches a phase sees (the fields are those of `config.Local`)."""

    batch: int
    amount: int
    unit: Literal["batches", "epochs"] = "batches"
    order: Literal["cyclic", "shuffled", "iid", "full"] = "cyclic"
    draws: int = 1
    split: Literal["train", "test"] = "train"


class Phase(NamedTuple):
    """Steps of one kind at a client."""

    step: Callable[[Work, Batch, Key], Work]
    feed: Callable[[Feed], Feed] | None = None  # this phase's batches, made from the experiment's; None: those
    length: Callable[[Work], Tensor] | None = None  # a number of steps that depends on the client's state
    done: Callable[[Work], Tensor] | None = None  # whether further steps would change nothing and may be left out


class Visit(NamedTuple):
    """What happens at one client: begin, steps, end. A fold, so that a single step can be lifted and compiled.

    All visits of a method share one kind of `Work`: the engine may end a training visit with the models of `adapt`.
    """

    begin: Callable[[Down, Client, Facts, Key], Work]
    phases: tuple[Phase, ...]
    end: Callable[[Work], Tree]


class Method(NamedTuple):
    """A federated method, built for one network and one configuration."""

    init: Callable[[Key, int], Server]
    join: Callable[[Server, Facts, Key], Client]
    send: Callable[[Server, Tensor], Down]
    train: Visit  # end gives (Client, Up, Info)
    merge: Callable[[Server, Up, Cohort, Key], Server]
    adapt: Visit  # end gives models by name: `pm`, and others to report beside it or beside `gm`, as `pm-mean`
    newcomer: Visit  # how a client that joined after training comes to its models; ends as `adapt` does
    common: Callable[[Server], Model] | None  # the global model; None where the method has none
    predict: Callable[[Model, Tensor, Key], Tensor]  # probabilities [draw, sample, class]
    traceable: bool = True  # False: cannot be vmapped, always the loop
    traits: Callable[[Client], dict[str, Tensor]] | None = None  # scalars to record of each client's state at the end
    per_visit: tuple[str, ...] = ()  # reports of `Info` to keep of every visit, not only as their mean over clients
    freezes_shared: bool = False  # whether `newcomer` trains a private part and leaves what is shared alone
    # What of a client's `pm` must be stored, where the rest can be made of that anew; None: all of it.
    stored: Callable[[Model], Tree] | None = None
    # A sentence on what a run will cost, shown before it starts: by all clients' sizes,
    # of training and of test samples, and how many train in a round.
    notice: Callable[[Tensor, Tensor, int], str] | None = None
