//===- heddle-settings.cpp - Prints the reference of settings -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the reference of all settings as Markdown. The build target
// heddle-docs writes docs/reference/settings.md with this program.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/SettingTable.h"
#include <iostream>

int main() {
  std::cout << heddle::config::settingsReference() << std::flush;
  return std::cout ? 0 : 1;
}
