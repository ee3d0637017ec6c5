//===- Strategy.h - What the user chose -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_STRATEGY_H
#define HEDDLE_DIALECTS_DIST_STRATEGY_H

#include "mlir/IR/BuiltinAttributes.h"
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace heddle::dist {

/// The contents of `#dist.strategy<{...}>`. Keys are the field names in snake
/// case; a missing key means the default here. What is not in the attribute
/// does not reach a pass.
struct Strategy {
  static constexpr int64_t noLimit = std::numeric_limits<int64_t>::max();

  int64_t batch = 1;      ///< Global: micro_batch * accumulate * data ranks.
  int64_t microBatch = 1; ///< Rows of one micro-batch on one rank.
  int64_t accumulate = 1; ///< Micro-batches per step.
  int64_t seq = 1;
  std::string precision = "fp32"; ///< fp32, bf16
  int64_t threads = 1;            ///< Per rank.
  std::string march = "native";
  std::string target = "x86-64";  ///< x86-64, sm_80, sm_90
  std::string recompute = "none"; ///< none, selective, full
  std::string schedule = "1f1b";  ///< gpipe, 1f1b, interleaved, zb-h1
  int64_t virtualStages = 1;      ///< Chunks of a rank (interleaved).
  std::string pipelineLayout; ///< Layers of each virtual stage; empty: cost.
  int64_t zero = 0;
  bool sequenceParallel = false;   ///< Norms and dropout over tokens.
  std::string context = "ulysses"; ///< How attention splits the sequence axis.
  std::string collectives = "fixed"; ///< fixed, library
  std::string communicationType;     ///< Of gradients; empty: the precision's.
  int64_t memoryBudget = 0;          ///< Bytes; 0: no limit.
  /// With zero 3, in elements, as the keys of ds_config.json with the prefix
  /// stage3_. Smaller parameters stay whole on every rank,
  int64_t paramPersistenceThreshold = 0;
  /// as long as they are together at most so many.
  int64_t modelPersistenceThreshold = noLimit;
  /// What is larger is not gathered ahead of the layer that uses it,
  int64_t prefetchBucketSize = noLimit;
  /// nor what makes more than so many gathered at a time.
  int64_t maxLiveParameters = noLimit;
  /// What is used again before so many others stays gathered.
  int64_t maxReuseDistance = 1000000000;
  int64_t data = 1, tensor = 1, pipe = 1, sequence = 1; ///< Mesh axes.
  std::string optimizer = "AdamW";                      ///< AdamW, Adam
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weightDecay = 0.01;
  bool decoupled = true;
  double gradientClipping = 1.0; ///< 0: off.
  std::string noDecay;           ///< Regular expression over parameter names.
  std::string scheduler;         ///< Empty: constant learning rate.
  std::string schedulerParams = "{}"; ///< JSON.
  std::vector<std::string> keep;      ///< logits, grads, module paths.

  /// Reads the attribute; unknown keys and wrong types are refused by its
  /// verifier, so this does not fail on a verified attribute.
  static Strategy fromDictionary(mlir::DictionaryAttr dictionary);
  mlir::DictionaryAttr toDictionary(mlir::MLIRContext *context) const;
  /// The first thing wrong with the dictionary, or "".
  static std::string verify(mlir::DictionaryAttr dictionary);
};

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_STRATEGY_H
