//===- IoProbe.cpp - The readers, for conformance scripts -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: HeddleIoProbe open             a path a line -> ok, or an error code
//        HeddleIoProbe rewrite IN OUT   a safetensors file, written again
//        HeddleIoProbe encode DIR       a JSON string, or a list of bytes, a
//                                       line -> a list of ids
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ChatTemplate.h"
#include "heddle/runtime/io/Safetensors.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

static void openAll() {
  std::string path;
  while (std::getline(std::cin, path)) {
    std::string result = "ok";
    try {
      openSafetensors(path);
    } catch (const UserError &error) {
      result = error.diagnostic.code;
    }
    std::cout << result << std::endl;
  }
}

static void rewrite(const std::string &in, const std::string &out) {
  WeightSet set = openSafetensors(in);
  std::vector<TensorToWrite> tensors;
  for (const TensorInfo &info : set.tensors())
    tensors.push_back(
        {info.name, info.dtype, info.shape, set.data(info), nullptr});
  writeSafetensors(out, tensors, set.metadata());
}

static void encodeAll(const std::string &directory) {
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(directory);
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json given = nlohmann::json::parse(line);
    std::string text;
    if (given.is_string())
      text = given;
    else
      for (uint8_t byte : given)
        text += static_cast<char>(byte);
    std::vector<int32_t> ids = tokenizer->encode(text);
    nlohmann::json answer = {ids, tokenizer->encodePrompt(text),
                             tokenizer->decode(ids, /*withSpecial=*/false)};
    std::cout << answer.dump(-1, ' ', /*ensure_ascii=*/true,
                             nlohmann::json::error_handler_t::replace)
              << "\n";
  }
}

/// Renders lines of [template, variables].
static void renderAll() {
  std::string line;
  while (std::getline(std::cin, line)) {
    auto given = nlohmann::ordered_json::parse(line);
    nlohmann::json answer;
    try {
      ChatTemplate chat(given[0].get<std::string>(), {"probe"});
      answer["text"] = chat.render(given[1]);
    } catch (const UserError &error) {
      answer["error"] = error.diagnostic.message;
    }
    std::cout << answer.dump(-1, ' ', /*ensure_ascii=*/true,
                             nlohmann::json::error_handler_t::replace)
              << "\n";
  }
}

int main(int argc, char **argv) {
  std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "open" && argc == 2)
      openAll();
    else if (verb == "rewrite" && argc == 4)
      rewrite(argv[2], argv[3]);
    else if (verb == "encode" && argc == 3)
      encodeAll(argv[2]);
    else if (verb == "render" && argc == 2)
      renderAll();
    else
      return 2;
  } catch (const UserError &error) {
    std::cerr << error.diagnostic.format();
    return error.diagnostic.exitCode();
  }
  return 0;
}
