//===- RaceDetector.h - Finds races between commands ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds races between commands of streams, by comparing the bytes that each
// executed command accesses with the accesses of earlier commands.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
#define HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H

#include "emulator/cuda/Clock.h"

#include <map>
#include <memory>

namespace heddle::rt::cuda {

/// The last writer and readers of each byte. Two commands that access the same
/// byte are reported if at least one of them writes it and nothing orders the
/// commands. A GPU may execute such commands in either order.
class RaceDetector {
public:
  /// Records the accesses of an executed command. If the command races with an
  /// earlier one, throws a Fault that names both commands.
  void add(const Command &command, size_t stream);
  /// Checks the reads that a launch made before griddepcontrol.wait. Throws a
  /// Fault if a command of its stream with at least the number `first` wrote
  /// the bytes. Called before the launch's accesses are added.
  void checkEarlyReads(const Command &command, size_t stream,
                       uint64_t first) const;
  /// Forgets all accesses that come before `floor`. Every command that is added
  /// later must come after these accesses.
  void forgetBefore(const Clock &floor);
  /// Whether there are so many segments (byte ranges with the same last
  /// accesses) that the caller should reduce them by forgetBefore.
  bool isLong() const { return segments.size() >= most; }
  /// Forgets all accesses.
  void clear() { segments.clear(); }

private:
  /// A command that was executed.
  struct CompletedCommand {
    size_t stream = 0;
    uint64_t number = 0; ///< Number of the command in its stream.
    std::shared_ptr<const std::string> name;
  };
  /// A range of bytes whose last accesses are by the same commands.
  struct Segment {
    uint64_t end = 0;
    /// The last writer. It has no name if no command has written the bytes.
    CompletedCommand writer;
    /// The last readers, at most one for each stream.
    std::vector<CompletedCommand> readers;
  };
  using Segments = std::map<uint64_t, Segment>;

  /// Splits the segment that contains `address`, so that a segment begins at
  /// `address`.
  Segments::iterator split(uint64_t address);
  void read(emulator::ByteRange range, const Command &command,
            const CompletedCommand &mark);
  void write(emulator::ByteRange range, const Command &command,
             const CompletedCommand &mark);

  Segments segments; ///< The segments, by their first address.
  size_t most = 4096;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
