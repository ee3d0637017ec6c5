//===- ServedMemory.cpp - What a binary that serves maps ------------------===//
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
    : arena(plan.memory.arenaBytes.total()) {
  for (const plan::State &state : plan.states)
    if (state.role == plan::StateRole::Cache)
      cache += state.numBytes();
  weights = plan.memory.persistentBytes.total() - cache;
}

std::string ServedMemory::text() const {
  std::string text;
  auto add = [&](const char *name, int64_t bytes) {
    if (bytes > 0)
      text += std::string(text.empty() ? "" : ", ") + name + " " +
              std::to_string(bytes) + " bytes (" + plan::formatBytes(bytes) +
              ")";
  };
  add("weights", weights);
  add("cache", cache);
  add("arena", arena);
  return text;
}
