//===- RequestFields.cpp - Check fields of a request's body ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RequestFields.h"

#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using io::JsonValue;

static const io::JsonCodes requestJsonCodes = {"H0380", "H0380", "H0380",
                                               "H0380", "H0380", "H0380"};

void heddle::rt::refuse(const std::string &field, const std::string &message) {
  throw ApiError(400, "H0380", message, field);
}

void heddle::rt::refuseType(const JsonValue &value,
                            const std::string &expected) {
  bool isEmpty = value.isArray() && value.elements().empty();
  refuse(value.path(), value.path() + " must be " + expected + ", not " +
                           (isEmpty ? "an empty array" : value.describe()));
}

const std::string &heddle::rt::textOf(const JsonValue &value) {
  if (!value.isString())
    refuseType(value, "a string");
  return value.asString();
}

static std::string range(double least, double most) {
  auto name = [](double value) {
    std::string text = nlohmann::json(value).dump();
    size_t point = text.find(".0");
    return point + 2 == text.size() ? text.substr(0, point) : text;
  };
  return "from " + name(least) + (std::isinf(most) ? "" : " to " + name(most));
}

/// Describes a range of integers; an upper limit of INT64_MAX is not shown.
static std::string range(int64_t least, int64_t most) {
  using Limits = std::numeric_limits<int64_t>;
  std::string from = "from " + std::to_string(least);
  return most == Limits::max() && least != Limits::min()
             ? from
             : from + " to " + std::to_string(most);
}

bool RequestFields::flag(const char *name, bool fallback) const {
  const JsonValue *value = find(name);
  if (value && !value->isBool())
    refuseType(*value, "true or false");
  return value ? value->asBool() : fallback;
}

std::optional<double> RequestFields::number(const char *name, double least,
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

std::optional<int64_t> RequestFields::integer(const char *name, int64_t least,
                                              int64_t most) const {
  std::optional<double> found = number(name, -HUGE_VAL, HUGE_VAL);
  if (!found)
    return std::nullopt;
  const JsonValue &value = *find(name);
  bool isWhole = value.kind() == JsonValue::Kind::Integer ||
                 (std::floor(*found) == *found && std::abs(*found) < 1e15);
  if (!isWhole || value.asInteger() < least || value.asInteger() > most)
    refuse(name, name + (" must be a whole number " + range(least, most)));
  return value.asInteger();
}

static std::vector<int32_t> tokensOf(const JsonValue &value, const char *name) {
  std::vector<int32_t> tokens;
  for (const JsonValue &token : value.elements()) {
    if (token.kind() != JsonValue::Kind::Integer || token.asInteger() < 0 ||
        token.asInteger() > std::numeric_limits<int32_t>::max())
      refuse(name, token.path() + " is no token");
    tokens.push_back(int32_t(token.asInteger()));
  }
  return tokens;
}

std::vector<CompletionRequest::Prompt>
RequestFields::prompts(const char *name, size_t most) const {
  const JsonValue *value = find(name);
  if (!value)
    refuse(name, name + std::string(
                            " is missing: give a text or an array of tokens"));
  if (value->isString())
    return {value->asString()};
  if (!value->isArray() || value->elements().empty())
    refuseType(*value, "a text or an array of tokens, or an array of these");
  if (value->elements().front().isNumber())
    return {tokensOf(*value, name)};
  if (value->elements().size() > most)
    refuse(name,
           name + (" has more than " + std::to_string(most) + " elements"));
  std::vector<CompletionRequest::Prompt> prompts;
  for (const JsonValue &each : value->elements())
    if (each.isArray())
      prompts.push_back(tokensOf(each, name));
    else
      prompts.push_back(textOf(each));
  return prompts;
}

void heddle::rt::readBody(
    const std::string &body,
    const std::function<void(const RequestFields &)> &read) {
  try {
    JsonValue value = io::parseJson(body, {"the body", requestJsonCodes});
    if (!value.isObject())
      refuse("", "the body must be an object, not " + value.describe());
    read(RequestFields(value));
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
