//===- KeptLayers.cpp - The layers that a step computes -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/KeptLayers.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstdio>
#include <nlohmann/json.hpp>

using namespace heddle::rt;

void KeptLayers::addTo(JsonLine &line) const {
  line.addRaw("kept_layers", nlohmann::json(layers).dump());
  if (theta)
    line.add("theta", *theta);
}

void KeptLayers::print(int64_t step) const {
  std::string text = "step " + std::to_string(step) + ":";
  for (int64_t layer : layers)
    text += " " + std::to_string(layer);
  puts(text.c_str());
  fflush(stdout);
}

void heddle::rt::requireLayerDrop(const plan::Plan &plan, int64_t steps) {
  if (steps > 0 && plan.conditions.empty())
    fail("H0179",
         "--print-kept-layers " + std::to_string(steps) +
             ": this binary drops no layers",
         "leave it out, or compile with --layer-drop or --layer-drop-schedule");
}
