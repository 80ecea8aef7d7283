"""A real SLURM cluster on loopback, for as long as a test session: several virtual nodes on one machine.

Controller, node daemons, accounting database and authentication are Debian's own programs with all their files in one
folder. Memory is enforced, jobs are requeued when their node fails, and partition `urgent` preempts partition `main`.
Everything is taken down by the pid files in that folder; no process is ever looked for by its name alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psutil

PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "sbatch", "munged", "mariadbd", "mariadb-install-db")
# The inner srun of Snakemake's job step drops SLURM_CONF, so the usual place must lead to our files.
USUAL_PLACE = Path("/etc/slurm")
LINKED = ("slurm.conf", "gres.conf", "slurmdbd.conf")
NODE_MEMORY_MB = 12000
# One for the machine, as the usual place is, whatever TMPDIR a session has.
LOCK = Path("/tmp/fedbayes-test-cluster.lock")
# Says that a folder is a test cluster's.
MARK = "fedbayes-test-cluster"


def why_not() -> str | None:
    """Why a cluster cannot be started here, or None if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        packages = "slurm-wlm munge slurmdbd mariadb-server"
        return f"needs {', '.join(missing)} (Debian: apt-get install {packages})"
    if os.geteuid() != 0:
        return "needs root: SLURM's daemons start jobs as other users"
    foreign = [name for name in LINKED if _is_foreign(USUAL_PLACE / name)]
    return f"{USUAL_PLACE} belongs to a cluster of this machine's own ({', '.join(foreign)})" if foreign else None


def search_path() -> str:
    """PATH with the places of daemons, which a user's often lacks."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _is_foreign(file: Path) -> bool:
    """Whether a configuration file is there that no test of ours left behind."""
    return file.exists() and not (file.is_symlink() and (file.resolve().parent / MARK).exists())


@contextlib.contextmanager
def only_one(patience: float = 0) -> Iterator[bool]:
    """Whether no other test session on this machine has a cluster; while it is ours, others see that.

    Args:
        patience: seconds to wait for the others.
    """
    with LOCK.open("w") as handle:
        yield _locked(handle, time.monotonic() + patience)


def _locked(handle: IO[str], end: float) -> bool:
    """Lock a file, for which others have until `end` to let go of it."""
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(1)
        else:
            return True


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has, below those that the kernel gives to whoever asks for any: daemons bind them later."""
    free: list[int] = []
    while len(free) < count:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("127.0.0.1", port))
            free += [] if port in free else [port]
    return free


