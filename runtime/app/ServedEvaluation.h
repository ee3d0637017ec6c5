//===- ServedEvaluation.h - Losses of binaries that serve -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H
#define HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H

#include "CompiledEngine.h"
#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/app/Options.h"

namespace heddle::rt {

/// The loss of a token file through the programs that serve: of its weights and
/// its cache, as they are rounded there. A row has `seq` tokens of the plan.
class ServedEvaluation {
public:
  /// `rows` is the number of rows, 0: all. Throws H0191 when the plan does not
  /// serve, or what Masking::of throws.
  ServedEvaluation(Job &job, const std::string &file, int64_t rows,
                   const MaskOptions &mask);
  /// The mean of -log p over the labels, on every rank.
  double meanLoss();
  int64_t tokens() const { return rows * job.plan().seq; }

private:
  /// The sum over a row, of which each group may have another; 0 where there
  /// is none. Every rank calls it.
  double rowLoss(int64_t row);

  Job &job;
  CompiledEngine engine;
  DataFeed data;
  int64_t rows;
  std::vector<float> logits;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SERVEDEVALUATION_H
