//===- CompletionReply.cpp - Answers of completions -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON of OpenAI's completions and chat completions.
//
//===----------------------------------------------------------------------===//

#include "CompletionReply.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

/// Replaces invalid UTF-8, since a token may be a part of a character.
static std::string dump(const nlohmann::ordered_json &json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

std::string heddle::rt::serverSentEvent(const std::string &data) {
  return "data: " + data + "\n\n";
}

std::string CompletionReply::nameOf(int32_t token) const {
  return tokenizer ? tokenizer->pieceOf(token) : std::to_string(token);
}

/// Returns the name of a single token. If the token is only a part of a
/// character, its bytes are written as in OpenAI's API, for example as
/// bytes:\xf0, so that different tokens have different names.
std::string CompletionReply::wholeNameOf(int32_t token) const {
  std::string name = nameOf(token);
  if (io::unicode::isValid(name))
    return name;
  std::string escaped = "bytes:";
  for (unsigned char byte : name) {
    constexpr const char *digits = "0123456789abcdef";
    if (byte < 0x80)
      escaped += static_cast<char>(byte);
    else
      escaped += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return escaped;
}

CompletionReply::Json CompletionReply::frame(bool isChunk) const {
  const char *object = !request.isChat ? "text_completion"
                       : isChunk       ? "chat.completion.chunk"
                                       : "chat.completion";
  return {
      {"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

CompletionReply::Json
CompletionReply::chatLogprob(const TokenLogprob &each) const {
  std::string name = nameOf(each.token);
  return {{"token", name},
          {"logprob", each.logprob},
          {"bytes", std::vector<uint8_t>(name.begin(), name.end())}};
}

CompletionReply::Json
CompletionReply::logprobsOf(const CompletionChoice &part) const {
  if (request.logprobs < 0)
    return nullptr;
  if (request.isChat) {
    Json content = Json::array();
    for (const std::vector<TokenLogprob> &told : part.logprobs) {
      Json entry = chatLogprob(told.front());
      entry["top_logprobs"] = Json::array();
      for (size_t i = 1; i < told.size(); ++i)
        entry["top_logprobs"].push_back(chatLogprob(told[i]));
      content.push_back(entry);
    }
    return {{"content", content}};
  }
  Json tokens = Json::array(), own = Json::array(), top = Json::array();
  for (const std::vector<TokenLogprob> &told : part.logprobs) {
    tokens.push_back(wholeNameOf(told.front().token));
    own.push_back(told.front().logprob);
    Json likeliest = Json::object();
    auto add = [&](const TokenLogprob &each) {
      auto [token, logprob] = each;
      std::string name = wholeNameOf(token);
      // Two tokens may have the same name. For example, one token is a byte,
      // and another is the character that consists of this byte. Names are JSON
      // keys, so the second token is named by its id.
      if (likeliest.contains(name))
        name = "token_id:" + std::to_string(token);
      likeliest[name] = logprob;
    };
    std::for_each(told.begin() + 1, told.end(), add);
    // OpenAI's API always reports the chosen token. Add it if it is not among
    // the likeliest ones.
    if (std::none_of(told.begin() + 1, told.end(), [&](const auto &each) {
          return each.token == told.front().token;
        }))
      add(told.front());
    // A prompt's first token has no probability. Write null in its place.
    bool isFirst = std::isnan(told.front().logprob);
    top.push_back(isFirst ? Json(nullptr) : likeliest);
  }
  return {{"tokens", tokens},
          {"token_logprobs", own},
          {"top_logprobs", top},
          {"text_offset", part.offsets}};
}

CompletionReply::Json CompletionReply::choice(const CompletionChoice &part,
                                              bool isChunk) const {
  Json json = {{"index", part.index}};
  if (!request.isChat)
    json["text"] = part.text;
  else if (!isChunk)
    json["message"] = {{"role", "assistant"}, {"content", part.text}};
  else if (part.text.empty())
    json["delta"] = Json::object();
  else
    json["delta"] = {{"content", part.text}};
  bool isEmpty = isChunk && part.tokens.empty() && part.logprobs.empty();
  json["logprobs"] = isEmpty ? Json(nullptr) : logprobsOf(part);
  json["finish_reason"] = nullptr;
  if (!part.finish.empty())
    json["finish_reason"] = part.finish;
  if (request.returnsTokenIds)
    json["token_ids"] = part.tokens;
  return json;
}

static nlohmann::ordered_json usageOf(const Usage &usage) {
  return {{"prompt_tokens", usage.promptTokens},
          {"completion_tokens", usage.newTokens},
          {"total_tokens", usage.promptTokens + usage.newTokens}};
}

std::string CompletionReply::whole(const std::vector<CompletionChoice> &texts,
                                   const Usage &usage) const {
  Json json = frame(/*isChunk=*/false);
  json["choices"] = Json::array();
  for (const CompletionChoice &text : texts)
    json["choices"].push_back(choice(text, /*isChunk=*/false));
  json["usage"] = usageOf(usage);
  return dump(json);
}

std::string CompletionReply::chunk(const CompletionChoice &part,
                                   bool isFirst) const {
  Json json = frame(/*isChunk=*/true);
  json["choices"] = Json::array({choice(part, /*isChunk=*/true)});
  if (request.isChat && isFirst) {
    Json &delta = json["choices"][0]["delta"];
    delta = {{"role", "assistant"}, {"content", part.text}};
  }
  if (request.includesUsage)
    json["usage"] = nullptr;
  return serverSentEvent(dump(json));
}

std::string CompletionReply::usageChunk(const Usage &usage) const {
  Json json = frame(/*isChunk=*/true);
  json["choices"] = Json::array();
  json["usage"] = usageOf(usage);
  return serverSentEvent(dump(json));
}
