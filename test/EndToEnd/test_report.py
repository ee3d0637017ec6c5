#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `heddle report` and the pictures of `heddle explain --svg`: their figures
are those of `heddle explain --json`, owners add up, and elements are counted."""

import filecmp
import json
import os
import re
import shlex
import sys
import time
import unittest

import report_page
from heddle_test import HEDDLE, LONG, ROOT, HeddleTest, run, run_ranks

CPU_NODE = os.path.join(ROOT, "examples/clusters/cpu-node.json")
DGX = os.path.join(ROOT, "examples/clusters/dgx-8x8.json")
LLAMA = os.path.join(ROOT, "examples/llama/config.json")
GPT2 = os.path.join(ROOT, "examples/gpt2/config.json")


def size_text(size):
    """As `heddle explain` prints bytes."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    unit = 0
    while size >= 1024 and unit + 1 < len(units):
        size, unit = size / 1024, unit + 1
    return f"{size:.2f} {units[unit]}" if unit else f"{size:.0f} B"


def ranks_of(text):
    """The ranks of `0-3, 8`."""
    ranks = []
    for part in text.split(", "):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def explained_of(plan, ranks):
    """What `explain --json --rank N` prints for a class of ranks."""
    own = {key: plan["ranks"][value["same_as"]]["explain"][key]
           if isinstance(value, dict) and "same_as" in value else value
           for key, value in ranks["explain"].items()}
    return {**plan["explain"], **own}


def programs_of(plan, ranks):
    """The memory of the programs of a class of ranks."""
    programs = []
    for one in ranks["programs"]:
        name = one["name"]
        while "same_as" in one:
            of = plan["ranks"][one["same_as"]]["programs"]
            one = next(other for other in of if other["name"] == name)
        programs.append(one)
    return programs


# Drags in the plot twice, presses keys of the browser and of the page, and copies a
# table. Says what is shown then, how many rows are marked, and what has the focus.
USE = """
const plot = document.querySelector("figure[data-kind]:not([hidden]) .plot");
const back = plot.ownerSVGElement.querySelector(".back").getBoundingClientRect();
const shown = () => {
  const [x, , width] = plot.getAttribute("viewBox").split(" ").map(Number);
  return Math.round(x) + " " + Math.round(width);
};
const drag = (from, to) => {
  for (const [name, at] of [["pointerdown", from], ["pointerup", to]])
    plot.dispatchEvent(new PointerEvent(
        name, {clientX : back.left + at * back.width, bubbles : true}));
  return shown();
};
const press = (one, key, more) => one.dispatchEvent(
    new KeyboardEvent("keydown", {key, bubbles : true, ...more}));
const said = [[0.25, 0.75], [0.2, 0.6]].map(ends => drag(...ends));
press(plot, "0", {ctrlKey : true});
said.push(shown());
press(plot, "0");
said.push(shown());
const row = document.querySelector('[data-table="live"] tr[data-buffer]');
row.focus();
press(document.activeElement, "Enter");
said.push(row.classList.contains("marked"));
const copy = document.querySelector('[data-table="live"] button');
copy.focus();
copy.click();
said.push(document.activeElement === copy);
document.documentElement.dataset.said = said.join("; ");
"""


