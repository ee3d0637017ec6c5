//===- RaceDetector.h - Finds races between commands ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the bytes that each executed command accesses with earlier accesses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
#define HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H

#include "emulator/cuda/Clock.h"

#include <map>
#include <memory>

namespace heddle::rt::cuda {

/// The last writer and readers of each byte. Reports two commands that access
/// the same byte, at least one of them writing, if nothing orders them: a GPU
/// may execute them in either order.
class RaceDetector {
public:
  /// Records the accesses of an executed command. Throws a Fault that names it
  /// and the other command of a race.
  void add(const Command &command, size_t stream);
  /// Forgets accesses that come before every command that is still to be added.
  void forgetBefore(const Clock &floor);
  /// Whether there are so many segments that forgetBefore is worth its time.
  bool isLong() const { return segments.size() >= most; }
  /// Forgets all accesses.
  void clear() { segments.clear(); }

private:
  /// A command that was executed.
  struct CompletedCommand {
    size_t stream = 0;
    uint64_t number = 0; ///< Number in its stream.
    std::shared_ptr<const std::string> name;
  };
  /// A range of bytes that the same commands accessed.
  struct Segment {
    uint64_t end = 0;
    CompletedCommand writer;               ///< Without a name: no writer.
    std::vector<CompletedCommand> readers; ///< At most one for each stream.
  };
  using Segments = std::map<uint64_t, Segment>;

  /// Splits the segment that contains `address`, so that one begins there.
  Segments::iterator split(uint64_t address);
  void read(emulator::ByteRange range, const Command &command,
            const CompletedCommand &mark);
  void write(emulator::ByteRange range, const Command &command,
             const CompletedCommand &mark);

  Segments segments; ///< By first address.
  size_t most = 4096;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
