# Plans with states elsewhere that are changed, and refused.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of a plan that fetches and stores states, a copy is moved, or gets another place:
the plan is refused, with what is wrong."""

import json
import os
import re
import unittest

import families
import heddle_test as h


class OffloadRefused(h.HeddleTest):
    def refuse(self, mutant, text):
        """The lines of a dump of memory are refused, in these words."""
        with open(self.path("mutant.mlir"), "w") as file:
            file.write("\n".join(mutant))
        said = h.run([h.HEDDLE, "compile", self.path("mutant.mlir"), "--start-from",
                      "memory", "-o", self.path("no")], 3).stderr
        self.assertIn("error[H0354]", said)
        self.assertIn(text, said)

    def test_wrong_rows_are_refused(self):
        with open(self.path("wide.json"), "w") as file:
            json.dump(families.config(vocab_size=4099, hidden_size=40), file)
        dumps = self.path("rows-dumps")
        self.compile(self.path("wide.json"), "--init", "random", "--batch", 2, "--seq", 5,
                     "--place", "parameters=file", "--dump-phases", dumps)
        with open(os.path.join(dumps, "memory.mlir")) as file:
            lines = file.read().splitlines()
        begin = next(i for i, line in enumerate(lines) if "plan.sequence @train(" in line)
        rows = next(i for i in range(begin, len(lines)) if "plan.copy_rows" in lines[i])
        target, table, ids = re.search(r"copy_rows (%\w+), (%\w+) at (%\w+)",
                                       lines[rows]).groups()
        view = next(i for i in range(begin, rows)
                    if lines[i].strip().startswith(table + " = plan.view"))
        there = rows + 1
        token = re.search(r"(%\w+) = plan.record +copy", lines[there])[1]
        wait = next(i for i in range(there, len(lines))
                    if re.search(rf"plan.wait {token}\b", lines[i]))
        call = next(i for i in range(wait, len(lines)) if "plan.call @block.fwd" in lines[i])
        other = next(m[1] for m in re.finditer(
            r"(%\w+) = plan.buffer .*memref<2x5x40xf32>", "\n".join(lines[begin:rows]))
            if m[1] != target)

        def replaced(line, old, new):
            changed = lines[line].replace(old, new)
            self.assertNotEqual(changed, lines[line])
            return lines[:line] + [changed] + lines[line + 1:]

        late = lines[:wait] + lines[wait + 1:call + 1] + [lines[wait]] + lines[call + 1:]
        for name, mutant, text in (
                ("another tile", replaced(rows, target + ",", other + ","), "error"),
                ("elements that are no table", replaced(view, "[0]", "[40]"),
                 "for a table"),
                ("rows that are waited for late", late, "error")):
            with self.subTest(name):
                self.refuse(mutant, text)

    def test_rows_of_wrong_parts_are_refused(self):
        with open(self.path("wide.json"), "w") as file:
            json.dump(families.config(vocab_size=4099, hidden_size=40), file)
        dumps = self.path("parts-dumps")
        self.compile(self.path("wide.json"), "--init", "random", "--batch", 2, "--seq", 5,
                     "--mesh", "tensor=2", "--place", "parameters=file", "--dump-phases",
                     dumps)
        with open(os.path.join(dumps, "memory.mlir")) as file:
            lines = file.read().splitlines()
        begin = next(i for i, line in enumerate(lines) if "plan.sequence @train(" in line)
        rows = next(i for i in range(begin, len(lines)) if "plan.copy_rows" in lines[i])
        first = re.search(r" first (%\w+)", lines[rows])[1]
        product = next(line for line in lines[begin:rows]
                       if line.strip().startswith(first + " = arith.muli"))
        rank = re.search(r"muli (%\w+)", product)[1]
        for name, text in (("a part as the whole", ""), ("another part", " first " + rank)):
            with self.subTest(name):
                mutant = list(lines)
                mutant[rows] = lines[rows].replace(" first " + first, text)
                self.refuse(mutant, "of which rank n has 2050 from n times as many on")

    def test_a_wrong_order_is_refused(self):
        model = self.make_model()[0]
        dumps = self.path("dumps")
        self.compile(model, "--batch", 4, "--seq", 8, "--precision", "bf16", "--place",
                     "optimizer=file,parameters=file", "--sub-group-size", 20000,
                     "--dump-phases", dumps)
        with open(os.path.join(dumps, "memory.mlir")) as file:
            lines = file.read().splitlines()
        begin = next(i for i, line in enumerate(lines) if "plan.sequence @train(" in line)

        def after(pattern, start=begin):
            return next(i for i in range(start, len(lines)) if re.search(pattern, lines[i]))

        def moved(line, to):
            rest = lines[:line] + lines[line + 1:]
            return rest[:to] + [lines[line]] + rest[to:]

        # Of a layer's parameters, within the loop over micro-batches.
        call = after(r'plan.call @block.fwd.*path "h.1"')
        wait = max(i for i in range(begin, call) if "plan.wait" in lines[i])
        launch = after("plan.launch @adamw")
        record = after("plan.record +compute", launch)
        second = after("plan.launch @adamw", launch + 1)
        place = after(r"plan.view .*\[20480\].*xbf16>", second)
        elsewhere = list(lines)
        elsewhere[place] = lines[place].replace("[20480]", "[0]")

        def changed(line, pattern, text):
            there = re.sub(pattern, text, lines[line])
            self.assertNotEqual(there, lines[line])
            return lines[:line] + [there] + lines[line + 1:]

        gradient = re.search(r"\(%\w+, (%\w+),", lines[launch])[1]
        # What is fetched for the first layer and for the second one.
        fetched = [i for i in range(begin, call) if re.search(
            r"plan.view .*xbf16> -> memref<\d+xbf16>", lines[i]) and "copy" in "".join(
                lines[i + 1:i + 4])]
        first = re.search(r"\[\d+\]", lines[fetched[2]])[0]
        for name, mutant, text in (
                ("moments that are exchanged",
                 changed(second, r"(\(%\w+, %\w+), (%\w+), (%\w+)", r"\1, \3, \2"),
                 "updates with exp_avg_sq (operand 2), others with exp_avg"),
                ("the gradients of another tile",
                 changed(second, r"(\(%\w+), %\w+", r"\1, " + gradient), "with what is of"),
                ("the parameters of another layer",
                 changed(fetched[3], r"\[\d+\]", first), "for h.1 (operand"),
                ("a fetch that is waited for late", moved(wait, call), "is live in"),
                ("a store before the update", moved(record, launch), "still uses"),
                ("a tile that is stored over another", elsewhere, "these are not stored")):
            with self.subTest(name):
                self.refuse(mutant, text)


if __name__ == "__main__":
    unittest.main()