def wait_for(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds; fail with its name if it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


class Cluster:
    """The daemons of a cluster whose files are in `folder`."""

    def __init__(self, folder: Path, nodes: int = 4, cpus: int = 2) -> None:
        self.folder, self.nodes = folder, [f"n{i + 1}" for i in range(nodes)]
        self.cpus = cpus
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": search_path()}
        self.environment = os.environ | self.variables
        controller, database, storage, *self.node_ports = _free_ports(3 + nodes)
        self._write_configuration(controller, database, storage)

    # Configuration

    def _write_configuration(self, controller: int, database: int, storage: int) -> None:
        f = self.folder
        (f / "state").mkdir(parents=True)
        (f / MARK).touch()
        nodes = "\n".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus} "
            f"RealMemory={NODE_MEMORY_MB} Gres=gpu:2 State=UNKNOWN"
            for name, port in zip(self.nodes, self.node_ports, strict=True)
        )
        (f / "slurm.conf").write_text(
            f"""ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={f}/state
SlurmdSpoolDir={f}/spool.%n
SlurmctldPidFile={f}/slurmctld.pid
SlurmdPidFile={f}/slurmd.%n.pid
SlurmctldLogFile={f}/slurmctld.log
SlurmdLogFile={f}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={database}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,sched_interval=2,bf_interval=2
SlurmdTimeout=10
KillWait=10
MinJobAge=300
FirstJobId={random.randrange(1_000_000, 60_000_000)}
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=0
GresTypes=gpu
AccountingStorageTRES=gres/gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
        )
        # Two devices that every machine has stand for GPUs; SLURM counts them and hands out their numbers.
        (f / "gres.conf").write_text("Name=gpu File=/dev/zero\nName=gpu File=/dev/null\n")
        (f / "slurmdbd.conf").write_text(
            f"""AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass=loopback
StorageLoc=slurm
LogFile={f}/slurmdbd.log
PidFile={f}/slurmdbd.pid
"""
        )
        (f / "slurmdbd.conf").chmod(0o600)
        (f / "my.cnf").write_text(
            f"""[mariadbd]
datadir={f}/mysql
socket={f}/mysql.sock
pid-file={f}/mariadbd.pid
bind-address=127.0.0.1
port={storage}
innodb_buffer_pool_size=64M
innodb_log_file_size=16M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=2
skip-log-bin
"""
        )

    # Daemons

    def start(self) -> None:
        """Start everything and wait until all nodes are idle."""
        _take_down_leftover()
        self._link_usual_place()
        self._start_munge()
        self._start_database()
        self.start_controller()
        for name in self.nodes:
            self.start_node_daemon(name)
        wait_for("all nodes idle", lambda: self.idle_nodes() == len(self.nodes))

    def stop(self) -> None:
        """Stop everything."""
        _take_down(self.folder)
        _unlink_usual_place()

    def _link_usual_place(self) -> None:
        USUAL_PLACE.mkdir(exist_ok=True)
        _unlink_usual_place()
        for name in LINKED:
            (USUAL_PLACE / name).symlink_to(self.folder / name)

    def _start_munge(self) -> None:
        """Authentication: the machine's own where it runs, else one that is ours to stop."""
        if self.run("munge", "-n", check=False).returncode == 0:
            return
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge", "munge")
        self.run("runuser", "-u", "munge", "--", "munged", "--force")
        shutil.copy("/run/munge/munged.pid", self.folder / "munged.pid")

    def _start_database(self) -> None:
        f = self.folder
        shutil.chown(f, "mysql")
        (f / "mysql").mkdir()
        shutil.chown(f / "mysql", "mysql")
        defaults = f"--defaults-file={f}/my.cnf"
        self.run("mariadb-install-db", defaults, "--user=mysql", "--auth-root-authentication-method=normal")
        with (f / "mariadbd.log").open("w") as log:
            subprocess.Popen(
                ["mariadbd", defaults, "--user=mysql"],
                stdout=log, stderr=log, env=self.environment, start_new_session=True,
            )  # fmt: skip
        reach = ("-S", f"{f}/mysql.sock", "-u", "root")
        wait_for("mariadbd answers", lambda: self.run("mariadb-admin", *reach, "ping", check=False).returncode == 0)
        users = " ".join(
            f"create user slurm@'{host}' identified by 'loopback'; grant all on slurm.* to slurm@'{host}';"
            for host in ("127.0.0.1", "localhost")
        )
        self.run("mariadb", *reach, "-e", f"create database slurm; {users}")
        self.run("slurmdbd")
        wait_for("slurmdbd answers", lambda: self.run("sacctmgr", "-n", "show", "cluster", check=False).returncode == 0)
        for what in (
            ("cluster", "loopback"),
            ("account", "tests", "cluster=loopback"),
            ("user", "root", "account=tests"),
        ):
            self.run("sacctmgr", "-i", "add", *what)

    def start_controller(self) -> None:
        """Start the controller and wait until it answers."""
        self.run("slurmctld")
        wait_for("slurmctld answers", lambda: " is UP" in self.run("scontrol", "ping", check=False).stdout)

    def stop_controller(self) -> None:
        """Crash the controller."""
        self._kill("slurmctld")

    def stop_database_daemon(self) -> None:
        """Crash the daemon that `sacct` asks."""
        self._kill("slurmdbd")

    def start_database_daemon(self) -> None:
        """Start it again."""
        self.run("slurmdbd")

    def start_node_daemon(self, node: str) -> None:
        """Start the daemon of a node (again)."""
        (self.folder / f"spool.{node}").mkdir(exist_ok=True)
        self.run("slurmd", "-N", node)

    def kill_node_daemon(self, node: str) -> None:
        """Crash a node's daemon alone: what runs there lives on, and SLURM believes it lost."""
        self._kill(f"slurmd.{node}")

    def crash_node(self, node: str) -> None:
        """Crash a node: its daemon and every process of the jobs on it, all at once."""
        self.kill_node_daemon(node)
        _kill_jobs(self.folder / f"spool.{node}")

    def restore(self) -> None:
        """End all jobs and bring back every daemon that a test has crashed."""
        for daemon, start in (("slurmdbd", self.start_database_daemon), ("slurmctld", self.start_controller)):
            if self._daemon(daemon) is None:
                start()
        for job in self.jobs("PENDING", "RUNNING", "COMPLETING"):
            self.run("scancel", job, check=False)
        for name in self.nodes:
            if self._daemon(f"slurmd.{name}") is None:
                self.start_node_daemon(name)
        wait_for("all nodes idle", lambda: self.idle_nodes() == len(self.nodes), 90)

    # Looking

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command with this cluster's configuration."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done

    def idle_nodes(self) -> int:
        """Nodes that wait for work."""
        return len([n for n in self.run("sinfo", "-h", "-N", "-t", "idle", "-p", "main", "-o", "%N").stdout.split()])

    def jobs(self, *states: str) -> dict[str, str]:
        """Jobs in some states by id, with their nodes."""
        lines = self.run("squeue", "-h", "-t", ",".join(states), "-o", "%i %N").stdout.splitlines()
        return {words[0]: words[1] if len(words) > 1 else "" for line in lines if (words := line.split())}

    def start_now(self, job: str) -> None:
        """Let a requeued job start without the two minutes that SLURM gives a node to come to rest."""
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)

    @staticmethod
    def processes_of(job: str) -> list[psutil.Process]:
        """All processes of a job: SLURM's step daemons, which carry its id in their title, and what they started."""
        steps = []
        for process in psutil.process_iter(["cmdline"]):
            title = " ".join(process.info["cmdline"] or ())
            if title.startswith(f"slurmstepd: [{job}."):
                steps.append(process)
        return [*steps, *(child for step in steps for child in _children(step))]

    def _daemon(self, name: str) -> psutil.Process | None:
        return _alive(self.folder / f"{name}.pid")

    def _kill(self, name: str) -> None:
        assert self._daemon(name) is not None, f"{name} is not there to be killed"
        _kill(self.folder / f"{name}.pid")


