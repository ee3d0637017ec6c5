//===- TraceExecution.h - Runs traces on symbols ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides what a mutant does. It shares nothing with the checks but the form of
// the traces: it executes them, in one of the many orders that are possible, on
// bytes that hold symbols.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_PROVE_TRACEEXECUTION_H
#define HEDDLE_TEST_UNIT_PROVE_TRACEEXECUTION_H

#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::test {

/// One of the orders in which ranks, collectives and messages may go on.
struct Mood {
  bool buffered = false; ///< A send is done at once, with what is there then.
  enum class Pace {
    Eager,     ///< Collectives run as soon as they can.
    LateBegin, ///< They begin when nothing else can go on.
    LateEnd,   ///< They begin at once and end when nothing else can go on.
    Random
  } pace = Pace::Eager;
  uint64_t seed = 0;
};

/// What came of it. Symbols of what nobody wrote, or what a collective has half
/// done, differ between moods.
struct Outcome {
  bool hangs = false;      ///< Somebody waits for ever.
  bool mismatched = false; ///< What meets does not fit together.
  uint64_t persistent = 0; ///< Hash of all persistent bytes at the end.
  /// Of each rank, in the order of its commands, what each of them read.
  std::vector<std::vector<uint64_t>> reads;
};

/// Executes unrolled traces, one for each rank of the mesh.
Outcome execute(const plan::Mesh &mesh, const std::vector<prove::Trace> &traces,
                const Mood &mood);

enum class Verdict {
  Fine,    ///< As the original, in every mood that was tried.
  Hangs,   ///< Or what meets does not fit.
  Races,   ///< Moods differ.
  Changed, ///< The same in all moods, and another result.
};

/// Compares a mutant with the outcome of its original.
Verdict judge(const plan::Mesh &mesh, const std::vector<prove::Trace> &mutant,
              uint64_t expected);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_PROVE_TRACEEXECUTION_H
