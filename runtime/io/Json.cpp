//===- Json.cpp - JSON values with source positions -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses JSON with nlohmann's SAX parser. A cursor follows the parser's events
// through the same text, token by token, to find the position of each value.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>

using namespace heddle;
using namespace heddle::io;

const JsonCodes io::configJsonCodes = {"H0101", "H0102", "H0103", "H0104",
                                       "H0105", "H0106", true};
const JsonCodes io::modelJsonCodes = {"H0301", "H0302", "H0303",
                                      "H0304", "H0305", "H0306"};
const JsonCodes io::safetensorsJsonCodes = {"H0310", "H0311", "H0312",
                                            "H0313", "H0314", "H0315"};

static constexpr size_t maxDepth = 200;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

JsonValue::JsonValue() = default;
JsonValue::JsonValue(const JsonValue &) = default;
JsonValue::JsonValue(JsonValue &&) noexcept = default;
JsonValue &JsonValue::operator=(const JsonValue &) = default;
JsonValue &JsonValue::operator=(JsonValue &&) noexcept = default;
JsonValue::~JsonValue() = default;

static SourceLocation makeLocation(const JsonSource &source, int64_t line,
                                   int64_t column) {
  if (!source.isTextFile)
    return {source.file, 0, 0};
  return {source.file, line, column};
}

SourceLocation JsonValue::locate(int32_t atLine, int32_t atColumn) const {
  return source ? makeLocation(*source, atLine, atColumn) : SourceLocation();
}

SourceLocation JsonValue::location() const { return locate(line, column); }

SourceLocation JsonMember::keyLocation() const {
  return value.locate(keyLine, keyColumn);
}

void JsonValue::fail(const std::string &code, const std::string &message,
                     const std::string &help) const {
  heddle::fail(code, message, help, location());
}