def _alive(pid_file: Path) -> psutil.Process | None:
    """A daemon by its pid file, if it is alive and the program it should be."""
    try:
        process = psutil.Process(int(pid_file.read_text()))
        is_it = process.name().startswith(pid_file.name.split(".")[0][:15])
        return process if is_it and process.status() != psutil.STATUS_ZOMBIE else None
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None


def _take_down(folder: Path) -> None:
    """SIGKILL every daemon of a cluster, those that others report to last, and then all jobs, which nobody requeues."""
    order = ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged")
    for file in sorted(folder.glob("*.pid"), key=lambda file: order.index(file.name.split(".")[0])):
        _kill(file)
    for spool in folder.glob("spool.*"):
        _kill_jobs(spool)


def _kill_jobs(spool: Path) -> None:
    """SIGKILL all processes of the jobs on a node, frozen ones too.

    SLURM's step daemons have sockets there, `<node>_<job>.<step>`; the controller may be gone and cannot be asked.
    """
    jobs = {file.name.split("_")[1].split(".")[0] for file in spool.glob("*_*.*") if file.is_socket()}
    for process in [process for job in jobs for process in Cluster.processes_of(job)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _kill(pid_file: Path) -> None:
    """SIGKILL a daemon and wait until it is gone; whether anybody asks for its exit code does not matter."""
    if process := _alive(pid_file):
        process.kill()
        wait_for(f"{pid_file.name} is gone", lambda: _alive(pid_file) is None, 10)


def _take_down_leftover() -> None:
    """Remove the cluster of an earlier session that was killed: its links lead there, and nobody holds its lock."""
    left = (USUAL_PLACE / "slurm.conf").resolve().parent
    if (left / MARK).exists():
        _take_down(left)
        shutil.rmtree(left, ignore_errors=True)


def _unlink_usual_place() -> None:
    for name in LINKED:
        (USUAL_PLACE / name).unlink(missing_ok=True)


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def main() -> None:
    """`python tests/slurm/cluster.py`: a cluster to try things on, until Ctrl-C."""
    if reason := why_not():
        sys.exit(f"a SLURM cluster {reason}")
    with only_one() as free:
        if not free:
            sys.exit("another test cluster is up on this machine")
        _serve()


def _serve() -> None:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        cluster.start()
        print(
            f"{cluster.run('sinfo').stdout}In another terminal: snakemake --profile slurm. Ctrl-C ends it.", flush=True
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        cluster.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
