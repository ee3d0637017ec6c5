//===- CompletionRequest.cpp - What a client asks for ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/CompletionRequest.h"
#include "heddle/runtime/io/Json.h"

#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using io::JsonValue;

static const io::JsonCodes requestJsonCodes = {"H0380", "H0380", "H0380",
                                               "H0380", "H0380", "H0380"};

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

[[noreturn]] static void refuse(const std::string &field,
                                const std::string &message) {
  throw ApiError(400, "H0380", message, field);
}

[[noreturn]] static void refuseType(const JsonValue &value,
                                    const std::string &expected) {
  refuse(value.path(),
         value.path() + " must be " + expected + ", not " + value.describe());
}

static const std::string &textOf(const JsonValue &value) {
  if (!value.isString())
    refuseType(value, "a string");
  return value.asString();
}

namespace {

/// Fields with the ranges of their values; null counts as absent.
class Fields {
public:
  explicit Fields(const JsonValue &object) : object(object) {}

  const JsonValue *find(const char *name) const {
    return object.findNonNull(name);
  }
  bool flag(const char *name, bool fallback) const {
    const JsonValue *value = find(name);
    if (value && !value->isBool())
      refuseType(*value, "true or false");
    return value ? value->asBool() : fallback;
  }
  std::optional<double> number(const char *name, double least,
                               double most) const {
    const JsonValue *value = find(name);
    if (!value)
      return std::nullopt;
    if (!value->isNumber())
      refuseType(*value, "a number");
    double number = value->asNumber();
    if (!(number >= least && number <= most))
      refuse(name, name + (" must be a number " + range(least, most)));
    return number;
  }
  std::optional<int64_t> integer(const char *name, int64_t least,
                                 int64_t most) const {
    std::optional<double> found = number(name, -HUGE_VAL, HUGE_VAL);
    if (!found)
      return std::nullopt;
    const JsonValue &value = *find(name);
    bool isWhole = value.kind() == JsonValue::Kind::Integer ||
                   (std::floor(*found) == *found && std::abs(*found) < 1e15);
    if (!isWhole || value.asInteger() < least || value.asInteger() > most)
      refuse(name, name + (" must be a whole number " +
                           range(double(least), double(most))));
    return value.asInteger();
  }
  std::string text(const char *name) const {
    const JsonValue *value = find(name);
    return value ? textOf(*value) : "";
  }

private:
  static std::string range(double least, double most) {
    auto name = [](double value) {
      std::string text = nlohmann::json(value).dump();
      size_t point = text.find(".0");
      return point + 2 == text.size() ? text.substr(0, point) : text;
    };
    return most > 1e15 ? "from " + name(least)
                       : "from " + name(least) + " to " + name(most);
  }
  const JsonValue &object;
};

} // namespace

static std::vector<int32_t> tokensOf(const JsonValue &value) {
  std::vector<int32_t> tokens;
  for (const JsonValue &token : value.elements()) {
    if (token.kind() != JsonValue::Kind::Integer || token.asInteger() < 0 ||
        token.asInteger() > std::numeric_limits<int32_t>::max())
      refuse("prompt", token.path() + " is no token");
    tokens.push_back(int32_t(token.asInteger()));
  }
  return tokens;
}

/// A text, tokens, or an array of these.
static std::vector<CompletionRequest::Prompt>
readPrompts(const Fields &fields) {
  const JsonValue *value = fields.find("prompt");
  if (!value)
    refuse("prompt", "prompt is missing: give a text or an array of tokens");
  if (value->isString())
    return {value->asString()};
  if (!value->isArray() || value->elements().empty())
    refuseType(*value, "a text or an array of tokens, or an array of these");
  if (value->elements().front().isNumber())
    return {tokensOf(*value)};
  if (value->elements().size() > 64)
    refuse("prompt", "prompt has more than 64 elements");
  std::vector<CompletionRequest::Prompt> prompts;
  for (const JsonValue &each : value->elements())
    if (each.isArray())
      prompts.push_back(tokensOf(each));
    else
      prompts.push_back(textOf(each));
  return prompts;
}

