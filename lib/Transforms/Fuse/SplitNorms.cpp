//===- SplitNorms.cpp - Splits norms into two launches --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-split-norms`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/Norms.h"
#include "heddle/Transforms/Fuse/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSESPLITNORMS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {
struct SplitNorms : heddle::impl::FuseSplitNormsBase<SplitNorms> {
  using Base::Base;

  void runOnOperation() override {
    getOperation()->walk(
        [&](nn::GlobalNormOp norm) { numSplit += splitNorm(norm); });
  }
};
} // namespace
