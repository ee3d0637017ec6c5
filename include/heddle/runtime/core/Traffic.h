//===- Traffic.h - Counts sends and copies of a program ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what a program sends between ranks and copies between kinds of memory,
// from the plan alone. `info` and `explain` show it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_TRAFFIC_H
#define HEDDLE_RUNTIME_CORE_TRAFFIC_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/OffloadFile.h"
#include <map>

namespace heddle::rt {

/// The sizes of a plan's collective for a group of `ranks` ranks. `targetBytes`
/// and `sourceBytes` are the sizes of the buffers on one rank.
plan::CollectiveShape shapeOf(const plan::Collective &collective, int64_t ranks,
                              int64_t targetBytes, int64_t sourceBytes);

/// The number and the bytes of all collectives, or of all messages, that have
/// the same kind, axes and reason.
struct TrafficLine {
  std::string axes; ///< The axes, such as `data,seq`.
  std::string kind; ///< The kind, such as `all_reduce` or `send`.
  /// Why the ranks communicate. For collectives: the operation, such as
  /// `nn.linear`, or the module path, such as `h.0`, that needs the result. For
  /// messages: the name of their channel.
  std::string reason;
  /// The type that is sent; U8 for messages.
  plan::DType wire = plan::DType::U8;
  int64_t calls = 0; ///< The number in one run of the program.
  int64_t bytesSent = 0;
};

/// Counts what `rank` sends in one run of `program`, a program of the pipeline
/// stage that is selected in `plan`. The lines are sorted by axes, kind, reason
/// and type. Collectives among a single rank are left out.
std::vector<TrafficLine> countTraffic(const plan::Plan &plan,
                                      const plan::Program &program,
                                      int64_t rank);

/// Adds up the lines that have the same axes and kind. The reasons of the
/// resulting lines are empty.
std::vector<TrafficLine> sumByKind(const std::vector<TrafficLine> &lines);

/// The number and the bytes of all copies from one kind of memory to another in
/// one run of a program.
struct MoveLine {
  plan::MemoryKind from = plan::MemoryKind::Device;
  plan::MemoryKind to = plan::MemoryKind::Device;
  int64_t copies = 0; ///< The number in one run of the program.
  /// The number of bytes; for files, whole blocks of `fileBlock` bytes.
  int64_t bytes = 0;
  /// How many of `bytes` belong to states of each role (parameter, gradient,
  /// optimizer state, ...). A copy counts for the state that is copied, or for
  /// the state that receives the copied values.
  std::map<plan::StateRole, int64_t> bytesOf;
  /// The part of `bytes` that belongs to rows of embedding tables which are
  /// split over ranks. It is an upper bound: a rank does not read rows that
  /// another rank has.
  int64_t bytesOfParts = 0;
  /// The bytes that are copied while the device runs kernels. On a CPU only
  /// copies from and to files overlap with kernels, except copies of single
  /// rows of an embedding table (CopyRows). The threads that run kernels make
  /// all other copies on a CPU.
  int64_t besideKernels = 0;
  /// The largest number of bytes whose copy has been started, but has not been
  /// waited for, at any time.
  int64_t mostUnderWay = 0;
};
/// The unit of direct file access: positions and sizes of reads and writes are
/// multiples of it.
inline constexpr int64_t fileBlock = io::OffloadFile::pageBytes;

/// The number of bytes that a copy of table rows moves. For a table in a file,
/// whole blocks of the file are counted.
int64_t bytesMoved(const plan::command::CopyRows &copy);

/// The state at an offset in a kind of memory: the last state that begins at or
/// before the offset. Null if there is none.
const plan::State *stateAt(const plan::Plan &plan, plan::MemoryKind memory,
                           int64_t offset);

/// Counts the copies between kinds of memory in one run of `program`, a program
/// of the pipeline stage that is selected in `plan`. The lines are sorted by
/// the kinds of memory.
std::vector<MoveLine> countMoves(const plan::Plan &plan,
                                 const plan::Program &program);

/// The parameter updates that a GPU's host computes on its cores in one run of
/// a program.
struct HostUpdates {
  int64_t elements = 0; ///< How many elements of parameters are updated.
  /// Bytes, such as gradients, that are copied from the device so that the
  /// host's cores can update the parameters.
  int64_t toHost = 0;
  int64_t toDevice = 0; ///< Bytes of results that are copied to the device.
  /// The elements of parameters that are updated while kernels of a GPU run.
  int64_t besideKernels = 0;
  double bytes = 0; ///< Bytes that the kernels read and write.
};
HostUpdates countHostUpdates(const plan::Plan &plan,
                             const plan::Program &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_TRAFFIC_H