class ReportTest(HeddleTest):
    def report(self, *arguments, output="report.html", status=0):
        said = run([HEDDLE, "report", *arguments, "-o", self.path(output)], status)
        return said.stderr if status else report_page.read_page(self.path(output))

    def check_memory(self, owners, programs, kinds):
        """The owners at the peak of each kind of memory add up to what the plan
        reserves. In the program that needs most, they are the owners of `explain`."""
        is_known = False
        for program in programs:
            for memory in program["memory"]:
                of = memory["peak"]["owners"]
                self.assertEqual(sum(of.values()), memory["bytes"], memory["kind"])
                at = [step for step in memory["steps"]
                      if step[0] <= memory["peak"]["command"]][-1]
                self.assertEqual(dict(zip(memory["owners"], at[1:])),
                                 {name: of[name] for name in memory["owners"]})
                most = max(sum(step[1:]) for step in memory["steps"])
                self.assertEqual(sum(at[1:]), most)
            device = programs[0]["memory"][0]
            of = program["memory"][0]["peak"]["owners"]
            is_known |= all(owners.get(name, 0) == size for name, size in of.items()
                           if name != "padding to pages")
        self.assertTrue(is_known)
        self.assertEqual(device["kind"], "device")
        for memory in programs[0]["memory"]:
            known = kinds[memory["kind"]]
            self.assertGreaterEqual(memory["bytes"], known["arena"] + known["persistent"])
        self.assertEqual(sum(memory["bytes"] for memory in programs[0]["memory"]),
                         sum(owners.values()))

    def check_plan(self, page, plan, binary, *flags):
        """The data and the elements of a plan's part of the page."""
        self.assertEqual(plan["explain"], self.explain(binary, *flags))
        ranks = []
        for of in plan["ranks"]:
            members = ranks_of(of["ranks"])
            self.assertEqual(len(members), of["count"])
            ranks += members
            explained = explained_of(plan, of)
            for rank in {members[0], members[-1]}:
                known = self.explain(binary, "--rank", rank, *flags)
                for key in known.keys() - {"rank", "stage"}:
                    self.assertEqual(explained[key], known[key], key)
            self.check_memory(explained["memory"]["owners"], programs_of(plan, of),
                              explained["memory"]["kinds"])
        self.assertEqual(sorted(ranks), list(range(plan["explain"]["ranks"])))
        peaks = [explained_of(plan, of)["memory"]["peak"] for of in plan["ranks"]]
        self.assertEqual(peaks, sorted(peaks, reverse=True))
        buffers = 0
        for i, of in enumerate(plan["ranks"]):
            for program in of["programs"]:
                self.assertLess(program.get("same_as", -1), i)
            own = [memory for program in of["programs"]
                   for memory in program.get("memory", [])]
            buffers += sum(len(memory["buffers"]) for memory in own)
            figures = [one for one in page.elements["figure"]
                       if one.get("data-rank-class") == of["ranks"]]
            self.assertEqual(len(figures), len(own))
        self.assertEqual(len([one for one in page.elements["rect"]
                              if "data-buffer" in one]), buffers)

    def check_safety(self, page, text):
        """Nothing is loaded, and a policy says so."""
        policy = [one["content"] for one in page.elements["meta"]
                  if one.get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(policy, ["default-src 'none'; style-src 'unsafe-inline'; "
                                  "script-src 'unsafe-inline'"])
        for attribute in ("src", "xlink:href", "srcset", "onload", "onclick"):
            self.assertEqual(page.having(attribute), [])
        for one in page.having("href"):
            self.assertTrue(one["href"].startswith("#"), one)
        self.assertEqual(re.findall(r"url\(|@import|https?://(?!www\.w3\.org)", text), [])


class Pages(ReportTest):
    def check_command(self, plan, binary):
        """The command on the page makes the same plan."""
        words = shlex.split(plan["command"])
        self.assertEqual(words[:2], ["heddle", "compile"])
        model = LLAMA if words[2] == "config.json" else words[2]
        self.assertEqual("strategy" in plan, "strategy.json" in words)
        if "strategy" in plan:
            words[words.index("strategy.json")] = self.path("strategy.json")
            with open(self.path("strategy.json"), "w") as file:
                json.dump(plan["strategy"], file)
        again = self.compile(model, *words[3:], output="again")
        self.assertEqual(self.explain(again)["plan"], plan["explain"]["plan"])

    def count_rooflines(self, page):
        return [one.get("data-plot") for one in page.elements["svg"]].count("roofline")

    def test_one_rank(self):
        model, _, _ = self.make_model()
        binary = self.compile(model, "--batch", 4, "--seq", 32, "--threads", 2)
        page, data, text = self.report(binary)
        self.assertEqual(data["version"], 1)
        self.check_safety(page, text)
        self.check_plan(page, data["plans"][0], binary)
        self.report(binary, output="again.html")
        self.assertTrue(filecmp.cmp(self.path("report.html"), self.path("again.html"),
                                    shallow=False))
        self.assertIn(model, data["plans"][0]["command"])
        self.check_command(data["plans"][0], binary)

        _, redacted, text = self.report(binary, "--redact", output="redacted.html")
        self.assertNotIn(self.folder, text)
        self.assertIn("heddle compile model", redacted["plans"][0]["command"])

        # Another plan of the same model, side by side.
        other = self.compile(model, "--batch", 4, "--seq", 32, "--threads", 2,
                             "--recompute", "full", "--accumulate", 2, output="other")
        page, data, _ = self.report(binary, other, "--cluster", CPU_NODE)
        self.assertEqual(self.count_rooflines(page), 2)
        self.assertEqual(len(data["plans"]), 2)
        self.assertEqual(data["plans"][1]["explain"],
                         self.explain(other, "--cluster", CPU_NODE))
        self.assertIn("compare", [one.get("id") for one in page.elements["section"]])

    def test_pipeline(self):
        binary = self.compile(LLAMA, "--init", "random", "--batch", 8, "--seq", 64,
                              "--mesh", "pipe=2,data=2", "--zero", 3, "--micro-batch", 1,
                              "--threads", 1, "--place", "optimizer=file")
        page, data, text = self.report(binary, "--cluster", DGX)
        plan = data["plans"][0]
        self.check_plan(page, plan, binary, "--cluster", DGX)
        # Only whole programs are compared with the budget, and not frames of layers.
        frames = {program["name"] for of in plan["ranks"] for program in of["programs"]
                  if program.get("frame")}
        self.assertIn("block", frames)
        for figure in text.split("<figure")[1:]:
            found = re.search(r'data-program="([^"]*)" data-kind="device"', figure)
            if found:
                self.assertEqual("of a budget of" in figure, found[1] not in frames)
                self.assertEqual("of the frame" in figure, found[1] in frames)
        stages = [one for one in page.elements["g"] if "data-stage" in one]
        self.assertEqual(len(stages), 2)
        passes = sum(len(line.split()) for line in plan["explain"]["schedule_lines"])
        self.assertEqual(len(page.having("data-pass")), passes)
        step = plan["explain"]["step"]
        self.assertAlmostEqual(sum(step[name] for name in (
            "computation", "collectives", "copies", "pipeline")), step["seconds"])
        self.assertEqual(len(page.having("data-part")),
                         sum(step[name] > 0 for name in (
                             "computation", "collectives", "copies", "pipeline")))
        kinds = {memory["kind"] for memory in plan["ranks"][0]["programs"][0]["memory"]}
        self.assertEqual(kinds, {"device", "file"})
        self.check_command(plan, binary)

    def test_settings_without_flags(self):
        """What a ds_config.json gives and no flag does is shown as a strategy file."""
        model, _, _ = self.make_model()
        binary = self.compile(model, "--seq", 32, "--threads", 1, config={
            "train_batch_size": 4, "gradient_clipping": 0.7,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.002, "betas": [0.8, 0.95]}},
            "scheduler": {"type": "WarmupDecayLR", "params": {
                "warmup_num_steps": 3, "total_num_steps": 50}}})
        _, data, text = self.report(binary)
        strategy = data["plans"][0]["strategy"]
        self.assertEqual({key: strategy[key] for key in (
            "beta1", "beta2", "gradient_clipping", "scheduler")}, {
                "beta1": 0.8, "beta2": 0.95, "gradient_clipping": 0.7,
                "scheduler": "WarmupDecayLR"})
        self.assertIn("&quot;gradient_clipping&quot;:0.7", text)
        self.check_command(data["plans"][0], binary)

    def test_layouts(self):
        """Two layouts are two figures of the page, and one picture by itself. Their files
        keep the pattern of their layers if directories are left out."""
        model, config, _ = self.make_model(positions=64)
        flags = []
        for name, glob in (("even", "h.*[02468]="), ("odd", "h.*[13579]=")):
            file = self.path(name + ".safetensors")
            run([HEDDLE, "layout", "local", "--heads", config["n_head"], "--seq", 64,
                 "--block", 16, "--num-sliding-window-blocks", 1 if flags else 3, "-o",
                 file])
            flags += ["--attention-layout", glob + file]
        binary = self.compile(model + "/", "--batch", 4, "--seq", 64, "--threads", 1,
                              "--attention-layout-causal", *flags)
        page, data, _ = self.report(binary, "--redact")
        self.assertEqual([one.get("class") for one in page.elements["svg"]].count("layout"),
                         2)
        command = data["plans"][0]["command"]
        self.assertIn("heddle compile model ", command)
        for file in ("h.*[02468]=even.safetensors", "h.*[13579]=odd.safetensors"):
            self.assertIn(f"--attention-layout '{file}'", command)
        run([HEDDLE, "explain", binary, "--svg", "layout", "-o", self.path("F.svg")])
        self.assertEqual(report_page.read_svg(self.path("F.svg"))("class").count("layout"),
                         2)

    def test_serving(self):
        model, _, _ = self.make_model()
        binary = self.compile(model, "--mode", "serve", "--max-batch", 2,
                              "--max-context", 32, "--quantize", "int8", "--threads", 1)
        page, data, _ = self.report(binary, "--cluster", CPU_NODE)
        self.check_plan(page, data["plans"][0], binary, "--cluster", CPU_NODE)
        self.check_command(data["plans"][0], binary)
        # Launches are counted for a training step, so a roofline would have no kernels.
        self.assertEqual(self.count_rooflines(page), 0)
        packed = [state for state in data["plans"][0]["states"] if "packed" in state]
        self.assertEqual({state["packed"]["bits"] for state in packed
                          if state["packed"]["part"] == "words"}, {8})

    def test_run(self):
        model, config, _ = self.make_model()
        data, _ = self.make_tokens(3000, config["vocab_size"])
        flags = ["--batch", 4, "--seq", 32, "--threads", 1, "--mesh", "pipe=2",
                 "--accumulate", 4]
        binary = self.compile(model, *flags)
        log, trace = self.path("log.jsonl"), self.path("trace.json")
        run_ranks(2, [binary, "train", "--data", data, "--steps", 4, "--log", log,
                      "--trace", trace, "--save", self.path("out")])
        page, found, _ = self.report(binary, "--log", log, "--trace", trace)
        curves = {curve["name"]: curve["points"] for curve in found["log"]["curves"]}
        steps = [json.loads(line) for line in open(log)]
        steps = [step for step in steps if step["event"] == "step"]
        self.assertEqual(curves["loss"], [[s["step"], s["loss"]] for s in steps])
        self.assertEqual([event["event"] for event in found["log"]["events"]],
                         ["start", "peak", "save", "end"])
        measured = found["plans"][0]["measured"]
        known = self.explain(binary, "--trace", trace)
        for key in ("bubble", "idle", "fragment_times", "exposed", "step"):
            self.assertEqual(measured[key], known[key], key)
        self.assertEqual(len([one for one in page.elements["svg"]
                              if one.get("data-plot") == "measured"]), 1)

        # The curves of a long run are thinned out, and keep its ends.
        with open(log) as file:
            lines = [line for line in file if '"step"' not in line.split(",")[0]]
        with open(self.path("long.jsonl"), "w") as file:
            file.write(lines[0])
            for step in range(1, 5002):
                file.write(json.dumps({"event": "step", "step": step, "loss": 1 / step})
                           + "\n")
        _, found, _ = self.report(binary, "--log", self.path("long.jsonl"))
        points = found["log"]["curves"][0]["points"]
        self.assertEqual(len(points), 2000)
        self.assertEqual(points[0], [1, 1])
        self.assertEqual(points[-1], [5001, 1 / 5001])

        other = self.compile(model, *flags, "--recompute", "full", output="other")
        for flag, file in (("--log", log), ("--trace", trace)):
            said = self.report(other, flag, file, status=3)
            self.assertIn("error[H0388]", said)
            self.assertIn("of another plan", said)
            self.assertIn("error[H0388]", self.report(binary, flag, binary, status=3))

    def test_bad_input(self):
        with open(self.path("none"), "w") as file:
            file.write("no binary")
        self.assertIn("error[H0381]", self.report(self.path("none"), status=3))
        self.assertFalse(os.path.exists(self.path("report.html")))
        with open(self.path("report.html"), "w") as file:
            file.write("an older page")
        self.assertIn("error[H0381]", self.report(self.path("none"), status=3))
        with open(self.path("report.html")) as file:
            self.assertEqual(file.read(), "an older page")
        model, _, _ = self.make_model()
        binary = self.compile(model, "--batch", 1, "--seq", 16)
        os.mkdir(self.path("folder"))
        self.assertIn("error[H0402]", self.report(binary, output="folder", status=5))
        said = run([HEDDLE, "report", binary, "-o", binary], 2).stderr
        self.assertIn("error[H0160]", said)
        said = run([HEDDLE, "explain", binary, "--svg", "mesh"], 2).stderr
        self.assertIn("error[H0113]", said)
        said = run([HEDDLE, "explain", binary, "--svg", "layout", "-o",
                    self.path("F.svg")], 2).stderr
        self.assertIn("error[H0189]", said)
        for flag in ("--json", "--kernels", "--modules"):
            said = run([HEDDLE, "explain", binary, "--svg", "mesh", flag, "-o",
                        self.path("G.svg")], 2).stderr
            self.assertIn(f"error[H0113]: {flag}", said)
        self.assertFalse(os.path.exists(self.path("G.svg")))

    def test_names_are_escaped(self):
        os.mkdir(self.path("<"))
        model, _, _ = self.make_model("</script>")
        binary = self.compile(model, "--batch", 1, "--seq", 16,
                              output="<b>&\"</script>".replace("/", "_"))
        page, data, text = self.report(binary)
        self.assertIn("</script>", shlex.split(data["plans"][0]["command"])[2])
        self.assertNotIn("strategy", data["plans"][0])
        self.assertEqual(text.count("</script>"), len(page.elements["script"]))
        self.assertEqual(data["plans"][0]["name"], '<b>&"<_script>')
        self.assertEqual(page.texts["h1"], ['<b>&"<_script>'])

    def test_compile_report(self):
        said = run([HEDDLE, "compile", LLAMA, "--init", "random", "--batch", 8, "--seq",
                    64, "--micro-batch", 4, "--mesh", "data=2", "--dry-run", "--report",
                    self.path("dry.html")])
        page, data, _ = report_page.read_page(self.path("dry.html"))
        plan = data["plans"][0]
        peak = plan["explain"]["memory"]["peak"]
        flags = {change["flags"]: change for change in plan["changes"]}
        self.assertIn("--zero 3", flags)
        self.assertIn("--recompute full", flags)
        # The figures are those of plans that are compiled with these flags.
        change = flags["--recompute full"]
        binary = self.compile(LLAMA, "--init", "random", "--batch", 8, "--seq", 64,
                              "--micro-batch", 4, "--mesh", "data=2", "--recompute",
                              "full", "--dump-phases", self.path("dumps"))
        self.assertEqual(self.explain(binary)["memory"]["peak"], change["peak"])
        self.assertEqual(peak - change["peak"], change["less"])
        # A page is of a plan that this compilation makes, and not of an older binary.
        last = self.path("dumps/emit.mlir")
        for flags in ([LLAMA, "--init", "random", "--stop-after", "fuse"],
                      [LLAMA, "--init", "random", "--stop-after", "fuse", "-o", binary],
                      [last, "--start-from", "emit", "-o", binary],
                      [last, "--start-from", "emit", "--dry-run"]):
            said = run([HEDDLE, "compile", *flags, "--report", self.path("F.html")],
                       2).stderr
            self.assertIn("error[H0113]: --report", said)
        self.assertFalse(os.path.exists(self.path("F.html")))

    def test_pictures_of_the_docs(self):
        run([sys.executable, os.path.join(ROOT, "scripts/report_pictures.py"), "--check"])

    def test_pictures(self):
        binary = self.compile(LLAMA, "--init", "random", "--batch", 4, "--seq", 64,
                              "--mesh", "pipe=2,tensor=2", "--micro-batch", 1,
                              "--threads", 1)
        found = {}
        for name in ("memory", "schedule", "transfers", "mesh"):
            for output in ("a.svg", "b.svg"):
                run([HEDDLE, "explain", binary, "--cluster", DGX, "--svg", name, "-o",
                     self.path(output)])
            self.assertTrue(filecmp.cmp(self.path("a.svg"), self.path("b.svg"),
                                        shallow=False))
            found[name] = report_page.read_svg(self.path("a.svg"))
        known = self.explain(binary, "--cluster", DGX)
        self.assertEqual(len(found["mesh"]("data-rank")), 4)
        self.assertEqual(len(found["schedule"]("data-pass")),
                         sum(len(line.split()) for line in known["schedule_lines"]))
        self.assertEqual(len(found["transfers"]("data-transfer")),
                         len(known["communication"]) + len(known["moves"]))
        self.assertIn("parameters", found["memory"]("data-owner"))


