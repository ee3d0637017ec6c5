# Keys of ds_config.json that DeepSpeed's sources read.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/deepspeed_keys.py over DeepSpeed's packages gives the list that the unit
tests go by. HEDDLE_DEEPSPEED names the packages, trees or tarballs, with colons;
without it pip fetches their sources."""

import os
import subprocess
import sys
import unittest

import heddle_test as h

VERSIONS = ["0.19.6", "0.19.8"]
SCRIPT = os.path.join(h.ROOT, "scripts", "deepspeed_keys.py")
LIST = os.path.join(h.ROOT, "test", "Inputs", "deepspeed-keys.txt")


class DeepSpeedKeys(h.HeddleTest):
    def packages(self):
        """The packages' places. Their sources alone are fetched: nothing is built."""
        if "HEDDLE_DEEPSPEED" in os.environ:
            return os.environ["HEDDLE_DEEPSPEED"].split(":")
        found = []
        for version in VERSIONS:
            name = f"deepspeed-{version}"
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                            "--no-build-isolation", "--no-binary", ":all:", "-d",
                            self.path(name), f"deepspeed=={version}"],
                           check=False, env={**os.environ, "DS_BUILD_OPS": "0"})
            found += [self.path(name, file) for file in os.listdir(self.path(name))
                      ] if os.path.isdir(self.path(name)) else []
        if len(found) != len(VERSIONS):
            raise unittest.SkipTest("DeepSpeed's sources are not here, and pip has none: "
                                    "HEDDLE_DEEPSPEED=DIR:DIR names them")
        return found

    @h.long_only
    def test_the_list_is_what_the_sources_read(self):
        found = h.run([sys.executable, SCRIPT, *self.packages()]).stdout
        with open(LIST) as stream:
            self.assertEqual(found, stream.read())


if __name__ == "__main__":
    unittest.main()
