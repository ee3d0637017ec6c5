//===- Mutations.h - Traces that were broken, or only reordered -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_PROVE_MUTATIONS_H
#define HEDDLE_TEST_UNIT_PROVE_MUTATIONS_H

#include "heddle/Transforms/Prove/Traces.h"
#include <random>

namespace heddle::test {

using Traces = std::vector<prove::Trace>;

/// A change of one rank's unrolled trace.
struct Mutation {
  std::string
      what; ///< Of which kind it is; empty: there was nothing to change.
  /// A change that no look at the mutant alone can tell from a plan that
  /// computes something else: why.
  std::string invisible;
};

/// The kinds of mutations.
int numMutations();

/// Changes `traces` by the mutation `kind`, at a random place.
Mutation mutate(int kind, std::mt19937_64 &random, Traces &traces);

/// Moves random events of one rank over neighbours that they do not depend on:
/// launches over launches, starts and sends earlier, waits and flushes later.
/// Gives the number of moves.
int reorder(std::mt19937_64 &random, Traces &traces);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_PROVE_MUTATIONS_H
