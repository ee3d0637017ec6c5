//===- EmbeddingRequest.cpp - Parse requests for embeddings ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/EmbeddingRequest.h"
#include "RequestFields.h"

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

EmbeddingRequest EmbeddingRequest::read(const std::string &body) {
  EmbeddingRequest request;
  readBody(body, [&](const RequestFields &fields) {
    request.model = fields.text("model");
    request.inputs = fields.prompts("input", 2048);
    for (const CompletionRequest::Prompt &input : request.inputs)
      if (auto *text = std::get_if<std::string>(&input); text && text->empty())
        refuse("input", "a text of input is empty");
    std::string format = fields.text("encoding_format");
    if (!format.empty() && format != "float" && format != "base64")
      refuse("encoding_format", "encoding_format must be float or base64");
    request.isBase64 = format == "base64";
    request.dimensions = fields.integer("dimensions", 1, 1 << 24);
    request.promptName = fields.text("prompt_name");
    request.truncateTokens =
        fields.integer("truncate_prompt_tokens", -1, 1 << 24);
    if (request.truncateTokens == 0)
      refuse("truncate_prompt_tokens",
             "truncate_prompt_tokens must be a whole number from 1 on, or -1");
    request.timeout = fields.number("timeout", 0, HUGE_VAL);
  });
  return request;
}

static std::string base64(const float *values, int64_t count) {
  static const char *const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "abcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(count * sizeof(float), '\0'), text;
  std::memcpy(bytes.data(), values, bytes.size());
  for (size_t i = 0; i < bytes.size(); i += 3) {
    size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = word << 8 | (j < left ? uint8_t(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      text += j <= left ? digits[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// Formats f32 values with the digits that they need. nlohmann would write them
/// as f64, which is longer.
static std::string numbers(const float *values, int64_t count) {
  std::string text;
  char number[32];
  for (int64_t i = 0; i < count; ++i) {
    std::snprintf(number, sizeof number, "%.9g", double(values[i]));
    text += (i > 0 ? "," : "") + std::string(number);
  }
  return text;
}

std::string heddle::rt::embeddingReply(const EmbeddingRequest &request,
                                       const std::string &model,
                                       const std::vector<float> &embeddings,
                                       int64_t width, int64_t tokens) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i * width < embeddings.size(); ++i) {
    const float *values = embeddings.data() + i * width;
    text += i > 0 ? "," : "";
    text += R"({"object":"embedding","index":)" + std::to_string(i) +
            R"(,"embedding":)" +
            (request.isBase64 ? '"' + base64(values, width) + '"'
                              : '[' + numbers(values, width) + ']') +
            "}";
  }
  nlohmann::ordered_json usage = {{"prompt_tokens", tokens},
                                  {"total_tokens", tokens}};
  return text + R"(],"model":)" + nlohmann::json(model).dump() +
         R"(,"usage":)" + usage.dump() + "}";
}
