//===- AttentionRunner.h - Compiles and runs one attention ----*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SUPPORT_ATTENTIONRUNNER_H
#define HEDDLE_TEST_UNIT_SUPPORT_ATTENTIONRUNNER_H

#include "LoadedObject.h"
#include "heddle/Codegen/CPU/Attention.h"
#include "mlir/IR/MLIRContext.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

/// The forward pass or the gradient of one attention, compiled and loaded into
/// this process.
class AttentionRunner {
public:
  enum class Pass { Forward, Gradient };

  /// Exits with a message when the attention cannot be compiled.
  AttentionRunner(mlir::MLIRContext &context, const cpu::AttentionSpec &spec,
                  const cpu::CpuTarget &target, Pass pass,
                  bool hasLengths = false);

  /// Runs the part of one thread with a scratch of its own. `tensors` are, for
  /// the forward pass, q, k, v (or the packed one), output and lse; for the
  /// gradient, the output's gradient, q, k, v, output, lse and the gradients of
  /// q, k, v; with dropout, behind them, seed and step; with lengths,
  /// the lengths; with a layout, its words come last. `scalars` are layer,
  /// micro-batch and part.
  void run(const std::vector<void *> &tensors,
           const std::array<int64_t, 3> &scalars, int64_t thread,
           int64_t threads, void *scratch) const;
  /// Runs the parts of all threads one after the other on this one.
  void runAll(const std::vector<void *> &tensors,
              const std::array<int64_t, 3> &scalars, int64_t threads) const;

  int64_t scratchBytes() const { return scratchSize; }
  double compileSeconds() const { return seconds; }
  /// The object file that was loaded.
  const std::string &object() const { return objectBytes; }

private:
  using Entry = void (*)(void *const *, const int64_t *, int64_t, int64_t,
                         void *);
  std::unique_ptr<LoadedObject> loaded;
  Entry entry = nullptr;
  std::string objectBytes;
  int64_t scratchSize;
  double seconds = 0;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SUPPORT_ATTENTIONRUNNER_H
