//===- main.cpp - The program `heddle` ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Process.h"

namespace heddle::driver {
int runDriver(int argc, char **argv);
} // namespace heddle::driver

int main(int argc, char **argv) {
  heddle::io::prepareProcess();
  return heddle::driver::runDriver(argc, argv);
}
