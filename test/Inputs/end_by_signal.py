# Sends a signal to a command once it writes into a folder.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: end_by_signal.py INT|TERM|HUP|KILL FOLDER COMMAND...

Prints how the command ended and how many files it left in the folder.
"""
import os
import signal
import subprocess
import sys
import time

name, folder, *command = sys.argv[1:]
number = getattr(signal, "SIG" + name)
process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
while not os.listdir(folder) and process.poll() is None:
    time.sleep(0.001)
time.sleep(0.02)
process.send_signal(number)
how = "ended it" if process.wait() == -number else "did not end it"
print(name, how, "and left", len(os.listdir(folder)))
