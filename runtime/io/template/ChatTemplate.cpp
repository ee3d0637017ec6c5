//===- ChatTemplate.cpp - Chat messages to prompts ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Renders chat templates (Jinja) and turns chats into tokens: `encodeChat`.
// Parser.h compiles a template to functions; Value.h has the values.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ChatTemplate.h"
#include "Parser.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/TokenNames.h"
#include <ctime>

using namespace heddle;
using namespace heddle::io;
using namespace heddle::io::jinja;

struct ChatTemplate::Program {
  Statement body;
  SourceLocation source;
  nlohmann::ordered_json specialTokens = nlohmann::ordered_json::object();
};

/// Reports an error in a template at the position of the error. If the template
/// is a string inside a file, the reported position is that of the string, and
/// the message has the line and column in the template.
[[noreturn]] static void refuse(SourceLocation source,
                                const TemplateError &error) {
  std::string where;
  auto [line, column] = error.place;
  if (source.line == 0) {
    source.line = line;
    source.column = column;
  } else if (line > 0) {
    where =
        ", line " + std::to_string(line) + ", column " + std::to_string(column);
  }
  fail("H0359", "the chat template" + where + ": " + error.message,
       error.help.empty() ? "change the conversation or the template; "
                            "of Jinja there is what chat templates use"
                          : error.help,
       std::move(source));
}

ChatTemplate::ChatTemplate(const std::string &source, SourceLocation begin) {
  auto made = std::make_shared<Program>();
  made->source = std::move(begin);
  try {
    made->body = parse(source);
  } catch (const TemplateError &error) {
    refuse(made->source, error);
  }
  program = std::move(made);
}

//===----------------------------------------------------------------------===//
// Functions that templates may call
//===----------------------------------------------------------------------===//

static Value raiseException(const Arguments &arguments) {
  throw TemplateError{arguments.get(0, "message").str()};
}

/// Returns the current time, formatted as by strftime.
static Value now(const Arguments &arguments) {
  char text[256] = "";
  std::time_t time = std::time(nullptr);
  std::tm parts;
  localtime_r(&time, &parts);
  size_t length = std::strftime(
      text, sizeof text, arguments.get(0, "format").string().c_str(), &parts);
  return std::string(text, length); // Empty if it is too long.
}

static Value makeNamespace(const Arguments &arguments) {
  Dict members;
  if (!arguments.positional.empty())
    members = arguments.positional[0].dict();
  Value made = members;
  for (const auto &[name, value] : arguments.named)
    made.set(name, value);
  return made;
}

static Value range(const Arguments &arguments) {
  constexpr size_t longest = 1 << 20;
  int64_t first = 0, last = arguments.get(0, "stop").integer(), step = 1;
  if (arguments.positional.size() > 1) {
    first = last;
    last = arguments.positional[1].integer();
  }
  if (arguments.positional.size() > 2)
    step = arguments.positional[2].integer();
  if (step == 0)
    throw TemplateError{"a range's step is 0"};
  List all;
  for (int64_t i = first; step > 0 ? i < last : i > last;) {
    if (all.size() == longest)
      throw TemplateError{"a range is too long"};
    all.push_back(i);
    if (__builtin_add_overflow(i, step, &i))
      break;
  }
  return all;
}

std::string
ChatTemplate::render(const nlohmann::ordered_json &variables) const {
  WorkLimit work;
  auto scope = std::make_shared<Scope>();
  scope->names["raise_exception"] = Function(raiseException);
  scope->names["strftime_now"] = Function(now);
  scope->names["namespace"] = Function(makeNamespace);
  scope->names["dict"] = Function(makeNamespace);
  scope->names["range"] = Function(range);
  std::string text;
  try {
    for (const auto *given : {&program->specialTokens, &variables})
      for (const auto &[name, value] : given->items())
        scope->names[name] = Value::fromJson(value);
    program->body(scope, text);
  } catch (const TemplateError &error) {
    refuse(program->source, error);
  } catch (const std::exception &) { // Out of memory.
    refuse(program->source, {"what the template makes is too large"});
  }
  return text;
}

std::vector<int32_t>
ChatTemplate::encodeChat(const nlohmann::ordered_json &messages,
                         const Tokenizer &tokenizer) const {
  return tokenizer.encode(render({{"messages", messages},
                                  {"tools", nullptr},
                                  {"documents", nullptr},
                                  {"add_generation_prompt", true}}));
}

//===----------------------------------------------------------------------===//
// The template of a model
//===----------------------------------------------------------------------===//

/// Returns the chat template of a tokenizer_config.json. If the file has a list
/// of templates with names, returns the template named `default`.
static const JsonValue *templateIn(const JsonValue &config) {
  const JsonValue *found = config.findNonNull("chat_template");
  if (!found || found->isString())
    return found;
  if (!found->isArray())
    found->fail(
        modelJsonCodes.wrongType, "chat_template is " + found->describe(),
        "write a text, or a list of {\"name\": ..., \"template\": ...}");
  for (const JsonValue &one : found->elements())
    if (one.at("name").asString() == "default")
      return &one.at("template");
  return nullptr;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string &directory) {
  std::string own = directory + "/chat_template.jinja",
              file = directory + "/tokenizer_config.json";
  std::optional<JsonValue> config;
  if (pathExists(file))
    config = parseJsonFile(file, modelJsonCodes);
  std::optional<ChatTemplate> found;
  if (pathExists(own)) {
    std::shared_ptr<const MappedFile> text = MappedFile::open(own, "H0301");
    found.emplace(
        std::string(reinterpret_cast<const char *>(text->data()), text->size()),
        SourceLocation{own});
  } else if (const JsonValue *inside = config ? templateIn(*config) : nullptr) {
    found.emplace(inside->asString(), inside->location());
  }
  if (!found)
    return found;
  auto program = std::make_shared<Program>(*found->program);
  for (const auto &[name, text] : readTokenNames(directory))
    program->specialTokens[name] = text;
  found->program = std::move(program);
  return found;
}
