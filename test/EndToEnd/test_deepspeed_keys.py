# Keys of ds_config.json that DeepSpeed's sources read.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/deepspeed_keys.py over DeepSpeed's packages gives the list that the unit
tests go by."""

import os
import sys
import unittest

import deepspeed_sources
import heddle_test as h

VERSIONS = ["0.19.6", "0.19.8"]
SCRIPT = os.path.join(h.ROOT, "scripts", "deepspeed_keys.py")
LIST = os.path.join(h.ROOT, "test", "Inputs", "deepspeed-keys.txt")


class DeepSpeedKeys(h.HeddleTest):
    @h.long_only
    def test_the_list_is_what_the_sources_read(self):
        found = h.run([sys.executable, SCRIPT, *deepspeed_sources.find(self, VERSIONS)]).stdout
        with open(LIST) as stream:
            self.assertEqual(found, stream.read())


if __name__ == "__main__":
    unittest.main()