std::string JsonValue::describe() const {
  switch (valueKind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return boolean ? "true" : "false";
  case Kind::Integer:
    return "the number " + std::to_string(integer);
  case Kind::Float:
    if (std::isinf(number))
      return number > 0 ? "Infinity" : "-Infinity";
    return "the number " + nlohmann::json(number).dump();
  case Kind::String:
    if (string.size() > 40)
      return "a string";
    return "the string \"" + string + "\"";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "a value";
}

void JsonValue::failType(const std::string &expected) const {
  std::string what =
      valuePath.empty() ? std::string("the document") : '"' + valuePath + '"';
  std::string help = "give " + expected;
  if (isString() && expected.find("string") == std::string::npos) {
    // Words such as "auto" keep their quotation marks.
    size_t word = expected.find(" or \"");
    help = "give " + expected.substr(0, word) + ", without quotation marks";
    if (word != std::string::npos)
      help += "," + expected.substr(word);
  }
  fail(source ? source->codes.wrongType : modelJsonCodes.wrongType,
       what + " must be " + expected + ", not " + describe(), help);
}

bool JsonValue::asBool() const {
  if (valueKind != Kind::Bool)
    failType("true or false");
  return boolean;
}

int64_t JsonValue::asInteger() const {
  if (valueKind == Kind::Integer)
    return integer;
  // The limit 2^63 is exact as a double. All integral doubles with a smaller
  // magnitude can be converted to int64_t.
  if (valueKind == Kind::Float && std::trunc(number) == number &&
      std::abs(number) < 9223372036854775808.0)
    return static_cast<int64_t>(number);
  failType("an integer");
}

double JsonValue::asNumber() const {
  if (valueKind == Kind::Integer)
    return static_cast<double>(integer);
  if (valueKind != Kind::Float)
    failType("a number");
  return number;
}

const std::string &JsonValue::asString() const {
  if (valueKind != Kind::String)
    failType("a string");
  return string;
}

const std::vector<JsonValue> &JsonValue::elements() const {
  if (valueKind != Kind::Array)
    failType("an array");
  return array;
}

const std::vector<JsonMember> &JsonValue::members() const {
  if (valueKind != Kind::Object)
    failType("an object");
  return object;
}

const JsonValue *JsonValue::find(const std::string &key) const {
  for (const JsonMember &member : members())
    if (member.key == key)
      return &member.value;
  return nullptr;
}

const JsonValue *JsonValue::findNonNull(const std::string &key) const {
  const JsonValue *value = find(key);
  return value && !value->isNull() ? value : nullptr;
}

const JsonValue &JsonValue::at(const std::string &key) const {
  if (const JsonValue *value = find(key))
    return *value;
  std::string where = valuePath.empty() ? "" : " in \"" + valuePath + '"';
  fail(source ? source->codes.missingKey : modelJsonCodes.missingKey,
       "the key \"" + key + "\" is missing" + where, "add \"" + key + "\"");
}

bool JsonValue::boolOr(const std::string &key, bool fallback) const {
  const JsonValue *value = findNonNull(key);
  return value ? value->asBool() : fallback;
}

int64_t JsonValue::integerOr(const std::string &key, int64_t fallback) const {
  const JsonValue *value = findNonNull(key);
  return value ? value->asInteger() : fallback;
}

double JsonValue::numberOr(const std::string &key, double fallback) const {
  const JsonValue *value = findNonNull(key);
  return value ? value->asNumber() : fallback;
}

std::string JsonValue::stringOr(const std::string &key,
                                const std::string &fallback) const {
  const JsonValue *value = findNonNull(key);
  return value ? value->asString() : fallback;
}

nlohmann::json JsonValue::toJson() const {
  nlohmann::json out;
  switch (valueKind) {
  case Kind::Null:
    break;
  case Kind::Bool:
    out = boolean;
    break;
  case Kind::Integer:
    out = integer;
    break;
  case Kind::Float:
    out = number;
    break;
  case Kind::String:
    out = string;
    break;
  case Kind::Array:
    out = nlohmann::json::array();
    for (const JsonValue &element : array)
      out.push_back(element.toJson());
    break;
  case Kind::Object:
    out = nlohmann::json::object();
    for (const JsonMember &member : object)
      out[member.key] = member.value.toJson();
    break;
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

/// A number that Python's json module writes as a word that JSON lacks:
/// Infinity or -Infinity. NaN is not accepted.
struct WordNumber {
  std::string_view text;
  double value;
};

constexpr WordNumber wordNumbers[] = {
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()}};

/// Walks over a text token by token and counts lines and columns.
class Cursor {
public:
  explicit Cursor(const std::string &text) : text(text) {
    if (text.compare(0, 3, "\xEF\xBB\xBF") == 0)
      offset = lineStart = 3;
  }

  /// Moves to the next token other than `,` or `:`.
  void skipToToken() {
    while (offset < text.size() && isBetween(text[offset]))
      newLineIf(text[offset++]);
  }
  /// Moves past the current token.
  void skipToken() {
    if (offset >= text.size())
      return;
    char first = text[offset++];
    if (first == '"') {
      while (offset < text.size() && text[offset] != '"')
        offset += text[offset] == '\\' ? 2 : 1;
      ++offset;
    } else if (!isStructure(first)) {
      // A number cannot have a leading zero, so nlohmann's parser reads `012`
      // as the two numbers 0 and 12. Do the same here: end this token after the
      // zero.
      size_t digit = first == '-' ? offset : offset - 1;
      if (text.compare(digit, 1, "0") == 0 && digit + 1 < text.size() &&
          std::isdigit(static_cast<unsigned char>(text[digit + 1]))) {
        offset = digit + 1;
        return;
      }
      while (offset < text.size() && !isBetween(text[offset]) &&
             !isStructure(text[offset]))
        ++offset;
    }
  }
  /// Moves forward to a byte offset.
  void skipTo(size_t target) {
    while (offset < std::min(target, text.size()))
      newLineIf(text[offset++]);
  }
  /// Returns the value of the word at the cursor if it is an infinity.
  std::optional<double> wordNumber() const {
    for (const WordNumber &word : wordNumbers)
      if (!atEnd() && text.compare(offset, word.text.size(), word.text) == 0)
        return word.value;
    return std::nullopt;
  }
  bool atEnd() const { return offset >= text.size(); }
  char peek() const { return text[offset]; }
  int64_t line() const { return lineNumber; }
  int64_t column() const {
    return static_cast<int64_t>(offset - lineStart) + 1;
  }

private:
  static bool isStructure(char c) {
    return c == '{' || c == '}' || c == '[' || c == ']';
  }
  static bool isBetween(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' ||
           c == ':';
  }
  void newLineIf(char c) {
    if (c != '\n')
      return;
    ++lineNumber;
    lineStart = offset;
  }

  const std::string &text;
  size_t offset = 0;
  size_t lineStart = 0;
  int64_t lineNumber = 1;
};

} // namespace

namespace heddle::io {

/// Builds the tree of values from the parser's events.
class JsonTreeBuilder {
public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonTreeBuilder(const std::string &text,
                  std::shared_ptr<const JsonSource> source,
                  std::vector<Diagnostic> *duplicates)
      : cursor(text), source(std::move(source)), duplicates(duplicates) {}

  bool null() { return add(JsonValue::Kind::Null) != nullptr; }
  bool boolean(bool value) {
    add(JsonValue::Kind::Bool)->boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) {
    add(JsonValue::Kind::Integer)->integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) {
    // zeroWordNumbers has replaced Infinity by 0 in the parser's text.
    // The cursor reads the original text, and finds the word.
    cursor.skipToToken();
    if (std::optional<double> word = cursor.wordNumber())
      return number_float(*word, "");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return number_float(static_cast<double>(value), "");
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t &) {
    add(JsonValue::Kind::Float)->number = value;
    return true;
  }
  bool string(string_t &value) {
    add(JsonValue::Kind::String)->string = std::move(value);
    return true;
  }
  bool binary(binary_t &) { return false; }
  bool start_object(size_t) {
    open.push_back(add(JsonValue::Kind::Object));
    keys.emplace_back();
    return true;
  }
  bool start_array(size_t) {
    open.push_back(add(JsonValue::Kind::Array));
    keys.emplace_back();
    return true;
  }
  bool key(string_t &value);
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string &lastToken,
                   const nlohmann::json::exception &error);

  JsonValue takeRoot() { return std::move(root); }

private:
  JsonValue *add(JsonValue::Kind kind);
  bool close() {
    cursor.skipToToken();
    cursor.skipToken();
    open.pop_back();
    keys.pop_back();
    return true;
  }
  SourceLocation here() const {
    return makeLocation(*source, cursor.line(), cursor.column());
  }
  [[noreturn]] void fail(const std::string &code, const std::string &message,
                         const std::string &help) {
    heddle::fail(code, message, help, here());
  }

  Cursor cursor;
  std::shared_ptr<const JsonSource> source;
  std::vector<Diagnostic> *duplicates;
  JsonValue root;
  /// Open arrays and objects, outermost first, and their keys.
  std::vector<JsonValue *> open;
  std::vector<std::unordered_set<std::string>> keys;
};

} // namespace heddle::io

