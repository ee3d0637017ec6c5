//===- SmallPlan.h - Plans written by hand ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_SMALLPLAN_H
#define HEDDLE_TEST_RUNTIME_SMALLPLAN_H

#include "BigramPlan.h"
#include "Commands.h"

namespace heddle::test {

/// A plan of one program over a page of states and a page of arena, for
/// sequences written by hand.
inline plan::Plan smallPlan(std::vector<plan::Sequence> sequences) {
  plan::Plan plan;
  plan.threads = 2;
  for (const char *name : {"store_thread", "append_digit"}) {
    plan::Kernel kernel;
    kernel.name = name;
    plan.kernels.push_back(kernel);
  }
  plan.sequences = std::move(sequences);
  plan::Program program;
  program.kind = plan::ProgramKind::Train;
  plan.programs = {program};
  plan.memory.persistentBytes[plan::MemoryKind::Device] =
      plan.memory.arenaBytes[plan::MemoryKind::Device] = 4096;
  plan::State state;
  state.name = "digits";
  state.type = plan::DType::I64;
  state.shape = {8};
  plan.states = {state};
  return plan;
}

inline plan::Ref at(plan::Space space, int64_t place, int64_t bytes,
                    int64_t stride = 0) {
  plan::Ref ref;
  ref.space = space;
  (space == plan::Space::Arg ? ref.index : ref.offset) = place;
  ref.bytes = bytes;
  if (stride != 0)
    ref.terms = {{plan::Term::Kind::LoopIndex, 0, stride, {}}};
  return ref;
}

inline const plan::Scalar loopIndex = {
    0, {{plan::Term::Kind::LoopIndex, 0, 1, {}}}};
inline plan::Scalar number(int64_t value) { return {value, {}}; }
inline plan::Scalar argument(int64_t index) {
  return {0, {{plan::Term::Kind::Arg, index, 1, {}}}};
}

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_SMALLPLAN_H
