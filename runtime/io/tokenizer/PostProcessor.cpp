//===- PostProcessor.cpp - Special tokens around a text -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The post-processors of tokenizer.json.
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

using namespace heddle;
using namespace heddle::io;

static int32_t idOf(const JsonValue &value) {
  return static_cast<int32_t>(value.asInteger());
}

/// `single` lists the special tokens of a prompt with one sequence, in order.
/// An item that is no special token is the sequence itself.
static SpecialTokens makeTemplate(const JsonValue &value) {
  SpecialTokens tokens;
  bool isAfter = false;
  for (const JsonValue &item : value.at("single").elements()) {
    const JsonValue *special = item.find("SpecialToken");
    if (!special) {
      isAfter = true;
      continue;
    }
    const JsonValue &named =
        value.at("special_tokens").at(special->at("id").asString());
    for (const JsonValue &id : named.at("ids").elements())
      (isAfter ? tokens.after : tokens.before).push_back(idOf(id));
  }
  return tokens;
}

/// Puts one special token before the text and another after it. tokenizer.json
/// has them under the keys `cls` and `sep`, each as a pair of text and id.
static SpecialTokens makePair(const JsonValue &value) {
  auto one = [&](const char *key) {
    const JsonValue &pair = value.at(key);
    if (!pair.isArray() || pair.elements().size() != 2)
      pair.failType("a token and its id");
    return std::vector<int32_t>{idOf(pair.elements()[1])};
  };
  return {one("cls"), one("sep")};
}

static SpecialTokens makeSequence(const JsonValue &value) {
  SpecialTokens all;
  for (const JsonValue &part : value.at("processors").elements()) {
    SpecialTokens tokens = makePostProcessor(part);
    all.before.insert(all.before.begin(), tokens.before.begin(),
                      tokens.before.end());
    all.after.insert(all.after.end(), tokens.after.begin(), tokens.after.end());
  }
  return all;
}

SpecialTokens io::makePostProcessor(const JsonValue &value) {
  return makeStage<SpecialTokens>(
      value, "post-processor",
      {{"TemplateProcessing", makeTemplate},
       {"BertProcessing", makePair},
       {"RobertaProcessing", makePair},
       {"ByteLevel", [](const JsonValue &) { return SpecialTokens(); }},
       {"Sequence", makeSequence}});
}