JsonValue *JsonTreeBuilder::add(JsonValue::Kind kind) {
  cursor.skipToToken();
  if (open.size() >= maxDepth)
    fail(source->codes.depth,
         "nested more than " + std::to_string(maxDepth) + " levels deep",
         "flatten the file");
  JsonValue *value = &root;
  if (!open.empty()) {
    JsonValue *parent = open.back();
    if (parent->isObject()) {
      value = &parent->object.back().value;
      value->valuePath =
          parent->valuePath.empty()
              ? parent->object.back().key
              : parent->valuePath + "." + parent->object.back().key;
    } else {
      parent->array.emplace_back();
      value = &parent->array.back();
      value->valuePath = parent->valuePath + "[" +
                         std::to_string(parent->array.size() - 1) + "]";
    }
  }
  value->valueKind = kind;
  value->line = static_cast<int32_t>(cursor.line());
  value->column = static_cast<int32_t>(cursor.column());
  value->source = source;
  cursor.skipToken();
  return value;
}

bool JsonTreeBuilder::key(string_t &value) {
  cursor.skipToToken();
  JsonValue *object = open.back();
  if (!keys.back().insert(value).second) {
    Diagnostic twice = {source->codes.duplicateKey,
                        "the key \"" + value +
                            "\" is given twice in one object",
                        here(),
                        {},
                        "remove one of the two; which was meant cannot be "
                        "known"};
    if (!duplicates)
      throw UserError(std::move(twice));
    duplicates->push_back(std::move(twice));
  }
  object->object.emplace_back();
  JsonMember &member = object->object.back();
  member.key = std::move(value);
  member.keyLine = static_cast<int32_t>(cursor.line());
  member.keyColumn = static_cast<int32_t>(cursor.column());
  cursor.skipToken();
  return true;
}