@unittest.skipUnless(LONG, "opens pages in a browser only with --long")
@unittest.skipUnless(report_page.CHROMIUM, report_page.WITHOUT_CHROMIUM)
class InChromium(ReportTest):
    takes_long = True

    def open(self, binary, *flags, filled=()):
        """Reports, and opens the page; gives the page as its script left it."""
        _, data, _ = self.report(binary, *flags)
        return self.open_page(self.path("report.html"), data, filled)

    def open_page(self, path, data, filled):
        text, console, asked = report_page.rendered(path)
        self.assertEqual(console, [])
        self.assertEqual(asked, [])
        page = report_page.Page(text)
        self.assertEqual(page.elements["html"][0].get("data-ready"), "true")
        plan = data["plans"][0]
        explained = explained_of(plan, plan["ranks"][0])
        self.assertIn(size_text(explained["memory"]["peak"]), page.texts["b"])
        # One picture of memory is shown, and the tables have rows.
        shown = [one for one in page.elements["figure"]
                 if "data-kind" in one and "hidden" not in one]
        self.assertEqual(len(shown), len(data["plans"]))
        for name in ("live", "owners", "classes", "kernels", "states", "modules", *filled):
            self.assertTrue(re.search(f'data-table="{name}"[^>]*><details', text), name)
        return page

    def test_gpt2(self):
        binary = self.compile(GPT2, "--init", "random", "--batch", 4, "--seq", 256)
        before = time.monotonic()
        self.report(binary)
        self.assertLess(time.monotonic() - before, 2)
        self.open(binary)
        # The drags are over a half of the plot, and over two fifths of what is then shown.
        self.assertEqual(report_page.after_script(self.path("report.html"), USE),
                         "250 500; 350 200; 350 200; 0 1000; true; true")

    def test_llama_on_a_mesh(self):
        binary = self.compile(
            LLAMA, "--init", "random", "--batch", 16, "--seq", 64, "--mesh",
            "pipe=4,tensor=2,data=2", "--zero", 3, "--micro-batch", 1, "--place",
            "optimizer=host", "--threads", 1)
        self.open(binary, "--cluster", DGX, filled=("times", "communication", "moves"))

    def test_serving(self):
        model, _, _ = self.make_model()
        binary = self.compile(model, "--mode", "serve", "--max-batch", 4,
                              "--max-context", 32, "--quantize", "int4", "--group", 16)
        self.open(binary, filled=("quantized", "programs"))

    def test_gpu(self):
        binary = self.compile(GPT2, "--init", "random", "--batch", 4, "--seq", 256,
                              "--target", "sm_90", "--precision", "bf16")
        self.open(binary, "--cluster", DGX)

    def test_two_plans_and_a_run(self):
        model, config, _ = self.make_model()
        tokens, _ = self.make_tokens(3000, config["vocab_size"])
        first = self.compile(model, "--batch", 4, "--seq", 32)
        second = self.compile(model, "--batch", 4, "--seq", 32, "--accumulate", 2,
                              output="other")
        self.train(first, tokens, 5)
        self.open(first, second, "--log", self.path("run.jsonl"),
                  filled=("compare", "events", "steps"))

    def test_a_trillion_parameters(self):
        config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
                  "vocab_size": 50304, "n_positions": 2048, "n_embd": 25600,
                  "n_layer": 128, "n_head": 160, "activation_function": "gelu_new",
                  "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
        with open(self.path("huge.json"), "w") as file:
            json.dump(config, file)
        cluster = dict(json.load(open(DGX)), nodes=2048, name="2048 DGX H100")
        with open(self.path("cluster.json"), "w") as file:
            json.dump(cluster, file)
        flags = ["--init", "random", "--mesh", "pipe=16,tensor=8,data=128", "--zero", 1,
                 "--recompute", "full", "--precision", "bf16", "--target", "sm_90",
                 "--batch", 8192, "--micro-batch", 1, "--seq", 2048, "--cluster",
                 self.path("cluster.json")]
        binary = self.compile(self.path("huge.json"), *flags)
        before = time.monotonic()
        self.report(binary)
        self.assertLess(time.monotonic() - before, 10)
        run([HEDDLE, "compile", self.path("huge.json"), *flags, "--dry-run", "--report",
             self.path("huge.html")])
        self.assertLess(os.path.getsize(self.path("huge.html")), 2e6)
        _, data, _ = report_page.read_page(self.path("huge.html"))
        plan = data["plans"][0]
        self.assertEqual(plan["explain"]["ranks"], 16384)
        self.assertEqual(sum(of["count"] for of in plan["ranks"]), 16384)
        self.open_page(self.path("huge.html"), data, ("times", "communication"))


if __name__ == "__main__":
    unittest.main()
