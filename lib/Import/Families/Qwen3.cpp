//===- Qwen3.cpp - Qwen3 --------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Qwen 3 family: LLaMA's layers with an RMS norm of each head of q and k
// (Qwen team, 2025, arXiv 2505.09388).
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class Qwen3 final : public Llama {
public:
  explicit Qwen3(const Config &c) : Llama(c, variantOf(c)) {}

private:
  static LlamaVariant variantOf(const Config &c) {
    LlamaVariant variant = qwenVariant(c);
    variant.headDim = 128;
    variant.headNorms = true;
    variant.qkvBias = variant.outBias = c.flag("attention_bias", false);
    return variant;
  }
};

} // namespace

const Family &config::qwen3Family() {
  static const Family family = [] {
    std::vector<ConfigKey> keys = llamaKeys(qwenKeys());
    keys.push_back({"attention_bias", ConfigVerdict::Applied, ""});
    return Family{"qwen3", "model.", keys, llamaIgnored(), readAs<Qwen3>};
  }();
  return family;
}
