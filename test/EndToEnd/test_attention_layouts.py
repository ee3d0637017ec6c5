# Attention layouts, against DeepSpeed's classes.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle layout` writes the layouts that the classes of DeepSpeed 0.19.6 make of the
same settings, block for block, and refuses what they refuse. Random blocks are as many
in each row, in the same range. test/Unit/AttentionLayout compares with a record."""

import collections
import os
import random
import subprocess
import sys
import unittest

import numpy as np

import deepspeed_sources
import heddle_test as h

sys.path.insert(0, os.path.join(h.ROOT, "test", "Oracles"))

RANDOM_BLOCKS = {"bigbird": 1}  # The classes' defaults, where they are not 0.


def flags_of(setting):
    """The flags of `heddle layout` for options of a class."""
    flags = ["--heads", setting["heads"], "--seq", setting["seq"]]
    for key, value in setting["options"].items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif isinstance(value, list):
            flags.append(f"{flag}={','.join(map(str, value)) or 'none'}")
        else:
            flags.append(f"{flag}={value}")
    return [str(flag) for flag in flags]


class AttentionLayouts(h.HeddleTest):
    def make(self, setting, *flags):
        """The layout, or None where the settings are refused."""
        file = self.path("layout.safetensors")
        result = subprocess.run([h.HEDDLE, "layout", setting["mode"], *flags_of(setting),
                                 "-o", file, *flags], text=True, capture_output=True)
        if result.returncode == 0:
            return h.read_safetensors(file)["layout"]
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"error\[H01\d\d\]: ")
        self.assertIn("help: ", result.stderr)
        return None

    def check_random(self, setting, most, layout, base, drawn):
        """`base` has no random block, `drawn` those that DeepSpeed drew, `most` in a row."""
        for found in (layout, drawn):
            self.assertTrue(np.all(found[base == 1] == 1))
            self.assertLessEqual((found - base).sum(-1).max(), most)
            if setting["options"].get("attention") == "unidirectional" \
                    and setting["mode"] == "bigbird":
                self.assertEqual(np.triu(found, 1).sum(), 0)
            if not setting["options"].get("different_layout_per_head"):
                self.assertTrue(np.all(found == found[0]))

    @h.needs_torch
    @h.long_only
    def test_layouts_are_those_of_the_package(self):
        import record_layouts

        place = deepspeed_sources.find(self, ["0.19.6"])[0]
        module = record_layouts.load(place)
        draw = random.Random(record_layouts.SEED)
        made, refused = collections.Counter(), 0
        for setting, is_wild in record_layouts.draw_settings(record_layouts.SEED + 1):
            mode = setting["mode"]
            try:
                base = record_layouts.make(module, setting, lambda population, count: [])
                drawn = record_layouts.make(module, setting, draw.sample)
            except Exception:  # pylint: disable=broad-except
                if refused < 100:
                    self.assertIsNone(self.make(setting), setting)
                    refused += 1
                continue
            if is_wild or made[mode] == record_layouts.COUNTS[mode]:
                continue
            made[mode] += 1
            layout = self.make(setting)
            self.assertIsNotNone(layout, setting)
            base, drawn = base.numpy(), drawn.numpy()
            self.assertEqual(layout.shape, base.shape)
            most = setting["options"].get("num_random_blocks", RANDOM_BLOCKS.get(mode, 0))
            if most > 0:
                self.check_random(setting, most, layout, base, drawn)
            else:
                np.testing.assert_array_equal(layout, base, str(setting))
        self.assertEqual(sum(made.values()), 300)
        self.assertEqual(refused, 100)


if __name__ == "__main__":
    unittest.main()
