//===- Traffic.h - What a rank sends in a step ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_TRAFFIC_H
#define HEDDLE_RUNTIME_CORE_TRAFFIC_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/OffloadFile.h"
#include <map>

namespace heddle::rt {

/// A plan's collective for a group of `ranks`; the bytes are those of its
/// target and its source on one rank.
plan::CollectiveShape shapeOf(const plan::Collective &collective, int64_t ranks,
                              int64_t targetBytes, int64_t sourceBytes);

/// All commands of one kind along the same axes and for the same reason.
struct TrafficLine {
  std::string axes;   ///< As `data,seq`.
  std::string kind;   ///< As `all_reduce`, `send`.
  std::string reason; ///< What asked for it, as `nn.linear`, `h.0`; of
                      ///< messages: their channel.
  plan::DType wire = plan::DType::U8; ///< What travels; U8 for messages.
  int64_t calls = 0;                  ///< In one run of the program.
  int64_t bytesSent = 0;
};

/// What `rank` sends in one run of `program`, a program of the plan's selected
/// stage, sorted by axes, kind, reason and wire type. What a group of one does
/// is left out.
std::vector<TrafficLine> countTraffic(const plan::Plan &plan,
                                      const plan::Program &program,
                                      int64_t rank);

/// The lines with the same axes and kind joined to one, its reason empty.
std::vector<TrafficLine> sumByKind(const std::vector<TrafficLine> &lines);

/// All copies from one kind of memory to another.
struct MoveLine {
  plan::MemoryKind from = plan::MemoryKind::Device;
  plan::MemoryKind to = plan::MemoryKind::Device;
  int64_t copies = 0; ///< In one run of the program.
  int64_t bytes = 0;  ///< Of a file, whole blocks of `fileBlock`.
  /// Of these, by the role of the state that they are copied from or to.
  std::map<plan::StateRole, int64_t> bytesOf;
  /// Of these, for rows of tables that ranks have parts of: so many at most, as
  /// no rank reads what another one has.
  int64_t bytesOfParts = 0;
  /// Of these, while kernels of the device run. On a CPU those are copies from
  /// and to files, but for rows of tables; its threads make the others.
  int64_t besideKernels = 0;
  /// The most of them that are begun and that nothing has waited for.
  int64_t mostUnderWay = 0;
};
/// What is read from and written to files without a cache is a multiple of.
inline constexpr int64_t fileBlock = io::OffloadFile::pageBytes;

/// The bytes that copying rows of a table moves: of a file, whole blocks.
int64_t bytesMoved(const plan::command::CopyRows &copy);

/// The state that begins last, of those in a kind of memory that begin at a
/// byte or before it; null where none does.
const plan::State *stateAt(const plan::Plan &plan, plan::MemoryKind memory,
                           int64_t offset);

/// What one run of `program`, a program of the plan's selected stage, copies
/// between memory of different kinds, sorted by these.
std::vector<MoveLine> countMoves(const plan::Plan &plan,
                                 const plan::Program &program);

/// What the cores beside a GPU update in one run of a program.
struct HostUpdates {
  int64_t elements = 0;      ///< Of parameters.
  int64_t toHost = 0;        ///< Bytes that the device gives for that.
  int64_t toDevice = 0;      ///< Bytes that it gets of it.
  int64_t besideKernels = 0; ///< Of the elements, while kernels of a GPU run.
  double bytes = 0;          ///< That the kernels read and write.
};
HostUpdates countHostUpdates(const plan::Plan &plan,
                             const plan::Program &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_TRAFFIC_H
