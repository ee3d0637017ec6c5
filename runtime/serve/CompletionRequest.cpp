//===- CompletionRequest.cpp - Requests of completions --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks all fields of a request before anything is computed.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/CompletionRequest.h"
#include "RequestFields.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using io::JsonValue;

std::string ApiError::body() const {
  const char *type = status == 401   ? "authentication_error"
                     : status == 404 ? "not_found_error"
                     : status == 429 ? "rate_limit_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  nlohmann::ordered_json error = {{"message", message}, {"type", type}};
  error["param"] = nullptr;
  if (!field.empty())
    error["param"] = field;
  error["code"] = code;
  return nlohmann::ordered_json{{"error", error}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns the text of a message, whose content may be a list of parts.
static nlohmann::ordered_json readContent(const JsonValue *content,
                                          const JsonValue &message) {
  // An assistant's message that only calls tools has no text.
  if (!content && message.find("tool_calls"))
    return nullptr;
  if (!content)
    refuse("messages", message.path() + " has no content");
  if (content->isNull())
    return nullptr;
  if (!content->isArray())
    return textOf(*content);
  std::string all;
  for (const JsonValue &part : content->elements()) {
    const JsonValue *type = part.isObject() ? part.find("type") : nullptr;
    const JsonValue *text = part.isObject() ? part.find("text") : nullptr;
    if (!type || !text || textOf(*type) != "text")
      refuse("messages", part.path() + " must be {\"type\": \"text\", "
                                       "\"text\": ...}: other parts are not "
                                       "supported");
    all += textOf(*text);
  }
  return all;
}

static nlohmann::ordered_json readMessages(const RequestFields &fields) {
  const JsonValue *value = fields.find("messages");
  if (!value)
    refuse("messages", "messages is missing: give an array of objects with a "
                       "role and a content");
  if (!value->isArray() || value->elements().empty())
    refuseType(*value, "an array of messages");
  auto messages = nlohmann::ordered_json::array();
  for (const JsonValue &each : value->elements()) {
    if (!each.isObject())
      refuseType(each, "an object");
    const JsonValue *role = each.find("role");
    if (!role)
      refuse("messages", each.path() + " has no role");
    nlohmann::ordered_json message = {{"role", textOf(*role)}};
    message["content"] = readContent(each.find("content"), each);
    for (const io::JsonMember &member : each.members())
      if (!message.contains(member.key))
        message[member.key] = member.value.toJson();
    messages.push_back(message);
  }
  return messages;
}

static std::vector<std::string> readStops(const RequestFields &fields) {
  std::vector<std::string> stops;
  const JsonValue *value = fields.find("stop");
  if (!value)
    return stops;
  if (value->isArray())
    for (const JsonValue &each : value->elements())
      stops.push_back(textOf(each));
  else if (value->isString())
    stops.push_back(value->asString());
  else
    refuseType(*value, "a string or an array of strings");
  for (const std::string &stop : stops)
    if (stop.empty() || stops.size() > 16)
      refuse("stop", "stop must have at most 16 texts, none of them empty");
  return stops;
}

static int64_t readLogprobs(const RequestFields &fields, bool isChat) {
  if (!isChat)
    return fields.integer("logprobs", 0, 20).value_or(-1);
  std::optional<int64_t> top = fields.integer("top_logprobs", 0, 20);
  bool isWanted = fields.flag("logprobs", false);
  if (top && !isWanted)
    refuse("top_logprobs", "top_logprobs needs \"logprobs\": true");
  return isWanted ? top.value_or(0) : -1;
}

/// Refuses fields that would change the answer and are not supported.
static void refuseUnsupported(const RequestFields &fields, bool isChat) {
  for (const char *name : {"tools", "functions"})
    if (const JsonValue *value = fields.find(name))
      if (!(value->isArray() && value->elements().empty()))
        refuse(name, name + std::string(" is not supported"));
  for (const char *name : {"tool_choice", "function_call"})
    if (const JsonValue *value = fields.find(name))
      if (!value->isString() ||
          (value->asString() != "none" && value->asString() != "auto"))
        refuse(name, name + std::string(" may be \"none\" or \"auto\": tools "
                                        "are not supported"));
  // Other servers accept these fields, but Heddle does not support them. The
  // value false means the same as no field, so only other values are refused.
  for (const char *name :
       {"stop_token_ids", "bad_words", "min_tokens", "truncate_prompt_tokens",
        "use_beam_search", "guided_json", "guided_regex", "guided_choice",
        "guided_grammar", "structured_outputs", "grammar", "json_schema",
        "allowed_token_ids", "prompt_logprobs", "include_stop_str_in_output",
        "chat_template", "chat_template_kwargs", "continue_final_message"})
    if (const JsonValue *value = fields.find(name))
      if (!(value->isBool() && !value->asBool()))
        refuse(name, name + std::string(" is not supported"));
  for (const char *name : {"add_generation_prompt", "skip_special_tokens"})
    if (!fields.flag(name, true))
      refuse(name, name + std::string(" must be true"));
  // Special tokens must be added exactly once. A chat template writes them
  // itself, so the tokenizer adds them to prompts only. Refuse a request that
  // asks for the opposite.
  if (fields.flag("add_special_tokens", !isChat) == isChat)
    refuse("add_special_tokens", std::string("add_special_tokens must be ") +
                                     (isChat ? "false" : "true"));
  if (const JsonValue *suffix = fields.find("suffix"))
    if (textOf(*suffix) != "")
      refuse("suffix", "suffix is not supported");
  if (const JsonValue *format = fields.find("response_format")) {
    const JsonValue *type = format->isObject() ? format->find("type") : nullptr;
    if (!type || textOf(*type) != "text")
      refuse("response_format", "only response_format {\"type\": \"text\"} is "
                                "supported");
  }
}

/// Reads an object whose keys are token ids.
static std::vector<std::pair<int32_t, double>>
readBias(const RequestFields &fields) {
  std::vector<std::pair<int32_t, double>> bias;
  const JsonValue *value = fields.find("logit_bias");
  if (!value)
    return bias;
  if (!value->isObject())
    refuseType(*value, "an object of tokens and numbers");
  for (const io::JsonMember &member : value->members()) {
    const std::string &key = member.key;
    const JsonValue &added = member.value;
    int32_t token = 0;
    const char *end = key.data() + key.size();
    auto [read, error] = std::from_chars(key.data(), end, token);
    if (error != std::errc() || read != end || token < 0)
      refuse("logit_bias", "logit_bias: \"" + key + "\" is no token");
    if (!added.isNumber())
      refuseType(added, "a number");
    if (!(std::abs(added.asNumber()) <= 100))
      refuse("logit_bias", added.path() + " must be a number from -100 to 100");
    bias.emplace_back(token, added.asNumber());
  }
  return bias;
}

static void readSampling(const RequestFields &fields,
                         CompletionRequest &request) {
  SamplingOptions &sampling = request.sampling;
  auto read = [&](const char *name, double least, double most, double &value) {
    value = fields.number(name, least, most).value_or(value);
  };
  read("temperature", 0, 100, sampling.temperature);
  read("top_p", 0, 1, sampling.topP);
  read("min_p", 0, 1, sampling.minP);
  read("repetition_penalty", 0.001, 100, sampling.repetitionPenalty);
  read("presence_penalty", -2, 2, sampling.presencePenalty);
  read("frequency_penalty", -2, 2, sampling.frequencyPenalty);
  sampling.bias = readBias(fields);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  if (auto topK = fields.integer("top_k", -1, most))
    sampling.topK = std::max<int64_t>(0, *topK);
  if (auto seed = fields.integer("seed", -most - 1, most))
    request.seed = uint64_t(*seed);
}

static CompletionRequest readFields(const RequestFields &fields, bool isChat,
                                    const SamplingOptions &sampling) {
  CompletionRequest request;
  request.sampling = sampling;
  request.isChat = isChat;
  request.model = fields.text("model");
  if (isChat)
    request.messages = readMessages(fields);
  else
    request.prompts = fields.prompts("prompt", 64);
  request.count = fields.integer("n", 1, 64).value_or(1);
  if (auto best = fields.integer("best_of", 1, 64))
    if (*best != request.count)
      refuse("best_of", "best_of other than n is not supported");
  request.echoes = fields.flag("echo", false);
  if (request.echoes && isChat)
    refuse("echo", "echo is for completions alone");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (const char *name : {"max_tokens", "max_completion_tokens"})
    if (auto tokens = fields.integer(name, request.echoes ? 0 : 1, most))
      request.maxTokens = tokens;
  readSampling(fields, request);
  request.logprobs = readLogprobs(fields, isChat);
  request.stops = readStops(fields);
  request.streams = fields.flag("stream", false);
  if (const JsonValue *options = fields.find("stream_options")) {
    if (!options->isObject())
      refuseType(*options, "an object");
    request.includesUsage =
        RequestFields(*options).flag("include_usage", false);
  }
  request.returnsTokenIds = fields.flag("return_token_ids", false);
  request.ignoresEnd = fields.flag("ignore_eos", false);
  request.user = fields.text("user");
  request.timeout = fields.number("timeout", 0, HUGE_VAL);
  refuseUnsupported(fields, isChat);
  return request;
}

CompletionRequest CompletionRequest::read(const std::string &body, bool isChat,
                                          const SamplingOptions &sampling) {
  CompletionRequest request;
  readBody(body, [&](const RequestFields &fields) {
    request = readFields(fields, isChat, sampling);
  });
  return request;
}
