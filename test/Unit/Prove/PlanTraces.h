//===- PlanTraces.h - The traces of compiled models -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_PROVE_PLANTRACES_H
#define HEDDLE_TEST_UNIT_PROVE_PLANTRACES_H

#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::test {

/// The training step of a small model, unrolled for every rank.
struct PlanTraces {
  plan::Mesh mesh;
  std::vector<prove::Trace> ranks;
};

/// Compiles a GPT-2 of `layers` layers, 16 wide, with these flags (as "--mesh
/// data=2"; without --micro-batch it is 1) up to the memory phase, without
/// code. No ranks when that fails.
PlanTraces compileTraces(const std::string &flags, int layers,
                         int vocabulary = 32);

/// The programs of a binary that serves, of one rank, unrolled; compiled as
/// `compileTraces` does. Empty when that fails.
std::vector<prove::Trace> compileServing(const std::string &flags, int layers);

/// Whether a check of what is stored and fetched finds something in the trace.
bool isRefused(const prove::Trace &trace);

/// The trace with an event of its first body before another one.
prove::Trace moved(const prove::Trace &trace, size_t from, size_t to);

/// The trace without an event of its first body.
prove::Trace without(const prove::Trace &trace, size_t index);

/// The trace in which a stream waits for nothing between two events.
prove::Trace withoutJoins(const prove::Trace &trace, plan::Stream stream,
                          size_t from, size_t to);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_PROVE_PLANTRACES_H
