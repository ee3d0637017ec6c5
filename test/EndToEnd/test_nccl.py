# GPU binaries of several ranks, which talk through the emulated NCCL.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses against the CPU's ranks, what was sent against the plan's figure, and
what happens when a rank dies or stops, or NCCL fails or is not there."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import heddle_test as h
import numpy as np
import running_jobs as jobs
import test_gpu

DEFAULT = [*(["--mesh", "data=2", "--zero", zero] for zero in ("0", "2")),
           ["--mesh", "tensor=2", "--sequence-parallel"]]
SEQUENCES = [["--mesh", "seq=2"],
             ["--mesh", "seq=2,data=2", "--context", "ring"]]
MORE = [*(["--mesh", "data=2", "--zero", zero] for zero in ("1", "3")),
        ["--mesh", "data=4", "--zero", "3"],
        ["--mesh", "data=2,tensor=2", "--zero", "1"],
        ["--mesh", "pipe=2,data=2", "--accumulate", "2"],
        ["--mesh", "pipe=2,tensor=2", "--accumulate", "2"],
        ["--mesh", "seq=4"],
        ["--mesh", "pipe=2,data=2", "--zero", "1", "--accumulate", "2",
         "--precision", "bf16"]]


# Joins a communicator of two as a rank with a GPU; prints what that returns.
JOIN = """
import ctypes, sys
rank, device = map(int, sys.argv[1:3])
cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
context, comm = ctypes.c_void_p(), ctypes.c_void_p()
class Id(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 128)]
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
print(nccl.ncclCommInitRank(ctypes.byref(comm), 2, Id(sys.argv[3].encode()), rank))
"""


# Two ranks that send each other messages; what each step returns is printed.
MESSAGES = """
import ctypes, sys, time
rank, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
context, comm = ctypes.c_void_p(), ctypes.c_void_p()
stream, memory, graph = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
class Id(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 128)]
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 512) == 0
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, Id(name.encode()), rank) == 0
def move(call, offset):
    return call(ctypes.c_void_p(memory.value + offset), ctypes.c_size_t(4), 1,
                1 - rank, comm, stream)
def both():
    assert nccl.ncclGroupStart() == 0
    move(nccl.ncclSend, 0), move(nccl.ncclRecv, 256)
    return nccl.ncclGroupEnd()
def finish():
    begin = time.monotonic()
    assert cuda.cuStreamSynchronize(stream) == 0
    return time.monotonic() - begin
assert cuda.cuStreamBeginCapture_v2(stream, 2) == 0
print("captured first", both())
assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
print("first", both())
finish()
if rank == 0:
    move(nccl.ncclSend, 0)
    print("a send takes as long as its receive", finish() > seconds / 2)
else:
    time.sleep(seconds)
    move(nccl.ncclRecv, 256)
    finish()
both()
finish()
print("together", flush=True)
move(nccl.ncclSend, 0), move(nccl.ncclRecv, 256)
finish()
print("one after the other", flush=True)
"""


def ranks_of(flags):
    ranks = 1
    for size in re.findall(r"=(\d+)", flags[1]):
        ranks *= int(size)
    return ranks


def sent_of(counts):
    """Bytes that a rank sent, but for the one that makes each connection."""
    return counts["sent_bytes"] - counts["calls"].get("connect", 0)


def seq_of(flags):
    """What ranks can split, where they do."""
    splits = "seq" in flags[1] or "--sequence-parallel" in flags
    return 20 if splits else test_gpu.SEQ


SCHEDULES = [["--mesh", "pipe=2", "--accumulate", "4", "--schedule", "interleaved",
              "--virtual-stages", "2"]]
MORE_SCHEDULES = [["--mesh", "pipe=4", "--accumulate", "4", "--schedule", "interleaved",
                   "--virtual-stages", "2"],
                  *(["--mesh", f"pipe={ranks}", "--accumulate", "4", "--schedule",
                     schedule] for ranks in (2, 4)
                    for schedule in ("gpipe", "1f1b", "zb-h1"))]


