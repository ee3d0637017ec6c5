//===- RaceDetector.h - Commands that touch the same bytes ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
#define HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H

#include "emulator/cuda/Clock.h"

#include <map>
#include <memory>

namespace heddle::rt::cuda {

/// Who last wrote and read each byte. Finds commands that touch the same one,
/// one of them writing, though nothing makes an order between them: a GPU may
/// do them in either.
class RaceDetector {
public:
  /// Writes down what a command of a stream, which is done now, has touched.
  /// Throws a Fault that names it and another one.
  void add(const Command &command, size_t stream);
  /// Forgets what comes before all that is still to be added.
  void forgetBefore(const Clock &floor);
  /// Whether that is worth while.
  bool isLong() const { return segments.size() >= most; }
  /// Forgets all of it.
  void clear() { segments.clear(); }

private:
  /// A command that is done.
  struct CompletedCommand {
    size_t stream = 0;
    uint64_t number = 0; ///< In its stream.
    std::shared_ptr<const std::string> name;
  };
  /// Bytes that the same commands touched.
  struct Segment {
    uint64_t end = 0;
    CompletedCommand writer;               ///< Without a name: none.
    std::vector<CompletedCommand> readers; ///< At most one of a stream.
  };
  using Segments = std::map<uint64_t, Segment>;

  /// Splits segments, so that one begins there if any holds it.
  Segments::iterator split(uint64_t address);
  void read(emulator::ByteRange range, const Command &command,
            const CompletedCommand &mark);
  void write(emulator::ByteRange range, const Command &command,
             const CompletedCommand &mark);

  Segments segments; ///< By where they begin.
  size_t most = 4096;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_RACEDETECTOR_H
