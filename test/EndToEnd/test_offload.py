# States outside of the device's memory.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A binary whose optimizer states are on file, or in the host's memory, trains to
the bits of the one that has them in the device's: losses, norms and checkpoints.
HEDDLE_TEST_LONG=1 draws many placements and takes all cases; HEDDLE_TEST_SEED=N draws
one."""

import filecmp
import json
import math
import os
import random
import re
import unittest

import families
import heddle_test as h
import test_bert
import test_recorded

STEPS = 3
# Seeds of an everyday run: a mesh of each axis, both precisions, each family.
SHORT, LONG = (0, 1, 6, 7, 8, 9), 80
PLACES = ["optimizer=file", "optimizer=host", "parameters=file",
          "optimizer=file,parameters=file", "optimizer=host,parameters=file",
          "optimizer=file,parameters=host", "parameters=file,activations=file",
          "optimizer=file,parameters=file,activations=file", "gradients=file",
          "gradients=host", "optimizer=file,gradients=file",
          "optimizer=host,parameters=file,gradients=host",
          "optimizer=pinned", "optimizer=file,parameters=pinned,activations=pinned",
          "optimizer=file,parameters=file,gradients=file,activations=file"]
MESHES = ["data=1", "data=2", "tensor=2", "pipe=2", "seq=2", "data=2,tensor=2",
          "data=2,pipe=2", "data=2,seq=2"]
LARGE_MESHES = ["data=4", "data=8", "data=2,pipe=4", "data=2,seq=2,tensor=2",
                "data=2,pipe=2,tensor=2", "seq=2,pipe=2,data=2"]
FILES = ["model.safetensors", "heddle/optimizer.safetensors"]


def draw(seed):
    """A model, flags of both binaries, and those of the one that places."""
    pick = random.Random(seed)
    mesh = pick.choice(MESHES + (LARGE_MESHES if h.LONG else []))
    ranks = math.prod(int(axis.split("=")[1]) for axis in mesh.split(","))
    # The others have no heads for as many ranks.
    family = pick.choice(["gpt2", "llama", "bert"] if "seq=2,tensor=2" not in mesh
                         else ["gpt2"])
    replicated = "seq" in mesh or re.search("data=[248]", mesh)
    pipe = "pipe" in mesh
    interleaved = "pipe=2" in mesh and pick.random() < 0.3
    flags = ["--mesh", mesh, "--zero", pick.choice([0, 1, 2, 3]) if replicated else 0,
             "--micro-batch", pick.choice([1, 2]), "--accumulate",
             4 if interleaved else pick.choice([2, 3]) if pipe else pick.choice([1, 2]),
             "--seq", 8 if "seq" in mesh else pick.choice([3, 8, 17]),
             "--precision", pick.choice(["fp32", "bf16"]),
             "--recompute", pick.choice(["none", "selective", "full"]),
             "--optimizer", pick.choice(["AdamW", "Adam", "Lion", "Lamb"])]
    if interleaved:
        flags += ["--schedule", "interleaved", "--virtual-stages", 2]
    elif pipe:
        flags += ["--schedule", pick.choice(["1f1b", "gpipe", "zb-h1"])]
    config = {"gradient_clipping": pick.choice([0, 0.5])}
    place = ["--place", pick.choice(PLACES), "--sub-group-size",
             pick.choice([1, 1024, 3000, 10 ** 6])]
    if pick.random() < 0.5:  # All tiles on file are read when the step begins.
        place += ["--memory-budget", "1GiB"]
    return family, ranks, flags, config, place


def model_of(test, family, seed, layers=2):
    """A model of little width, whose tokens are fewer than 100, for a test."""
    if family == "gpt2":
        return test.make_model(f"gpt2-{seed}", seed=seed + 1, embed=36,
                               layers=layers)[0]
    config = dict(families.config() if family == "llama" else test_bert.CONFIG,
                  num_hidden_layers=layers)
    with open(test.path(f"{family}-{seed}.json"), "w") as file:
        json.dump(config, file)
    return test.path(f"{family}-{seed}.json")


class Offload(h.HeddleTest):
    def setUp(self):
        self.here = {}  # What training without places gave.

    def check(self, seed):
        family, ranks, flags, config, place = draw(seed)
        # One for each stage.
        deep = "--virtual-stages" in flags or "pipe=4" in flags[1]
        model = model_of(self, family, seed, layers=4 if deep else 2)
        self.compare(seed, family, ranks, flags, config, place, model=model)

    def compare(self, name, family, ranks, flags, config, place, *own, model=None,
                vocab=97):
        """Trains with the optimizer's states here and there: `own` goes to the job
        of the latter, whose path is given back."""
        data, _ = self.make_tokens(2000, vocab)
        model = model or model_of(self, family, ranks)
        if family != "gpt2":
            flags = [*flags, "--init", "random"]
        masks = ["--mask-probability", 0.3, "--mask-token", 3] if family == "bert" else []

        def train(where, *more):
            folder, binary = self.path(f"{where}-{name}"), self.path(f"job-{where}-{name}")
            self.compile(model, *flags, *more, config=config, output=binary)
            owners = self.explain(binary)["memory"]["owners"]
            self.assertGreaterEqual(min(owners.values()), 0, owners)
            steps = self.train(binary, data, STEPS, "--save", folder, *masks,
                               *(own if more else []), ranks=ranks)
            return [(step["loss"], step["grad_norm"]) for step in steps], folder

        # Places of the same plan are compared with one run.
        key = str((model, ranks, flags, config, vocab))
        if key not in self.here:
            self.here[key] = train("here")
        (expected, here), (found, there) = self.here[key], train("there", *place)
        self.assertEqual(found, expected)
        for file in FILES:
            self.assertTrue(
                filecmp.cmp(*(os.path.join(h.latest_of(folder), file)
                              for folder in (here, there)), shallow=False), file)
        return self.path(f"job-there-{name}")

    def test_every_family(self):
        """Of rows and a precision with which other tests train these models, too."""
        for name, record in test_recorded.records().items():
            # BERT's rows are masked; others than these differ in other things.
            if "bert" in name or "-" in name:
                continue
            model = self.path(f"{name}.json")
            with open(model, "w") as file:
                json.dump(record["config"], file)
            one = "bf16" if name == "gemma2" else "fp32"
            for precision in ("fp32", "bf16") if h.LONG else (one,):
                with self.subTest(name, precision=precision):
                    self.compare(f"{name}-{precision}", "of the file", 1,
                                 [*test_recorded.Recorded.flags(self)[1], "--recompute",
                                  "full", "--precision", precision],
                                 {"gradient_clipping": 0.5},
                                 ["--place", "optimizer=file,parameters=file"],
                                 model=model, vocab=record["config"]["vocab_size"])

    def test_updates_beside_the_backward_pass(self):
        """A delayed update of a layer is computed while the layers before it are not
        done; others wait for the norm, also without clipping. The trace lists the
        commands in the plan's order."""
        place = ["--place", "optimizer=file", "--sub-group-size", 5000]
        for case, (family, ranks, flags, clipping) in enumerate((
                ("gpt2", 1, ["--precision", "bf16"], 0.5),
                ("llama", 1, ["--recompute", "full", "--optimizer", "Lion"], 0.5),
                ("bert", 2, ["--mesh", "tensor=2"], 0.5),
                ("gpt2", 2, ["--mesh", "data=2", "--zero", 2, "--precision", "bf16"], 0.5),
                ("llama", 2, ["--mesh", "data=2", "--zero", 3], 0.5),
                ("llama", 2, ["--mesh", "pipe=2", "--accumulate", 2], 0.5),
                ("gpt2", 2, ["--mesh", "pipe=2", "--accumulate", 2, "--precision",
                             "bf16"], 0.5),
                ("gpt2", 1, ["--precision", "bf16"], 0))):
            trace = self.path(f"trace-{case}.json")
            delayed = ["--delayed-update"] if clipping else []
            with self.subTest(family=family, flags=flags, delayed=delayed):
                self.compare(f"beside-{case}", family, ranks,
                             ["--micro-batch", 2, "--seq", 7, *flags, *delayed],
                             {"gradient_clipping": clipping}, place, "--trace", trace)
                with open(trace) as file:
                    events = json.load(file)["traceEvents"]
                # Of a pipeline, the first stage's.
                events = [event for event in events
                          if event["args"]["step"] == 1 and event["pid"] == 0]
                ends = [number for number, event in enumerate(events)
                        if "embedding_grad" in event["args"].get("ops", "")]
                stores = [number for number, event in enumerate(events)
                          if event["tid"] == 2]
                self.assertGreater(len(stores), 2)
                self.assertEqual(stores[0] < ends[-1], bool(delayed))

    @h.long_only
    def test_reads_as_far_ahead_as_a_budget_has_room_for(self):
        """The more room, the more tiles are on their way when the step begins, and
        the more layers ahead of the one that is computed."""
        once, several = ["--micro-batch", 2], ["--micro-batch", 2, "--accumulate", 3]
        for case, (family, ranks, flags, clipping, place) in enumerate((
                ("gpt2", 1, [*once, "--precision", "bf16"], 0, "optimizer=file"),
                ("gpt2", 1, [*several, "--delayed-update"], 0.5, "optimizer=file"),
                ("llama", 1, [*several, "--optimizer", "Lamb"], 0.5, "optimizer=file"),
                ("bert", 2, [*once, "--mesh", "tensor=2"], 0, "optimizer=file"),
                ("llama", 2, [*several, "--mesh", "data=2", "--zero", 3], 0,
                 "optimizer=file,gradients=file"),
                ("gpt2", 2, [*several, "--mesh", "pipe=2"], 0, "optimizer=file"),
                ("gpt2", 1, [*once, "--precision", "bf16"], 0.5, "parameters=file"),
                ("bert", 2, [*several, "--mesh", "pipe=2", "--recompute", "full"], 0.5,
                 "parameters=file,activations=file"),
                ("llama", 2, [*once, "--mesh", "data=2", "--zero", 3], 0.5,
                 "parameters=file"))):
            with self.subTest(family=family, flags=flags, place=place):
                layers = 6 if "parameters" in place else 2
                flags = ["--seq", 7, *flags]
                config = {"gradient_clipping": clipping}
                place = ["--place", place, "--sub-group-size", 1024]
                model = model_of(self, family, 10 * layers + ranks, layers)
                init = [] if family == "gpt2" else ["--init", "random"]
                plan = self.explain(self.compile(model, *flags, *init, *place,
                                                   config=config, output="least"))
                peak = sum(plan["memory"]["kinds"]["device"].values())
                filed = plan["memory"]["kinds"]["file"]["persistent"]
                under_way = []
                for part in (0, 0.1, 1):
                    budget = peak + int(part * filed)
                    name = f"ahead-{case}-{part}"
                    self.compare(name, family, ranks, flags, config,
                                 [*place, "--memory-budget", budget], model=model)
                    there = self.explain(self.path(f"job-there-{name}"))
                    kinds = there["memory"]["kinds"]
                    self.assertLessEqual(sum(kinds["device"].values()), budget)
                    (read,), (read_before,) = (
                        [move for move in p["moves"] if move["from"] == "file"]
                        for p in (there, plan))
                    self.assertEqual(read["bytes"], read_before["bytes"])
                    under_way.append(read["most_under_way"])
                self.assertEqual(under_way, sorted(under_way))
                # Gradients are fetched for the norm, just before.
                if "gradients" not in place[1]:
                    self.assertLess(under_way[0], under_way[2])

    def test_trains_to_the_same_bits(self):
        seeds = range(LONG) if h.LONG else SHORT
        if "HEDDLE_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HEDDLE_TEST_SEED"])]
        for seed in seeds:
            with self.subTest(seed=seed, drawn=draw(seed)):
                self.check(seed)

    def test_gradients_wait_elsewhere(self):
        """Layers share pages of the file; an embedding is far from its head."""
        once, twice = ["--micro-batch", 2], ["--micro-batch", 2, "--accumulate", 2]
        for case, (family, ranks, flags, clipping, place) in enumerate((
                ("gpt2", 1, [*once, "--precision", "bf16"], 0.5, "gradients=file"),
                ("gpt2", 1, [*twice, "--recompute", "full"], 0.5,
                 "optimizer=file,gradients=file"),
                ("llama", 1, [*twice, "--optimizer", "Lamb"], 0, "gradients=host"),
                ("llama", 2, [*twice, "--mesh", "data=2", "--zero", 1], 0.5,
                 "optimizer=file,gradients=file"),
                ("llama", 2, [*twice, "--mesh", "data=2", "--zero", 2], 0.5,
                 "gradients=file"),
                ("bert", 2, [*twice, "--mesh", "tensor=2"], 0.5, "gradients=file"),
                ("gpt2", 2, [*twice, "--mesh", "pipe=2"], 0.5, "gradients=file"),
                # Stages add up a table that is a flat state by itself.
                ("gpt2", 4, [*twice, "--mesh", "data=2,pipe=2", "--zero", 2], 0.5,
                 "gradients=host"),
                # All replicas keep all of it, with padding at its end.
                ("gpt2", 4, ["--micro-batch", 2, "--mesh", "data=2,pipe=2"], 0.5,
                 "gradients=file"),
                # Fragments share pages.
                ("gpt2", 2, ["--micro-batch", 2, "--accumulate", 1, "--mesh", "pipe=2",
                             "--schedule", "zb-h1"], 0.5, "gradients=file"))):
            with self.subTest(family=family, flags=flags, place=place):
                self.compare(f"wait-{case}", family, ranks, ["--seq", 7, *flags],
                             {"gradient_clipping": clipping},
                             ["--place", place, "--sub-group-size", 5000])

    def test_gradients_leave_the_device(self):
        """All that is left of them are tiles. Each byte is stored once in a step with
        one micro-batch, and read for the norm and for the update."""
        model = self.make_model(embed=48, layers=12)[0]

        def explain(*flags):
            binary = self.compile(model, "--micro-batch", 1, "--seq", 8, "--sub-group-size",
                                  20000, *flags, output="job")
            return self.explain(binary)

        for sums in (1, 3):
            flags = ["--accumulate", sums]
            here, there = explain(*flags), explain(*flags, "--place", "gradients=file")
            gradients = here["memory"]["owners"]["gradients"]
            self.assertNotIn("gradients", there["memory"]["owners"])
            device = [plan["memory"]["kinds"]["device"] for plan in (here, there)]
            self.assertLess(device[1]["persistent"],
                            device[0]["persistent"] - gradients + 2 * 4096)
            peaks = [kind["persistent"] + kind["arena"] for kind in device]
            # There are those of three layers of twelve: to come, here, and to go.
            self.assertLess(peaks[1], peaks[0] - 0.65 * gradients)
            moves = {(move["from"], move["to"]): move["bytes"] for move in there["moves"]}
            filed = there["memory"]["kinds"]["file"]["persistent"]
            stored, read = sums * filed, (sums + 1) * filed
            self.assertLess(abs(moves["device", "file"] - stored), 4096 * (sums + 1))
            self.assertLess(abs(moves["file", "device"] - read), 16 * 4096 * (sums + 1))

    def test_resumes_from_one_placement_in_another(self):
        """On the mesh that saved and on another one, whose plan without placements goes
        on in the same way."""
        model = self.make_model()[0]
        data, _ = self.make_tokens(2000, 97)
        flags = ["--batch", 4, "--seq", 8, "--precision", "bf16"]
        places = {"here": [],
                  "optimizer": ["--place", "optimizer=file"],
                  "parameters": ["--place", "parameters=file,activations=file"],
                  "gradients": ["--place", "optimizer=host,gradients=file"]}
        meshes = {"one": (1, ["--mesh", "data=1", "--accumulate", 2]),
                  "two": (2, ["--mesh", "data=2", "--zero", 3])}
        jobs = {(mesh, place): self.compile(
            model, *flags, *shape, *more, "--sub-group-size", 2000,
            output=f"{mesh}-{place}")
            for place, more in places.items() for mesh, (_, shape) in meshes.items()}

        def go_on(mesh, place, folder):
            steps = self.train(jobs[mesh, place], data, 4, "--resume", folder,
                               ranks=meshes[mesh][0])
            return [(step["step"], step["loss"], step["grad_norm"]) for step in steps]

        kept = {}
        for first in places:
            folder = self.path("saved-" + first)
            self.train(jobs["one", first], data, 2, "--save", folder)
            for mesh in meshes:
                for second in {"here": places, "optimizer": ["gradients"],
                               "parameters": ["here"],
                               "gradients": ["parameters"]}[first]:
                    with self.subTest(first=first, mesh=mesh, second=second):
                        found = go_on(mesh, second, folder)
                        self.assertEqual([step[0] for step in found], [3, 4])
                        self.assertEqual(kept.setdefault(mesh, found), found)

    def test_the_host_s_memory_counts_on_a_cpu(self):
        """There the budget of the device bounds both, unless the host's has its own."""
        model = self.make_model()[0]
        place = ["--batch", 4, "--seq", 8, "--place", "optimizer=host,parameters=pinned"]
        kinds = self.explain(self.compile(model, *place))["memory"]["kinds"]
        device, host, pinned = (sum(kinds[kind].values())
                                for kind in ("device", "host", "pinned"))
        self.assertGreater(min(host, pinned), 4096)
        both = device + host + pinned
        self.compile(model, *place, "--memory-budget", f"device={both}", output="fits")
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), *place,
                      "--memory-budget", f"device={both - 1}"], 4).stderr
        self.assertIn("error[H0201]", said)
        self.assertIn(f"({both} bytes)", said)
        budget = f"device={device},host={host + pinned}"
        self.compile(model, *place, "--memory-budget", budget, output="fits")
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), *place,
                      "--memory-budget", f"device={device},host={host + pinned - 1}"],
                     4).stderr
        self.assertIn("in the host's memory", said)

    def test_memory_is_planned_by_kind(self):
        model = self.make_model()[0]
        flags = ["--batch", 4, "--seq", 8, "--sub-group-size", 2000]
        moves = {}

        def memory(*more, output):
            binary = self.compile(model, *flags, *more, output=output)
            plan = self.explain(binary)
            moves[output] = plan["moves"]
            return plan["memory"]

        here, there = memory(output="all"), memory("--place", "optimizer=file", output="filed")
        moments = here["owners"]["optimizer"]
        filed = there["kinds"]["file"]["persistent"]
        # Each byte is read once and written once in a step.
        self.assertEqual(
            [(move["from"], move["to"], move["bytes"]) for move in moves["filed"]],
            [("device", "file", filed), ("file", "device", filed)])
        self.assertEqual(moves["all"], [])
        self.assertLess(abs(filed - moments), 3 * 4096)
        saved = here["kinds"]["device"]["persistent"] - there["kinds"]["device"]["persistent"]
        self.assertLess(abs(saved - moments), 3 * 4096)
        # A log counts them apart.
        self.train(self.path("filed"), self.make_tokens(200, 97)[0], 1)
        (end,) = h.read_log(self.path("run.jsonl"), "end")
        memory_bytes = there["peak"]
        self.assertEqual(end["peak_bytes"], {"planned": memory_bytes, "mapped": memory_bytes,
                                             "file": filed, "ranks": [memory_bytes]})
        # Where that is enough, the error of a budget names it.
        budget = ["--memory-budget", there["kinds"]["device"]["arena"]
                  + there["kinds"]["device"]["persistent"] + 40000]
        little = [*flags, "--micro-batch", 1, "--accumulate", 4, "--recompute", "full"]
        self.assertEqual(self.proposed(model, *little, *budget),
                         ["--place", "optimizer=file"])
        self.compile(model, *flags, *budget, "--place", "optimizer=file", output="fits")
        # A budget of the file's bytes is kept, and one byte less is not.
        place = ["--place", "optimizer=file", "--memory-budget"]
        summary = h.run([h.HEDDLE, "compile", model, "-o", self.path("fits"), *flags,
                         *place, f"file={filed}"]).stderr
        self.assertIn(f"({there['peak']} bytes) of memory, ", summary)
        self.assertIn(f"({filed} bytes) on file", summary)
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), *flags, *place,
                      f"device=1GiB,file={filed - 1}"], 4).stderr
        self.assertIn("error[H0201]", said)
        self.assertIn("on file", said)
        self.assertIn("help: compile with --place optimizer=device\n", said)

    def proposed(self, model, *flags):
        """The flags that the error of a budget names; None where it knows of none."""
        said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), *flags], 4,
                     env=h.without_ptxas()).stderr
        self.assertIn("error[H0201]", said)
        found = re.search("^  help: compile with (.*)$", said, re.MULTILINE)
        if not found:
            self.assertIn("help: use more ranks (--mesh), or fewer tokens at a time", said)
        return found and found[1].split()

    def test_what_a_budget_s_error_names_fits(self):
        model = self.make_model()[0]
        flags = ["--mesh", "data=2", "--batch", 8, "--seq", 8]
        binary = self.compile(model, *flags, output="whole")
        peak = self.explain(binary)["memory"]["peak"]
        names = set()
        for percent in (90, *[60] * h.LONG, 45, 1):
            with self.subTest(percent=percent):
                budget = ["--memory-budget", peak * percent // 100]
                found = self.proposed(model, *flags, *budget)
                names.add(tuple(found or []))
                if found:
                    self.compile(model, *flags, *budget, *found, output="smaller")
        self.assertGreaterEqual(len(names), 3)
        self.assertIn((), names)
        # A binary that serves has other means.
        serving = ["--mode", "serve"]
        binary = self.compile(model, *serving, output="whole")
        peak = self.explain(binary)["memory"]["peak"]
        budget = ["--memory-budget", peak * 9 // 10]
        found = self.proposed(model, *serving, *budget)
        self.compile(model, *serving, *budget, *found, output="smaller")

    def test_files_where_the_host_has_no_room(self):
        model = os.path.join(h.ROOT, "examples", "gpt2-bytes", "config.json")
        flags = ["--init", "random", "--batch", 2, "--micro-batch", 1, "--seq", 8,
                 "--recompute", "full", "--target", "sm_80", "--memory-budget"]
        for device, place in (("40MiB", "optimizer=file"),
                              ("30MiB", "optimizer=file,parameters=file")):
            budget = f"device={device},host=18MiB"
            found = self.proposed(model, *flags, budget)
            self.assertEqual(found, ["--place", place])
            self.compile(model, *flags, budget, *found, output="fits")

    def test_activations_of_two_loops_share_slots(self):
        """Updates beside the backward pass give the last micro-batch a loop of its
        own."""
        model = self.make_model("deep", layers=6)[0]
        bytes_ = []
        for delayed in (["--delayed-update"], []):
            binary = self.compile(
                model, "--micro-batch", 2, "--accumulate", 3, "--seq", 17, "--place",
                "optimizer=file,activations=file", *delayed, output="loops")
            plan = self.explain(binary)
            bytes_.append(plan["memory"]["owners"][
                "activations of micro-batches under way on file"])
        self.assertEqual(*bytes_)

    def test_parameters_are_fetched_for_each_layer(self):
        model = self.make_model()[0]
        data, _ = self.make_tokens(2000, 97)
        said, plans = [], []
        for place in ("optimizer=device", "parameters=file"):
            binary = self.compile(model, "--batch", 4, "--seq", 8, "--precision", "bf16",
                                  "--place", place, output="job")
            plans.append(self.explain(binary))
            verbs = (["eval", "--data", data],
                     ["generate", "--prompt-ids", "5,7", "--max-new-tokens", 20])
            results = [json.loads(h.run([binary, *verb, "--json"]).stdout) for verb in verbs]
            said.append((results[0]["loss"], results[1]["ids"]))
        self.assertEqual(said[0], said[1])
        here, there = (plan["memory"] for plan in plans)
        copies = here["owners"]["parameters in compute precision"]
        placed = there["owners"]["parameters in compute precision on file"]
        self.assertLess(abs(placed - copies), 2 * 4096)
        self.assertNotIn("parameters in compute precision", there["owners"])
        moves = {(move["from"], move["to"]): move["bytes"] for move in plans[1]["moves"]}
        # Stored once, and read no more than once for each pass.
        self.assertEqual(moves["device", "file"],
                         there["kinds"]["file"]["persistent"])
        self.assertLess(moves["file", "device"], 2 * placed + 12 * 4096)
        self.assertGreater(moves["file", "device"], placed)

    def test_embeddings_fetch_rows(self):
        """The rows of a micro-batch's tokens, not the table: of a prime vocabulary and
        rows that begin anywhere in a page; with a table of its own and as the head."""
        vocab, tokens = 4099, 2 * 5
        llama = self.path("wide.json")
        with open(llama, "w") as file:
            json.dump(families.config(vocab_size=vocab, hidden_size=40), file)
        gpt2 = self.make_model("wide", vocab=vocab, embed=36)[0]
        for name, family, ranks, flags, place in (
                ("own", "llama", 1, ["--accumulate", 2], "parameters=file"),
                ("tied", "gpt2", 1, ["--precision", "bf16"],
                 "parameters=file,activations=file,optimizer=file"),
                ("host", "llama", 1, ["--recompute", "full"], "parameters=host"),
                ("zero", "llama", 2, ["--mesh", "data=2", "--zero", 2], "parameters=file"),
                ("pipe", "llama", 2, ["--mesh", "pipe=2", "--accumulate", 2],
                 "parameters=file"),
                ("parts", "llama", 2, ["--mesh", "tensor=2", "--accumulate", 2],
                 "parameters=file"),
                ("four", "gpt2", 4, ["--mesh", "tensor=4"],
                 "parameters=file,optimizer=file"),
                ("bf16", "llama", 2, ["--mesh", "tensor=2", "--precision", "bf16"],
                 "parameters=host"),
                ("stages", "gpt2", 4, ["--mesh", "pipe=2,tensor=2", "--accumulate", 2],
                 "parameters=file")):
            if name in ("four", "bf16") and not h.LONG:
                continue
            with self.subTest(name):
                flags = [*flags, "--micro-batch", 2, "--seq", 5]
                binary = self.compare(
                    f"rows-{name}", family, ranks, flags, {"gradient_clipping": 0.5},
                    ["--place", place], model=llama if family == "llama" else gpt2,
                    vocab=vocab)
                said = h.run([h.HEDDLE, "explain", binary]).stdout
                self.assertRegex(said, "[0-9]+ copies? of rows")
        # What is moved is what the plan says, and less than the table.
        binary = self.path("job-there-rows-own")
        plan = json.loads(h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)
        read = sum(move["bytes"] for move in plan["moves"] if move["from"] == "file")
        found = json.loads(h.run([binary, "bench", "--steps", 2, "--json"]).stdout)
        self.assertEqual(found["file_bytes_read"], read)
        table = vocab * 40 * 4
        # Two micro-batches fetch the head; the update reads all once.
        whole = plan["parameters"] * 4
        self.assertLess(read, 3 * whole - 2 * table + 2 * tokens * 8192 + 64 * 4096)
        # Of a part of a table a rank reads the rows that it has.
        binary, steps = self.path("job-there-rows-parts"), 2
        (said,) = [move for move in self.explain(binary)["moves"]
                   if move["from"] == "file"]
        self.assertEqual(said["bytes_of_parts"], 2 * tokens * 8192)
        found = json.loads(h.run_ranks(2, [binary, "bench", "--steps", steps,
                                           "--json"]).stdout)
        missing = steps * (said["bytes"] - found["file_bytes_read"])
        self.assertEqual(missing % 8192, 0)
        self.assertGreater(missing, 0)
        self.assertLess(missing, steps * said["bytes_of_parts"])
        # Other programs, and tokens that are no rows.
        verbs = (["eval", "--data", self.path("tokens.bin")],
                 ["generate", "--prompt-ids", "4098,0,7", "--max-new-tokens", 9])
        here, there = ([json.loads(h.run([self.path(f"job-{where}-rows-own"), *verb,
                                          "--json"]).stdout) for verb in verbs]
                       for where in ("here", "there"))
        self.assertEqual(here[0]["loss"], there[0]["loss"])
        self.assertEqual(here[1]["ids"], there[1]["ids"])

    def test_replicas_part_what_a_budget_has_no_room_for(self):
        model = self.make_model()[0]
        flags = ["--mesh", "data=2", "--batch", 4, "--seq", 8]
        binary = self.compile(model, *flags, output="whole")
        memory = self.explain(binary)["memory"]
        budget = ["--memory-budget", memory["peak"] - memory["owners"]["optimizer"] // 3]
        self.assertEqual(self.proposed(model, *flags, *budget), ["--zero", "1"])
        self.compile(model, *flags, *budget, "--zero", 1, output="parted")

    def test_what_cannot_be_placed_is_refused(self):
        model = self.make_model()[0]
        for more, status, text in (
                (["--place", "gradients=disk"], 2, "error[H0114]"),
                (["--place", "optimizer=disk"], 2, "error[H0114]"),
                (["--place", "optimizer=file,optimizer=host"], 2, "error[H0114]"),
                (["--place", "optimizer"], 2, "error[H0114]"),
                (["--memory-budget", "tape=1GiB"], 2, "error[H0114]")):
            with self.subTest(more):
                said = h.run([h.HEDDLE, "compile", model, "-o", self.path("no"), *more],
                             status).stderr
                self.assertIn(text, said)

    def test_ds_config(self):
        model = self.make_model()[0]
        place = {"device": "nvme", "nvme_path": self.folder, "pin_memory": True,
                 "buffer_count": 4}
        config = h.ds_config(zero_optimization={
            "stage": 3, "sub_group_size": 3000, "offload_optimizer": place,
            "offload_param": place})
        binary = self.compile(model, "--batch", 2, "--seq", 8, config=config)
        plan = self.explain(binary)
        self.assertLessEqual({"optimizer on file", "parameters on file"},
                             set(plan["memory"]["owners"]))
        # The host's memory is the CPU's own.
        place["device"] = "cpu"
        command = [h.HEDDLE, "compile", model, "-o", self.path("host"), "--config"]
        said = h.run([*command, self.write(config), "--explain-config", "--all"]).stdout
        self.assertRegex(said, r'"cpu" +ds.json:1 +no meaning here: kernels')
        self.compile(model, "--batch", 2, "--seq", 8, config=config, output="host")
        plan = self.explain(self.path("host"))
        self.assertEqual(set(plan["memory"]["kinds"]), {"device"})
        place["device"] = "tape"
        said = h.run([*command, self.write(config)], 2).stderr
        self.assertTrue(re.search(r"error\[H0105\].*none, cpu or nvme", said), said)

    def write(self, config):
        with open(self.path("ds.json"), "w") as file:
            json.dump(config, file)
        return self.path("ds.json")


if __name__ == "__main__":
    unittest.main()
