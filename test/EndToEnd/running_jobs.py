# Jobs of several ranks while they run: where a rank is, and what befalls it.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts the ranks of a job and catches one of them at a chosen moment of a step.

A rank is stopped for moments until its main thread is where it is wanted: the
address at which it stands is in a kernel, whose operations say whether this is
forward, backward or the optimizer; or it sleeps in a system call, which it does
where it waits for others; or a checkpoint is half written. Such stops are too
short for an alarm, and no switch of the product is needed."""

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

import heddle_test as h

# The smallest and largest stop of a rank that is sampled, in seconds.
SLICE = 0.001, 0.02


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def share_of_a_core():
    """The part of a short moment in which this process ran when it wanted to."""
    begin, before = time.monotonic(), time.thread_time()
    while time.thread_time() - before < 0.001:
        pass
    return (time.thread_time() - before) / (time.monotonic() - begin)


def wait_until(holds, seconds):
    """Whether it holds within this time, of which what the machine's other work takes
    is left out."""
    while not holds():
        if seconds <= 0:
            return False
        begin, share = time.monotonic(), share_of_a_core()
        time.sleep(0.02)
        seconds -= share * (time.monotonic() - begin)
    return True


def descendants(pid):
    """A process's children and theirs."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


class Kernels:
    """Where a binary's kernels stand in its image, and what they compute."""

    def __init__(self, binary):
        explained = json.loads(h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)
        self.operations = {kernel["name"]: kernel["ops"]
                           for kernel in explained["kernels"]}
        with open(binary, "rb") as file:
            self.image = self.section(file.read(), b".heddle.kernels")
        self.entry = next(address for kind, flags, address in self.segments()
                          if kind == 1 and flags & 1)
        self.symbols = sorted(self.read_symbols())

    @staticmethod
    def headers(elf):
        """The section headers: name, offset, size, link, entry size."""
        (offset,) = struct.unpack_from("<Q", elf, 40)
        size, count, names = struct.unpack_from("<HHH", elf, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size)
                for i in range(count)]
        start = rows[names][4]
        return [(elf[start + row[0]:elf.index(b"\0", start + row[0])], row)
                for row in rows]

    @classmethod
    def section(cls, elf, name):
        row = dict(cls.headers(elf))[name]
        return elf[row[4]:row[4] + row[5]]

    def segments(self):
        (offset,) = struct.unpack_from("<Q", self.image, 32)
        size, count = struct.unpack_from("<HH", self.image, 54)
        for i in range(count):
            kind, flags, _, address = struct.unpack_from("<IIQQ", self.image,
                                                         offset + i * size)
            yield kind, flags, address

    def read_symbols(self):
        table = self.section(self.image, b".dynsym")
        names = self.section(self.image, b".dynstr")
        for at in range(0, len(table), 24):
            name, _, _, _, address, _ = struct.unpack_from("<IBBHQQ", table, at)
            text = names[name:names.index(b"\0", name)].decode()
            if text in self.operations:
                yield address, text

    def phase_at(self, pid, address):
        """forward, backward, optimizer, or None outside of the kernels."""
        with open(f"/proc/{pid}/maps") as file:
            maps = [line.split() for line in file]
        for fields in maps:  # The only code that is of no file.
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            if fields[1] != "r-xp" or len(fields) > 5 or not begin <= address < end:
                continue
            offset = address - begin + self.entry // 4096 * 4096
            inside = [name for start, name in self.symbols if start <= offset]
            if not inside:
                return None
            operations = self.operations[inside[-1]]
            return ("optimizer" if "adamw" in operations else
                    "backward" if "grad" in operations else "forward")
        return None


