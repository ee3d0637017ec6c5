//===- SavedLayouts.cpp - Attention layouts for checkpoints ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SavedLayouts.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle;
using namespace heddle::rt;

std::vector<io::LayoutToSave> heddle::rt::layoutsOf(const plan::Plan &plan) {
  std::vector<io::LayoutToSave> layouts;
  for (const plan::LayoutUse &use : plan.weights.layouts) {
    const plan::State *state = plan.findConstant(use.state);
    if (!state)
      fail("H0385",
           "the plan's layout of attention '" + use.state + "' is missing",
           "compile the binary again");
    const plan::LayoutBits bits = state->layoutBits();
    io::LayoutToSave &layout = layouts.emplace_back();
    layout.file = "heddle/" + use.state + ".safetensors";
    layout.layers = use.layers;
    layout.heads = bits.matrices();
    layout.blocks = bits.blocks();
    layout.block = use.block;
    for (int64_t head = 0; head < layout.heads; ++head)
      for (int64_t row = 0; row < layout.blocks; ++row)
        for (int64_t column = 0; column < layout.blocks; ++column)
          layout.bits.push_back(bits.has(head, row, column));
  }
  return layouts;
}

std::string
heddle::rt::noteOfLayouts(const std::vector<io::LayoutToSave> &layouts) {
  std::string files;
  for (const io::LayoutToSave &layout : layouts)
    files += (files.empty() ? "" : ", ") + layout.file;
  return "note: the layouts of attention are in " + files +
         " of the checkpoint; transformers does not read them, and would "
         "compute dense attention";
}
