//===- Qwen2.cpp - Qwen2 --------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Qwen 2 family: LLaMA's layers with biases of q, k and v (Qwen team,
// 2024). If config.json has an attention window, only the layers from
// `max_window_layers` on have it.
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

using namespace heddle;
using namespace heddle::config;

LlamaVariant config::qwenVariant(const Config &c) {
  LlamaVariant variant;
  variant.vocab = 151936;
  variant.inner = 22016;
  variant.kvHeads = 32;
  variant.positions = 32768;
  if (c.flag("use_sliding_window", false)) {
    variant.window = c.size("sliding_window", 4096, Config::maxRows);
    int64_t first = c.json.integerOr("max_window_layers", 28);
    variant.slides = [first](int64_t layer) { return layer >= first; };
  }
  return variant;
}

std::vector<ConfigKey> config::qwenKeys() {
  using V = ConfigVerdict;
  return {{"use_mrope", V::Meaningless, "a token of text has one position"},
          {"use_sliding_window", V::Applied, ""},
          {"sliding_window", V::Applied, "with use_sliding_window"},
          {"max_window_layers", V::Applied,
           "with use_sliding_window: the first layer that has the window"},
          {"layer_types", V::Applied, "in place of max_window_layers"}};
}

namespace {

class Qwen2 final : public Llama {
public:
  explicit Qwen2(const Config &c) : Llama(c, variantOf(c)) {}

private:
  static LlamaVariant variantOf(const Config &c) {
    LlamaVariant variant = qwenVariant(c);
    variant.qkvBias = true;
    return variant;
  }
};

} // namespace

const Family &config::qwen2Family() {
  static const Family family = {"qwen2", "model.", llamaKeys(qwenKeys()),
                                llamaIgnored(), readAs<Qwen2>};
  return family;
}
