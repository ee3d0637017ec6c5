//===- PostProcessor.cpp - Special tokens around a text -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

using namespace heddle;
using namespace heddle::io;

static int32_t idOf(const JsonValue &value) {
  return static_cast<int32_t>(value.asInteger());
}

/// `single` is a list of special tokens around the sequence A.
static SpecialTokens makeTemplate(const JsonValue &value) {
  SpecialTokens tokens;
  bool isBehind = false;
  for (const JsonValue &item : value.at("single").elements()) {
    const JsonValue *special = item.find("SpecialToken");
    if (!special) {
      isBehind = true;
      continue;
    }
    const JsonValue &named =
        value.at("special_tokens").at(special->at("id").asString());
    for (const JsonValue &id : named.at("ids").elements())
      (isBehind ? tokens.behind : tokens.before).push_back(idOf(id));
  }
  return tokens;
}

/// `cls` is before the text and `sep` after it, each a text with its id.
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
    all.behind.insert(all.behind.end(), tokens.behind.begin(),
                      tokens.behind.end());
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