class Job:
    """The ranks of one job. `starter`: `ranks`, which starts each by itself and so
    has their statuses; `run` (heddle run); `timeout`, which ends `run` after some
    seconds; `mpirun`, which ends all when one failed;
    `recovering`, an mpirun that leaves the end to the ranks. `before` and `binaries`
    are of single ranks, with the starter `ranks`: words before the command, another
    binary."""

    def __init__(self, folder, starter, ranks, command, before=None, binaries=None):
        self.folder, self.starter, self.size = folder, starter, ranks
        self.command = [str(word) for word in command]
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.processes = []
        if starter == "ranks":
            common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                      "MASTER_PORT": str(free_port())}
            for rank in range(ranks):
                own = list(self.command)
                own[0] = str((binaries or {}).get(rank, own[0]))
                self.start((before or {}).get(rank, []) + own,
                           dict(common, RANK=str(rank)))
            return
        if starter in ("run", "timeout"):
            limit = ["timeout", "3"] if starter == "timeout" else []
            words = [*limit, h.HEDDLE, "run", self.command[0], "--", *self.command[1:]]
        else:
            # An mpirun that ends loses what its ranks said last.
            recovery = ["--enable-recovery"] if starter == "recovering" else []
            words = ["mpirun.openmpi", "--oversubscribe", *recovery, "-n", str(ranks),
                     "/bin/sh", "-c", f'exec "$@" 2>>{self.path("shared")}', "sh",
                     *self.command]
        self.start(words, {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def start(self, words, variables):
        with open(self.path(str(len(self.processes))), "w") as errors:
            self.processes.append(subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors, env={**os.environ, **variables}))

    def path(self, name):
        return os.path.join(self.folder, name + ".txt")

    def said(self, rank=None):
        """What all ranks said, or one that was started by itself."""
        names = [str(rank)] if rank is not None else [
            name[:-4] for name in sorted(os.listdir(self.folder))]
        text = ""
        for name in names:
            with open(self.path(name)) as file:
                text += file.read()
        return text

    def pids(self):
        """The ranks' processes, in their order."""
        if self.starter == "ranks":
            return [process.pid for process in self.processes]
        name = (b"RANK=" if self.starter in ("run", "timeout") else
                b"OMPI_COMM_WORLD_RANK=")
        found = {}
        for pid in descendants(self.processes[0].pid):
            try:
                if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(self.command[0]):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    for word in file.read().split(b"\0"):
                        if word.startswith(name):
                            found[int(word[len(name):])] = pid
            except (FileNotFoundError, ProcessLookupError):
                continue
        return [found[rank] for rank in range(self.size)]

    def wait(self, seconds, without=()):
        """The statuses, but for ranks that were stopped; None of a process that has
        not ended in this time, as wait_until counts it."""
        awaited = [process for rank, process in enumerate(self.processes)
                   if rank not in without]
        wait_until(lambda: all(process.poll() is not None for process in awaited),
                   seconds)
        return [process.poll() if process in awaited else None
                for process in self.processes]

    def end(self):
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()


def state_of(pid):
    """As T where it is stopped, Z where it has ended and nobody asked."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "X"


def is_running(pid):
    return state_of(pid) not in "ZX"


def stop(pid):
    """Returns once the main thread stands still; gives its system call, or None,
    and its address."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(1000):
        with open(f"/proc/{pid}/syscall") as file:
            words = file.read().split()
        if len(words) >= 3:
            call = int(words[0])
            return None if call < 0 else call, int(words[-1], 16)
        time.sleep(0.001)
    raise AssertionError(f"process {pid} cannot be stopped")


def is_saving(folder):
    """Whether a checkpoint is being written: under a name that is not final."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    return any(name.startswith(".heddle-tmp-") or ".tmp-" in name for name in names)


def catch(pid, phase, kernels=None, saves=None, seconds=120):
    """Stops a rank in a phase, and leaves it stopped."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        call, address = stop(pid)
        here = ("save" if saves and is_saving(saves) else
                "waiting" if call is not None else
                kernels.phase_at(pid, address) if kernels else None)
        if here == phase:
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(random.uniform(*SLICE))
    raise AssertionError(f"process {pid} was not caught in {phase}")


def catch_in_reduction(pid, other, kernels):
    """Stops a rank in the collective in which it waits for another one, which is
    still going backward."""
    catch(other, "backward", kernels)
    time.sleep(1)  # By now its beats have said where it waits.
    catch(pid, "waiting")
    os.kill(other, signal.SIGCONT)