/// The text of a message, which may come in parts.
static nlohmann::ordered_json readContent(const JsonValue *content,
                                          const JsonValue &message) {
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

static nlohmann::ordered_json readMessages(const Fields &fields) {
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

static std::vector<std::string> readStops(const Fields &fields) {
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

static int64_t readLogprobs(const Fields &fields, bool isChat) {
  if (!isChat)
    return fields.integer("logprobs", 0, 20).value_or(-1);
  std::optional<int64_t> top = fields.integer("top_logprobs", 0, 20);
  bool isWanted = fields.flag("logprobs", false);
  if (top && !isWanted)
    refuse("top_logprobs", "top_logprobs needs \"logprobs\": true");
  return isWanted ? top.value_or(0) : -1;
}

/// Fields that change what a server answers, and cannot be followed.
static void refuseUnsupported(const Fields &fields) {
  for (const char *name : {"frequency_penalty", "presence_penalty"})
    if (fields.number(name, -2, 2).value_or(0) != 0)
      refuse(name, name + std::string(" other than 0 is not supported: use "
                                      "repetition_penalty"));
  for (const char *name : {"tools", "functions", "logit_bias"})
    if (const JsonValue *value = fields.find(name))
      if (!(value->isArray() && value->elements().empty()) &&
          !(value->isObject() && value->members().empty()))
        refuse(name, name + std::string(" is not supported"));
  if (const JsonValue *suffix = fields.find("suffix"))
    if (textOf(*suffix) != "")
      refuse("suffix", "suffix is not supported");
  if (fields.flag("echo", false))
    refuse("echo", "echo is not supported");
  if (const JsonValue *format = fields.find("response_format")) {
    const JsonValue *type = format->isObject() ? format->find("type") : nullptr;
    if (!type || textOf(*type) != "text")
      refuse("response_format", "only response_format {\"type\": \"text\"} is "
                                "supported");
  }
}

static void readSampling(const Fields &fields, CompletionRequest &request) {
  SamplingOptions &sampling = request.sampling;
  sampling.temperature = fields.number("temperature", 0, 100).value_or(1);
  sampling.topP = fields.number("top_p", 0, 1).value_or(1);
  sampling.minP = fields.number("min_p", 0, 1).value_or(0);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  sampling.topK =
      std::max<int64_t>(0, fields.integer("top_k", -1, most).value_or(0));
  sampling.repetitionPenalty =
      fields.number("repetition_penalty", 0.001, 100).value_or(1);
  if (auto seed = fields.integer("seed", -most - 1, most))
    request.seed = uint64_t(*seed);
}

static CompletionRequest readFields(const JsonValue &body, bool isChat) {
  if (!body.isObject())
    refuse("", "the body must be an object, not " + body.describe());
  Fields fields(body);
  CompletionRequest request;
  request.isChat = isChat;
  request.model = fields.text("model");
  if (isChat)
    request.messages = readMessages(fields);
  else
    request.prompts = readPrompts(fields);
  request.count = fields.integer("n", 1, 64).value_or(1);
  if (auto best = fields.integer("best_of", 1, 64))
    if (*best != request.count)
      refuse("best_of", "best_of other than n is not supported");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (const char *name : {"max_tokens", "max_completion_tokens"})
    if (auto tokens = fields.integer(name, 1, most))
      request.maxTokens = tokens;
  readSampling(fields, request);
  request.logprobs = readLogprobs(fields, isChat);
  request.stops = readStops(fields);
  request.streams = fields.flag("stream", false);
  if (const JsonValue *options = fields.find("stream_options")) {
    if (!options->isObject())
      refuseType(*options, "an object");
    request.includesUsage = Fields(*options).flag("include_usage", false);
  }
  request.returnsTokenIds = fields.flag("return_token_ids", false);
  request.ignoresEnd = fields.flag("ignore_eos", false);
  request.user = fields.text("user");
  request.timeout = fields.number("timeout", 0, HUGE_VAL);
  refuseUnsupported(fields);
  return request;
}

CompletionRequest CompletionRequest::read(const std::string &body,
                                          bool isChat) {
  try {
    return readFields(io::parseJson(body, {"the body", requestJsonCodes}),
                      isChat);
  } catch (const UserError &error) {
    const SourceLocation &at = error.diagnostic.location;
    std::string place;
    if (at.line > 0)
      place = " (line " + std::to_string(at.line) + ", column " +
              std::to_string(at.column) + " of the body)";
    throw ApiError(400, error.diagnostic.code,
                   error.diagnostic.message + place);
  }
}
