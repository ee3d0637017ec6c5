//===- heddle-settings.cpp - Prints the reference of settings -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the reference of all settings as Markdown, or with the argument
// `layouts` that of attention layouts. The build target heddle-docs writes
// docs/reference/settings.md and docs/reference/attention-layouts.md with this
// program.
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/LayoutOptions.h"
#include "heddle/Import/SettingTable.h"
#include <iostream>

int main(int argc, char **argv) {
  bool isOfLayouts = argc > 1 && std::string(argv[1]) == "layouts";
  std::cout << (isOfLayouts ? heddle::layouts::layoutReference()
                            : heddle::config::settingsReference())
            << std::flush;
  return std::cout ? 0 : 1;
}
