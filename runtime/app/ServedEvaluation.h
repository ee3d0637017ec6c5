//===- ServedEvaluation.h - Losses of binaries that serve -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `eval` for binaries that serve: measures the loss with the same quantized
// weights and key-value cache that generation uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H
#define HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H

#include "CompiledEngine.h"
#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/Options.h"

namespace heddle::rt {

/// Computes the loss of a token file with the compiled programs of a serving
/// binary, so that the loss includes the errors of quantized weights and of a
/// quantized key-value cache. A row has plan.seq tokens.
class ServedEvaluation {
public:
  /// `rows` is the number of rows to evaluate; 0 means all rows of the file.
  /// Throws H0191 when the binary does not serve, and the errors of
  /// Masking::of.
  ServedEvaluation(Job &job, const std::string &file, int64_t rows,
                   const MaskOptions &mask);
  /// Returns the mean over all labels of -log of the label's probability, on
  /// every rank.
  double meanLoss();
  int64_t tokens() const { return rows * job.plan().seq; }

private:
  /// Returns the sum of the losses of a row's labels. Each group of ranks (a
  /// replica of the model) may pass a different row; if `row` is after the last
  /// row, the result is 0. Collective.
  double rowLoss(int64_t row);

  Job &job;
  CompiledEngine engine;
  DataFeed data;
  int64_t rows;
  std::vector<float> logits;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H
