# Where DeepSpeed's sources are.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that compare with DeepSpeed's sources find them here. HEDDLE_DEEPSPEED names
the packages, trees or tarballs, with colons; without it pip fetches their sources."""

import os
import subprocess
import sys
import unittest


def find(test, versions):
    """The place of each version. The sources alone are fetched: nothing is built. Skips
    the test where they are not to be had."""
    if "HEDDLE_DEEPSPEED" in os.environ:
        places = os.environ["HEDDLE_DEEPSPEED"].split(":")
        found = [place for version in versions for place in places if version in place]
        return found if len(found) == len(versions) else places
    found = []
    for version in versions:
        name = f"deepspeed-{version}"
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                        "--no-build-isolation", "--no-binary", ":all:", "-d",
                        test.path(name), f"deepspeed=={version}"],
                       check=False, env={**os.environ, "DS_BUILD_OPS": "0"})
        found += [test.path(name, file) for file in os.listdir(test.path(name))
                  ] if os.path.isdir(test.path(name)) else []
    if len(found) != len(versions):
        raise unittest.SkipTest("DeepSpeed's sources are not here, and pip has none: "
                                "HEDDLE_DEEPSPEED=DIR:DIR names them")
    return found