/// Returns nlohmann's message without its prefix.
static std::string syntaxMessage(const std::string &what) {
  for (const char *mark : {"syntax error while parsing ", "] "}) {
    size_t at = what.find(mark);
    if (at == std::string::npos)
      continue;
    std::string rest = what.substr(at + std::string(mark).size());
    size_t dash = rest.find(" - ");
    if (dash != std::string::npos)
      rest = rest.substr(dash + 3);
    std::replace_if(
        rest.begin(), rest.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return rest.size() > 200 ? rest.substr(0, 200) + " ..." : rest;
  }
  return what;
}

bool JsonTreeBuilder::parse_error(size_t position, const std::string &,
                                  const nlohmann::json::exception &error) {
  std::string message = syntaxMessage(error.what());
  cursor.skipToToken();
  bool bracketNext =
      !cursor.atEnd() && (cursor.peek() == '}' || cursor.peek() == ']');
  auto says = [&](const char *part) {
    return message.find(part) != std::string::npos;
  };
  std::string help = "mend the syntax here";
  if (says("ill-formed UTF-8"))
    help = "save the file as UTF-8";
  else if (cursor.atEnd() || says("missing closing quote"))
    help = "the text ends too early: close what is open";
  else if (bracketNext)
    help = "remove the comma before this bracket";
  else if (source->codes.isHandWritten && cursor.peek() == '/')
    help = "the comment has no end: add */";
  else if (says("expected ',' or") || says("expected '}'") ||
           says("expected ']'"))
    help = "is a comma missing before this?";
  else if (cursor.peek() == '/' || cursor.peek() == '#')
    help = "remove the comment: JSON has none";
  else if (cursor.peek() == '\'')
    help = "write strings in double quotation marks";
  else if (says("expected string literal"))
    help = says("unexpected ','") ? "remove the comma before this"
                                  : "put the key in double quotation marks";
  if (message.find("invalid string") != std::string::npos && position > 0)
    cursor.skipTo(position - 1);
  fail(source->codes.syntax, "not valid JSON: " + message, help);
}

/// Returns the index after the closing quote of the string that begins at
/// `begin`. Returns the text's size if the string does not end.
static size_t endOfString(const std::string &text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && text[end] != '"')
    end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

/// Returns the end of the comment that begins at `begin`; `begin` if there is
/// none or it does not end.
static size_t endOfComment(const std::string &text, size_t begin) {
  if (text[begin] == '#' || text.compare(begin, 2, "//") == 0)
    return std::min(text.find('\n', begin), text.size());
  if (text.compare(begin, 2, "/*") != 0)
    return begin;
  size_t end = text.find("*/", begin + 2);
  return end == std::string::npos ? begin : end + 2;
}

/// Replaces comments, and commas before closing brackets, by blanks.
static std::string blankHandWriting(std::string text) {
  // `last` is the last character other than white space. `comma` is the offset
  // of a comma that follows an element and is followed only by white space so
  // far.
  char last = '{';
  size_t comma = std::string::npos;
  for (size_t i = 0; i < text.size();) {
    size_t end = endOfComment(text, i);
    if (end > i) {
      for (; i < end; ++i)
        text[i] = text[i] == '\n' ? '\n' : ' ';
      continue;
    }
    char c = text[i];
    bool isElement = last != '{' && last != '[' && last != ',' && last != ':';
    if ((c == '}' || c == ']') && comma != std::string::npos)
      text[comma] = ' ';
    if (c == ',')
      comma = isElement ? i : std::string::npos;
    else if (!std::isspace(static_cast<unsigned char>(c)))
      comma = std::string::npos;
    if (!std::isspace(static_cast<unsigned char>(c)))
      last = c;
    i = c == '"' ? endOfString(text, i) : i + 1;
  }
  return text;
}

/// Replaces the words Infinity and -Infinity, which JSON lacks, by 0 and
/// blanks, so that the offsets of all other characters stay the same.
static std::string zeroWordNumbers(std::string text) {
  char last = ' ';
  for (size_t i = 0; i < text.size();) {
    size_t end = text[i] == '"' ? endOfString(text, i) : i + 1;
    bool begins = std::isspace(static_cast<unsigned char>(last)) ||
                  last == ':' || last == ',' || last == '[';
    for (const WordNumber &word : wordNumbers) {
      size_t size = word.text.size();
      if (!begins || text.compare(i, size, word.text) != 0)
        continue;
      text.replace(i, size, "0" + std::string(size - 1, ' '));
      end = i + size;
      break;
    }
    last = text[end - 1];
    i = end;
  }
  return text;
}

JsonValue io::parseJson(const std::string &text, JsonSource source,
                        std::vector<Diagnostic> *duplicates) {
  std::string written =
      source.codes.isHandWritten ? blankHandWriting(text) : text;
  std::string plain = source.isTextFile ? zeroWordNumbers(written) : written;
  JsonTreeBuilder builder(written,
                          std::make_shared<const JsonSource>(std::move(source)),
                          duplicates);
  nlohmann::json::sax_parse(plain, &builder);
  return builder.takeRoot();
}

JsonValue io::parseJsonFile(const std::string &path, const JsonCodes &codes,
                            std::vector<Diagnostic> *duplicates) {
  return parseJson(readText(path, codes.unreadable), {path, codes, true},
                   duplicates);
}
