//===- ModelText.cpp - How the tokens of a model are texts ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/ModelText.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

std::string heddle::rt::modelDirectory(const plan::Plan &plan,
                                       const JobOptions &options) {
  return io::resolveModel(options.weights.empty() ? plan.weights.directory
                                                  : options.weights);
}

std::unique_ptr<io::Tokenizer>
heddle::rt::findTokenizer(const plan::Plan &plan, const JobOptions &options) {
  std::string directory = modelDirectory(plan, options);
  if (!directory.empty() &&
      std::filesystem::exists(directory + "/tokenizer.json"))
    return io::openTokenizer(directory);
  if (plan.vocabSize >= 256 && plan.vocabSize <= 512)
    return io::openTokenizer("bytes");
  return nullptr;
}

std::unique_ptr<io::Tokenizer>
heddle::rt::requireTokenizer(const plan::Plan &plan,
                             const JobOptions &options) {
  if (std::unique_ptr<io::Tokenizer> found = findTokenizer(plan, options))
    return found;
  fail("H0195",
       "there is no tokenizer.json beside the weights, and a vocabulary of " +
           std::to_string(plan.vocabSize) + " is not one of bytes",
       "give the prompt as tokens: --prompt-ids 1,2,3");
}

std::vector<int64_t> heddle::rt::endTokens(const plan::Plan &plan,
                                           const JobOptions &options) {
  std::vector<int64_t> ends;
  auto read = [&](const nlohmann::json &config) {
    auto found = config.find("eos_token_id");
    if (found == config.end())
      return;
    for (const nlohmann::json &id :
         found->is_array() ? *found : nlohmann::json::array({*found}))
      if (id.is_number_integer())
        ends.push_back(id.get<int64_t>());
  };
  read(plan.modelConfig);
  std::string file = modelDirectory(plan, options) + "/generation_config.json";
  if (io::pathExists(file))
    read(io::parseJsonFile(file, io::modelJsonCodes).toJson());
  return ends;
}