class Nccl(test_gpu.GpuTest):
    def torchrun(self, ranks, command, faults=None, machines=None, **variables):
        """A job with torchrun's variables, whose ranks are processes of ours;
        `faults`: what befalls some of them; `machines`: what NCCL takes for theirs."""
        before = {}
        for rank in range(ranks):
            own = dict(variables, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks,
                       TORCHELASTIC_RUN_ID="test")
            if faults and rank in faults:
                own["HEDDLE_EMULATE_FAULT"] = faults[rank]
            if machines:
                own["NCCL_HOSTID"] = machines[rank]
            before[rank] = ["env", *(f"{name}={value}" for name, value in own.items())]
        job = jobs.Job(self.path("said"), "ranks", ranks, command, before=before)
        self.addCleanup(job.end)
        return job

    def for_gpu(self, model, *flags):
        return self.compile(model, "--batch", test_gpu.ROWS, "--seq", test_gpu.SEQ,
                            "--target", "sm_90", *flags, config=h.ds_config())

    def counts(self, gpu, ranks, **variables):
        """What two steps of `bench` say, and each rank's counts."""
        path = self.path("counts")
        said = h.run_ranks(ranks, [*test_gpu.emulated(gpu), "bench", "--steps", 2,
                                   "--warmup", 0, "--json"],
                           HEDDLE_EMULATE_COUNTS=path, **h.LIGHT, **variables)
        return (json.loads(said.stdout),
                [self.read_counts(path, rank) for rank in range(ranks)])

    def read_counts(self, path, rank=0):
        with open(path + (f".{rank}" if rank else "")) as file:
            return json.load(file)

    def train_words(self, gpu, steps=100000):
        return [*test_gpu.emulated(gpu), "train", "--data", self.data, "--steps",
                steps, "--log", self.path("run.jsonl"), "--progress", "none"]

    @h.needs_mpi
    def test_losses(self):
        steps = 4 if h.LONG else 2
        self.data_of(steps)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=2 if h.LONG else 1)
        products = ["generated", *["library"] * h.LONG]
        for flags in DEFAULT + (MORE + SEQUENCES if h.LONG else []):
            with self.subTest(flags=flags):
                pair = self.pair(model, *flags, seq=seq_of(flags))
                self.assert_alike(*pair, steps, 5e-3 if "bf16" in flags else 1e-5,
                                  ranks=ranks_of(flags), products=products)

    @h.needs_mpi
    def test_schedules(self):
        """Of pipelines: losses, and bytes beside the plan's. An environment that asks
        for one queue to the GPU does not have its streams wait for each other."""
        self.data_of(2)
        for flags in SCHEDULES + (MORE_SCHEDULES if h.LONG else []):
            with self.subTest(flags=flags):
                ranks = ranks_of(flags)
                layers = ranks * (2 if "--virtual-stages" in flags else 1)
                model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=layers)
                cpu, gpu = self.pair(model, *flags)
                self.assert_alike(cpu, gpu, 2, 1e-5, ranks, products=["generated"])
                said, counts = self.counts(gpu, ranks, CUDA_DEVICE_MAX_CONNECTIONS="1")
                for each in counts:
                    self.assertEqual(each["queues"], 32)
                    self.assertGreater(each["calls"].get("ncclSend", 0), 0)
                self.assertEqual(sent_of(counts[0]), 2 * said["bytes_sent"])

    @h.needs_mpi
    def test_parts_of_sequences(self):
        """Of two ranks and of four: losses, and bytes beside the plan's."""
        self.data_of(2)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        for flags in SEQUENCES:
            with self.subTest(flags=flags):
                ranks = ranks_of(flags)
                cpu, gpu = self.pair(model, *flags, seq=seq_of(flags))
                self.assert_alike(cpu, gpu, 2, 1e-5, ranks, products=["generated"])
                said, counts = self.counts(gpu, ranks)
                self.assertEqual(sent_of(counts[0]), 2 * said["bytes_sent"])
                for each in counts:
                    self.assertGreater(each["calls"].get("ncclSend", 0), 0)

    def test_four_ranks_by_torchrun(self):
        self.data_of(2)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        cpu, gpu = self.pair(model, "--mesh", "data=2,tensor=2", "--zero", "1")
        steps = []
        for command in ([cpu], test_gpu.emulated(gpu)):
            log = self.path(f"torchrun{len(command)}.jsonl")
            job = self.torchrun(4, [*command, "train", "--data", self.data, "--steps",
                                    2, "--log", log, "--progress", "none"])
            self.assertEqual(job.wait(120), [0] * 4, job.said())
            steps.append(h.read_log(log))
        for expected, actual in zip(*steps):
            for key in ("loss", "grad_norm"):
                self.assert_close(actual[key], expected[key], 1e-5, key)

    def test_other_launchers(self):
        """By srun's variables and by heddle run there is a GPU for each rank, too."""
        self.data_of(2)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        gpu = self.for_gpu(model, "--mesh", "data=2")
        command, log = self.train_words(gpu, 2), self.path("run.jsonl")
        unset = ["-u", "RANK", "-u", "WORLD_SIZE", "-u", "MASTER_ADDR"]
        srun = jobs.Job(self.path("srun"), "ranks", 2, command, before={
            rank: ["env", *unset, f"SLURM_JOB_ID={os.getpid()}", "SLURM_STEP_ID=0",
                   f"SLURM_PROCID={rank}", "SLURM_STEP_NUM_TASKS=2",
                   f"SLURM_LOCALID={rank}", "SLURM_STEP_NODELIST=localhost",
                   "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=2,1"]
            for rank in (0, 1)})
        self.addCleanup(srun.end)
        self.assertEqual(srun.wait(120), [0, 0], srun.said())
        steps = [h.read_log(log)]
        os.remove(log)
        with open(self.path("hosts"), "w") as file:
            file.write("localhost slots=2\n")
        h.run([h.HEDDLE, "run", "--hostfile", self.path("hosts"), command[0], "--",
               *command[1:]])
        steps.append(h.read_log(log))
        self.assertEqual(*([step["loss"] for step in each] for each in steps))
        self.assertEqual(len(steps[0]), 2)

    @h.needs_mpi
    def test_bytes_are_those_of_the_plan(self):
        """And a step is one launch of a graph, which the host launches at once."""
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB)
        every = [(["--mesh", "data=2", "--zero", "3"], "ncclReduceScatter"),
                 (["--mesh", "pipe=2", "--accumulate", "2"], "ncclSend")]
        if h.LONG:
            every += [(flags, "ncclCommInitRank") for flags in MORE + SEQUENCES]
        for flags, call in every:
            with self.subTest(flags=flags):
                _, gpu = self.pair(model, *flags, seq=seq_of(flags))
                said, counts = self.counts(gpu, ranks_of(flags))
                self.assertGreater(said["bytes_sent"], 0)
                self.assertEqual(sent_of(counts[0]), 2 * said["bytes_sent"])
                for each in counts:
                    self.assertGreater(each["calls"].get(call, 0), 0)
                    self.assertEqual(each["calls"]["cuGraphLaunch"], 2)

    def test_a_step_is_one_launch(self):
        """Of every rank, whose GPU gives as many bytes as the plan says; nothing is
        allocated, and the host does not wait for the step that it has launched."""
        self.data_of(4)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB)
        path = self.path("counts")
        every = [["--mesh", "data=2", "--zero", "2"],
                 ["--mesh", "pipe=2", "--accumulate", "2"]]
        if h.LONG:
            every += [["--mesh", "tensor=2"],
                      ["--mesh", "pipe=2,data=2", "--accumulate", "2"]]
        for flags in every:
            ranks, runs = ranks_of(flags), []
            gpu = self.for_gpu(model, *flags)
            for steps in (2, 4):
                job = self.torchrun(ranks, self.train_words(gpu, steps),
                                    HEDDLE_EMULATE_COUNTS=path, **h.LIGHT)
                self.assertEqual(job.wait(200), [0] * ranks, job.said())
                runs.append([self.read_counts(path, rank) for rank in range(ranks)])
            for rank, (few, many) in enumerate(zip(*runs)):
                with self.subTest(flags=flags, rank=rank):
                    memory = self.explain(gpu, "--rank", rank)["memory"]
                    self.assertEqual(few["device_bytes"],
                                     memory["kinds"]["device"]["arena"] +
                                     memory["kinds"]["device"]["persistent"])
                    self.assertEqual(few["calls"]["cuGraphLaunch"], 2)
                    self.assertEqual(many["calls"]["cuGraphLaunch"], 4)
                    for name in ("cuLaunchKernel", "cuMemAlloc_v2", "cuMemHostAlloc",
                                 "cuGraphInstantiateWithFlags", "cuStreamSynchronize",
                                 "ncclReduceScatter", "ncclAllReduce", "ncclSend"):
                        self.assertEqual(few["calls"].get(name),
                                         many["calls"].get(name), name)
                    self.assertEqual(few["last_waits"], many["last_waits"])

    @h.needs_mpi
    def test_what_is_sent_in_another_type(self):
        """Gradients of several micro-batches are sums in fp32, and travel as bf16."""
        self.data_of(3)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        every = [(["--mesh", "data=2", "--zero", "2", "--communication-data-type",
                   "bf16"], 1e-5, "ncclReduceScatter"),
                 (["--mesh", "data=2", "--precision", "bf16", "--accumulate", "2"],
                  5e-3, "ncclAllReduce")]
        if h.LONG:
            every += [(["--mesh", "data=4", "--zero", str(zero), "--accumulate",
                        str(parts), "--communication-data-type", wire], 2e-4, call)
                      for zero, parts, wire, call in (
                          (0, 1, "fp16", "ncclAllReduce"),
                          (1, 1, "bf16", "ncclReduceScatter"),
                          (3, 1, "bf16", "ncclReduceScatter"))]
        for flags, bound, call in every:
            with self.subTest(flags=flags):
                ranks = ranks_of(flags)
                cpu, gpu = self.pair(model, *flags)
                self.assert_alike(cpu, gpu, 3, bound, ranks, products=["generated"])
                said, counts = self.counts(gpu, ranks)
                self.assertEqual(sent_of(counts[0]), 2 * said["bytes_sent"])
                self.assertGreater(counts[0]["calls"].get(call, 0), 0)
                self.assertEqual(counts[0]["calls"]["cuGraphLaunch"], 2)

    @h.needs_mpi
    def test_fixed_collectives_need_no_nccl(self):
        """They add as on CPUs, through the host's memory: losses are near the CPU's,
        and two runs save the same bits, also of ranks that share a GPU."""
        self.data_of(3)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        cpu, gpu = self.pair(model, "--mesh", "data=2", "--collectives", "fixed")
        said, counts = self.counts(gpu, 2)
        self.assertGreater(said["bytes_sent"], 0)
        self.assertEqual(counts[0]["sent_bytes"], 0)
        self.assertNotIn("ncclCommInitRank", counts[0]["calls"])
        self.assert_alike(cpu, gpu, 3, 1e-5, 2, products=["generated"])
        saved = []
        for name, emulate, flags in (("two", [], []),
                                     ("one", ["--devices", 1], ["--share-gpu"])):
            folder = self.path(name)
            self.train_on(test_gpu.emulated(gpu, *emulate), 3, *flags, "--save",
                          folder, ranks=2)
            saved.append(os.path.join(h.latest_of(folder), "model.safetensors"))
        self.assertTrue(filecmp.cmp(*saved, shallow=False))

    @h.needs_mpi
    def test_one_binary_for_cpus_and_gpus(self):
        """Its GPUs talk through NCCL, unless somebody says otherwise."""
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        targets, again = ["--target", "x86-64,sm_90"], self.path("again")
        for flags, groups in (([], 1), (["--collectives", "fixed"], 0)):
            with self.subTest(flags=flags):
                dumps = self.path("dumps" + str(groups))
                both = self.compile(model, "--batch", test_gpu.ROWS, "--seq",
                                    test_gpu.SEQ, "--mesh", "data=2", *flags, *targets,
                                    "--dump-phases", dumps, config=h.ds_config())
                h.run([h.HEDDLE, "compile", os.path.join(dumps, "spmd.mlir"),
                       "--start-from", "spmd", *targets, "-o", again],
                      env=h.without_ptxas())
                for binary in (both, again):
                    _, counts = self.counts(binary, 2)
                    self.assertEqual(counts[0]["calls"].get("ncclCommInitRank", 0),
                                     groups)
                h.run_ranks(2, [both, "bench", "--steps", 1, "--warmup", 0])

    def test_a_rank_dies_or_stops(self):
        """In whatever it does: the other one says so and ends."""
        self.data_of(4)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        _, gpu = self.pair(model, "--mesh", "data=2", "--zero", "1")
        job = self.torchrun(2, self.train_words(gpu, 2),
                            HEDDLE_EMULATE_COUNTS=self.path("counts"))
        self.assertEqual(job.wait(120), [0, 0], job.said())
        counts = self.read_counts(self.path("counts"))
        kernels, copies = counts["kernels"], counts["calls"]["cuMemcpyDtoHAsync_v2"]
        train = self.train_words(gpu)
        later = [*train, "--val", self.data, "--val-every", 2, "--val-steps", 1]
        saving = [*train, "--save", self.path("saved"), "--save-every", 2,
                  "--overwrite"]
        # Between two steps there is nothing but a save, or a validation.
        every = {"start": ("cuStreamCreate:0", train),
                 "groups": ("ncclCommInitRank:0", train),
                 "weights": ("cuMemcpyHtoDAsync_v2:2", train),
                 "forward": (f"kernel:{kernels // 2 + 2}", train),
                 "backward": (f"kernel:{3 * kernels // 4}", train),
                 "collective": ("exchange:3", train),
                 "optimizer": (f"kernel:{kernels - 1}", train),
                 "save": (f"cuMemcpyDtoHAsync_v2:{copies + 1}", saving),
                 "validation": (f"kernel:{kernels + 2}", later)}
        faults = [(phase, kind) for phase in every for kind in ("kill", "stop")]
        if not h.LONG:
            # Each phase once: that a rank stopped is noticed later than its death.
            faults = [fault for fault in faults
                      if (fault[1] == "stop") == (fault[0] == "save")]
        for number, (phase, kind) in enumerate(faults):
            with self.subTest(phase=phase, kind=kind):
                is_early = phase in ("start", "groups", "weights")
                self.check_fault(number % 2, kind, *every[phase],
                                 "before the first step" if is_early else "in step")

    def test_a_rank_of_other_verbs_dies_or_stops(self):
        self.data_of(4)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        _, gpu = self.pair(model, "--mesh", "data=2")
        command = test_gpu.emulated(gpu)
        # The text is generated on rank 0; the other group of ranks has none.
        every = [("eval", 1, "kill", [*command, "eval", "--data", self.data]),
                 ("generate", 0, "stop", [*command, "generate", "--prompt-ids", "1,2",
                                          "--max-new-tokens", 16]),
                 ("bench", 1, "kill", [*command, "bench", "--steps", 5])]
        for verb, victim, kind, words in every if h.LONG else every[:2]:
            job = self.torchrun(2, words, HEDDLE_EMULATE_COUNTS=self.path(verb))
            self.assertEqual(job.wait(60), [0, 0], job.said())
            kernels = self.read_counts(self.path(verb))["kernels"]
            with self.subTest(verb):
                self.check_fault(victim, kind, f"kernel:{kernels // 2}", words, "")

    def check_fault(self, victim, kind, event, words, when):
        shutil.rmtree(self.path("saved"), ignore_errors=True)
        job = self.torchrun(2, words, {victim: f"{kind}:{event}"})
        state = {"kill": "Z", "stop": "T"}[kind]
        deadline = time.monotonic() + 60
        while jobs.state_of(job.pids()[victim]) != state:
            self.assertLess(time.monotonic(), deadline, job.said())
            time.sleep(0.02)
        statuses = job.wait(10, [victim])
        said = job.said(1 - victim)
        expected = [5, 5]
        expected[victim] = None
        self.assertEqual(statuses, expected, job.said())
        code, what = (("H0421", "died") if kind == "kill" else
                      ("H0422", "stopped answering"))
        self.assertRegex(said, rf"error\[{code}\]: rank {victim} \(.*?\) {what} {when}")
        self.assertFalse(os.path.exists(self.path("saved", "latest")))
        job.end()

    def test_nccl_fails(self):
        """In a step: both ranks end, and the one that saw it says what failed, also
        where the host goes on to submit what comes after it."""
        self.data_of(4)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB)
        _, gpu = self.pair(model, "--mesh", "data=2", "--zero", "3")
        for order, flags in (("late", []), ("early", ["--no-graph"])):
            with self.subTest(order):
                job = self.torchrun(2, [*self.train_words(gpu), *flags],
                                    HEDDLE_EMULATE_FAULT="nccl-error:3",
                                    HEDDLE_EMULATE=order)
                self.assertEqual(job.wait(20), [5, 5], job.said())
                self.assertRegex(job.said(), r"error\[H0441\]: NCCL failed, .*\(2\)")

    def test_two_ranks_of_a_gpu_are_refused(self):
        """As NCCL does, by ncclInvalidUsage on both; unless they say that they are
        on two machines."""
        for number, (devices, machines, result) in enumerate((
                ((0, 1), None, "0"), ((1, 1), None, "5"), ((1, 1), "ab", "0"),
                ((1, 1), "aa", "5"))):
            started = []
            for rank in (0, 1):
                variables = {"NCCL_HOSTID": machines[rank]} if machines else {}
                started.append(subprocess.Popen(
                    [h.HEDDLE, "emulate", "--devices", "2", "--", sys.executable, "-c",
                     JOIN, str(rank), str(devices[rank]),
                     f"heddle-test-{os.getpid()}-{number}"], text=True,
                    env=dict(os.environ, **variables), stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE))
            for process in started:
                said, errors = process.communicate(timeout=60)
                self.assertEqual(said.strip(), result, errors)
                if result != "0":
                    self.assertIn("Duplicate GPU detected: rank 0 and rank 1", errors)

    def test_ranks_that_share_a_gpu(self):
        """They talk through NCCL if it takes them to be on two machines."""
        self.data_of(2)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        _, gpu = self.pair(model, "--mesh", "data=2")
        train = [*test_gpu.emulated(gpu, "--devices", 1), "train", "--data", self.data,
                 "--steps", 2, "--share-gpu", "--log", self.path("run.jsonl")]
        losses = []
        for machines, uses_nccl in (("ab", True), ("aa", False), (None, False)):
            with self.subTest(machines=machines):
                job = self.torchrun(2, train, machines=machines,
                                    HEDDLE_EMULATE_COUNTS=self.path("counts"))
                self.assertEqual(job.wait(60), [0, 0], job.said())
                calls = self.read_counts(self.path("counts"))["calls"]
                self.assertEqual("ncclCommInitRank" in calls, uses_nccl)
                losses.append([step["loss"] for step in h.read_log(self.path("run.jsonl"))])
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
        self.assertEqual(losses[1], losses[2])

    def test_messages_meet(self):
        """Of the emulated NCCL, as of the real one: the first between two ranks must
        not be captured, a send waits for its receive, and two ranks that both send
        first wait for ever, unless a group has both calls."""
        seconds, started = 1, []
        for rank in (0, 1):
            said = open(self.path(f"said{rank}"), "w+")
            self.addCleanup(said.close)
            started.append((said, subprocess.Popen(
                [h.HEDDLE, "emulate", "--devices", "2", "--", sys.executable, "-u",
                 "-c", MESSAGES, str(rank), f"heddle-meet-{os.getpid()}",
                 str(seconds)], stdout=said, stderr=subprocess.DEVNULL)))
        texts = ["", ""]
        deadline = time.monotonic() + 60
        while not all("together" in text for text in texts):
            self.assertLess(time.monotonic(), deadline, texts)
            self.assertTrue(all(process.poll() is None for _, process in started),
                            texts)
            time.sleep(0.05)
            texts = [open(said.name).read() for said, _ in started]
        time.sleep(seconds)
        for rank, (said, process) in enumerate(started):
            self.assertIsNone(process.poll())
            process.kill()
            process.wait()
            lines = open(said.name).read().splitlines()
            self.assertEqual(lines, ["captured first 5", "first 0"] +
                             ["a send takes as long as its receive True"] *
                             (rank == 0) + ["together"])

    def refused(self, gpu, folder, **variables):
        """What ranks say that take their libraries from `folder`."""
        job = self.torchrun(2, [gpu, "train", "--data", self.data, "--steps", 1],
                            LD_LIBRARY_PATH=folder, **variables)
        self.assertEqual(job.wait(20), [4, 4], job.said())
        self.assertIn("error[H0286]", job.said())
        self.assertIn("--collectives fixed", job.said())
        return job.said()

    def test_nccl_is_missing_or_too_old(self):
        """By its version, or because a function is not there."""
        self.data_of(4)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB, layers=1)
        _, gpu = self.pair(model, "--mesh", "data=2")
        given = os.path.join(h.BUILD, "lib/heddle/emulated")
        folder = self.path("libraries")
        os.makedirs(folder)
        os.symlink(os.path.join(given, "libcuda.so.1"),
                   os.path.join(folder, "libcuda.so.1"))
        mine = os.path.join(folder, "libnccl.so.2")
        with open(mine, "w") as file:
            file.write("no library")
        self.refused(gpu, folder)
        with open(os.path.join(given, "libnccl.so.2"), "rb") as file:
            library = file.read()
        symbol = b"ncclCommGetAsyncError\0"
        self.assertIn(symbol, library)
        with open(mine, "wb") as file:
            file.write(library.replace(symbol, b"ncclCommGetAsyncOther\0"))
        self.assertIn("too old, it has no ncclCommGetAsyncError",
                      self.refused(gpu, folder))
        old = {"HEDDLE_EMULATE_FAULT": "old-nccl"}
        self.assertIn("too old, version 2.17.5", self.refused(gpu, given, **old))
        # One rank talks with nobody.
        _, alone = self.pair(model)
        self.assertEqual(len(self.train_on(test_gpu.emulated(alone), 1, **old)), 1)


if __name__ == "__main__":
    unittest.main()
