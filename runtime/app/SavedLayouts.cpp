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

/// Returns the constant of a plan with this name.
static const plan::State &constantOf(const plan::Plan &plan,
                                     const std::string &name) {
  for (const plan::Stage &stage : plan.stages)
    for (const plan::State &state : stage.states)
      if (state.name == name && !state.value.elements.empty())
        return state;
  fail("H0385", "the plan's layout of attention '" + name + "' is missing",
       "compile the binary again");
}

std::vector<io::LayoutToSave> heddle::rt::layoutsOf(const plan::Plan &plan) {
  std::vector<io::LayoutToSave> layouts;
  for (const plan::LayoutUse &use : plan.weights.layouts) {
    const plan::State &state = constantOf(plan, use.state);
    const std::vector<int64_t> &shape =
        state.placement.whole.empty() ? state.shape : state.placement.whole;
    io::LayoutToSave &layout = layouts.emplace_back();
    layout.file = "heddle/" + use.state + ".safetensors";
    layout.layers = use.layers;
    layout.heads = shape.at(0);
    layout.blocks = shape.at(1);
    layout.block = use.block;
    // A row of the layout is words of 32 bits, the lowest bit first.
    const int64_t words = shape.at(2);
    for (int64_t row = 0; row < layout.heads * layout.blocks; ++row)
      for (int64_t column = 0; column < layout.blocks; ++column)
        layout.bits.push_back(
            uint32_t(state.value.elements.at(row * words + column / 32)) >>
                (column % 32) &
            1);
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
