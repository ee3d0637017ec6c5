//===- Qwen2.cpp - Qwen2 --------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLaMA's layers with biases of q, k and v (Qwen team, 2024).
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class Qwen2 final : public Llama {
public:
  explicit Qwen2(const Config &c) : Llama(c, variantOf(c)) {}

private:
  static LlamaVariant variantOf(const Config &c) {
    LlamaVariant variant;
    variant.vocab = 151936;
    variant.inner = 22016;
    variant.kvHeads = 32;
    variant.positions = 32768;
    variant.qkvBias = true;
    if (c.flag("use_sliding_window", false))
      variant.window = c.size("sliding_window", 4096, Config::maxRows);
    return variant;
  }
};

} // namespace

const Family &config::qwen2Family() {
  using V = ConfigVerdict;
  static const char *within = "a sequence is not longer than the window";
  static const Family family = {
      "qwen2", "model.",
      llamaKeys({{"use_sliding_window", V::Applied, ""},
                 {"sliding_window", V::Applied,
                  "with use_sliding_window: the longest sequence"},
                 {"max_window_layers", V::Meaningless, within},
                 {"layer_types", V::Meaningless, within}}),
      llamaIgnored(), readAs<Qwen2>};
  return family;
}
