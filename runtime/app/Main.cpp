//===- Main.cpp - The main function of a compiled binary ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Process.h"

int main(int argc, char **argv) {
  heddle::io::prepareProcess();
  return heddle::rt::runApp(argc, argv);
}
