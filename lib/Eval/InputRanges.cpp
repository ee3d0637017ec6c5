//===- InputRanges.cpp - Checks the range of integer inputs ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements InputRanges.h. The module determines the limits of ids, positions,
// segments and pages.
//
//===----------------------------------------------------------------------===//

#include "InputRanges.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace mlir;

namespace heddle::eval {

namespace {

/// The limit of an input: valid values are 0 to count - 1.
struct IndexLimit {
  int64_t count;
  const char *noun, *help;
};

/// The limits of integer inputs. An input has no limit if the module does not
/// give one.
class InputLimits {
public:
  InputLimits(ModuleOp module, const Interpreter &interpreter,
              const TensorMap &inputs) {
    for (Operation &root : module.getOps())
      if (auto weights = root.getAttrOfType<DictionaryAttr>("weights")) {
        words = numberOf(weights, "vocab_size", words);
        positions = numberOf(weights, "max_positions", positions);
        segments = numberOf(weights, "segments", segments);
      }
    for (const StateInfo &state : interpreter.states())
      if (state.role == nn::StateRole::Cache && !state.shape.empty())
        pages = state.shape.front();
    for (const auto &[name, value] : inputs)
      if (roleOf(name) == nn::PortRole::Ids && value.rank() > 0)
        tokens = std::max(tokens.value_or(0), value.shape().back());
    // The setting `maxContext` of the module limits the positions of a request
    // that uses a cache.
    bool isCached = llvm::any_of(inputs, [](const auto &input) {
      return roleOf(input.first) == nn::PortRole::Pages;
    });
    if (positions && isCached)
      positions = std::min(*positions, interpreter.strategy().maxContext);
  }

  static std::optional<nn::PortRole> roleOf(StringRef name) {
    return nn::symbolizePortRole(name.split('@').first);
  }

  std::optional<IndexLimit> of(nn::PortRole role) const {
    switch (role) {
    case nn::PortRole::Ids:
      return range(words, "words of the vocabulary",
                   "take ids of this model's tokenizer");
    case nn::PortRole::Labels:
      return range(words, "words of the vocabulary",
                   "take ids of this model's tokenizer, or -100 for a token "
                   "that does not count");
    case nn::PortRole::Positions:
      return range(positions, "positions of a text",
                   "count the tokens of each text from 0");
    case nn::PortRole::Segments:
      return range(segments, "segments of the model",
                   "number the parts of each text from 0");
    case nn::PortRole::Position:
      return range(tokens, "tokens of a row", "count them from 0");
    case nn::PortRole::Pages:
      return range(pages, "pages of the cache", "number them from 0");
    case nn::PortRole::Lengths:
      return range(tokens ? *tokens + 1 : tokens, "lengths that a row can have",
                   "give the number of tokens of each row");
    default:
      return std::nullopt;
    }
  }

private:
  static std::optional<int64_t> numberOf(DictionaryAttr weights, StringRef key,
                                         std::optional<int64_t> before) {
    auto number = weights.getAs<IntegerAttr>(key);
    return number ? std::optional(number.getInt()) : before;
  }
  static std::optional<IndexLimit> range(std::optional<int64_t> count,
                                         const char *noun, const char *help) {
    return count ? std::optional(IndexLimit{*count, noun, help}) : std::nullopt;
  }

  std::optional<int64_t> words, positions, segments, pages, tokens;
};

} // namespace

/// The label of a token whose loss does not count.
static constexpr int64_t noLabel = -100;

bool checkRanges(ModuleOp module, const Interpreter &interpreter,
                 const TensorMap &inputs, Diagnostic &error) {
  InputLimits ranges(module, interpreter, inputs);
  for (const auto &[name, value] : inputs) {
    std::optional<nn::PortRole> role = InputLimits::roleOf(name);
    std::optional<IndexLimit> range = role ? ranges.of(*role) : std::nullopt;
    if (!range || isFloat(value.kind()))
      continue;
    for (int64_t number : value.ints()) {
      bool isIgnored = *role == nn::PortRole::Labels && number == noLabel;
      if (isIgnored || (number >= 0 && number < range->count))
        continue;
      error.code = "H0371";
      error.message = "input '" + name + "' has " + std::to_string(number) +
                      ", which is not one of the " +
                      std::to_string(range->count) + " " + range->noun;
      error.help = range->help;
      return false;
    }
  }
  return true;
}

} // namespace heddle::eval
