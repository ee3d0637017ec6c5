//===- Mistral.cpp - Mistral ----------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Mistral family: LLaMA's layers with an attention window (Jiang et al.,
// 2023).
//
//===----------------------------------------------------------------------===//

#include "Llama.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class Mistral final : public Llama {
public:
  explicit Mistral(const Config &c) : Llama(c, variantOf(c)) {
    // Hugging Face's class for Mistral ignores the key `layer_types`: all
    // layers have the window.
    for (int64_t window : windows)
      if (window != variant.window)
        c.json.at("layer_types")
            .fail("H0391", "the layers of a Mistral have one window",
                  "give every layer the same type, or use another model");
  }

private:
  static LlamaVariant variantOf(const Config &c) {
    LlamaVariant variant;
    variant.inner = 14336;
    variant.kvHeads = 8;
    variant.positions = 4096 * 32;
    // If the key `sliding_window` is absent, the window is 4096. If it is null,
    // there is no window.
    const io::JsonValue *window = c.json.find("sliding_window");
    if (!window || !window->isNull())
      variant.window = c.size("sliding_window", 4096, Config::maxRows);
    return variant;
  }
};

} // namespace

const Family &config::mistralFamily() {
  using V = ConfigVerdict;
  static const Family family = {
      "mistral", "model.",
      llamaKeys({{"sliding_window", V::Applied, "null: there is none"},
                 {"layer_types", V::Applied, "the same of all layers"}}),
      llamaIgnored(), readAs<Mistral>};
  return family;
}
