//===- ServedMemory.cpp - Memory of a binary that serves ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/PlanFormat/Format.h"

using namespace heddle;
using namespace heddle::rt;

bool heddle::rt::isForServing(const plan::Plan &plan) {
  return !plan.findProgram(plan::ProgramKind::Train) &&
         (plan.findProgram(plan::ProgramKind::Decode) ||
          plan.findProgram(plan::ProgramKind::Encode));
}

ServedMemory::ServedMemory(const plan::Plan &plan)
    : arena(plan.memory.arenaBytes.inMemory()) {
  for (const plan::State &state : plan.states)
    if (state.role == plan::StateRole::Cache)
      cache += state.numBytes();
  weights = plan.memory.persistentBytes.inMemory() - cache;
}

std::string heddle::rt::textOfRegions(
    std::initializer_list<std::pair<const char *, int64_t>> regions) {
  std::string text;
  for (const auto &[name, bytes] : regions)
    if (bytes > 0)
      text += std::string(text.empty() ? "" : ", ") + name + " " +
              std::to_string(bytes) + " bytes (" + plan::formatBytes(bytes) +
              ")";
  return text;
}

std::string ServedMemory::text() const {
  return textOfRegions(
      {{"weights", weights}, {"cache", cache}, {"arena", arena}});
}
