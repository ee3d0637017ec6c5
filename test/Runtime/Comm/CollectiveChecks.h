//===- CollectiveChecks.h - Collectives against a reference -----*- C++ -*-===//
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H
#define HEDDLE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H

#include "heddle/runtime/comm/Collectives.h"

namespace heddle::test {

/// Shapes of all kinds, types and layouts for a group of `ranks`: odd sizes,
/// fewer elements than ranks, rows and segments.
std::vector<plan::CollectiveShape> collectiveShapes(int ranks);

/// Runs each shape over the whole world and compares with sums in double, with
/// the documented order in fp32 bit for bit, and with plan::bytesSent(). All
/// ranks call it. Returns what is wrong first, or "".
std::string checkCollectives(rt::Transport &transport, bool useLibrary);

/// The same for the groups of a mesh, two at a time through an Executor, and
/// for sends and receives beside them.
std::string checkGroups(rt::Transport &transport, const plan::Mesh &mesh,
                        bool threaded);

/// A hash of the results of all shapes with random data, the same on every
/// rank.
std::string digestCollectives(rt::Transport &transport);

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H
