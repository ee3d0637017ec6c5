//===- Json.h - JSON values with source positions ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads JSON that users have written or downloaded. Every value and key has its
// line and column, a duplicate key is an error, and getters report what they
// expected and what they found. nlohmann::json is used for JSON that Heddle
// writes itself.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_JSON_H
#define HEDDLE_RUNTIME_IO_JSON_H

#include "heddle/runtime/io/Diagnostic.h"
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace heddle::io {

/// The error codes of one kind of JSON file.
struct JsonCodes {
  const char *unreadable;   ///< The file cannot be opened or read.
  const char *syntax;       ///< The text is not JSON.
  const char *depth;        ///< It is nested too deeply.
  const char *duplicateKey; ///< An object names a key twice.
  const char *wrongType;    ///< A value has another type than is needed.
  const char *missingKey;   ///< A required key is missing.
  /// Accepts comments (`//`, `/* */`, `#`) and commas before closing brackets,
  /// as Hjson does, with which DeepSpeed reads its configuration.
  bool isHandWritten = false;
};

/// Codes for files that users write: ds_config.json, a description of the
/// cluster, or a strategy (the settings of a compilation).
extern const JsonCodes configJsonCodes; // H0101 to H0106
/// Codes for files of a model: config.json, indices, tokenizers, manifests.
extern const JsonCodes modelJsonCodes; // H0301 to H0306
/// Codes for the header of a safetensors file.
extern const JsonCodes safetensorsJsonCodes; // H0310 to H0315

/// Facts that all values of one document share.
struct JsonSource {
  std::string file;
  JsonCodes codes;
  /// False if the text is inside a binary file. Errors then show no source
  /// line.
  bool isTextFile = true;
};

struct JsonMember;

/// A JSON value with its position. Numbers without fraction and exponent are
/// integers. Getters of integers also accept floats with an integral value
/// (`5e8`); getters of floats accept both.
class JsonValue {
public:
  enum class Kind { Null, Bool, Integer, Float, String, Array, Object };

  JsonValue();
  JsonValue(const JsonValue &);
  JsonValue(JsonValue &&) noexcept;
  JsonValue &operator=(const JsonValue &);
  JsonValue &operator=(JsonValue &&) noexcept;
  ~JsonValue();

  Kind kind() const { return valueKind; }
  bool isNull() const { return valueKind == Kind::Null; }
  bool isBool() const { return valueKind == Kind::Bool; }
  bool isString() const { return valueKind == Kind::String; }
  bool isArray() const { return valueKind == Kind::Array; }
  bool isObject() const { return valueKind == Kind::Object; }
  bool isNumber() const {
    return valueKind == Kind::Integer || valueKind == Kind::Float;
  }

  /// These getters throw the document's `wrongType` error at this value.
  bool asBool() const;
  int64_t asInteger() const;
  double asNumber() const;
  const std::string &asString() const;
  const std::vector<JsonValue> &elements() const;
  /// The members of this object, in the order in which the JSON text has them.
  const std::vector<JsonMember> &members() const;

  /// The member's value, or null when this object has no such key.
  const JsonValue *find(const std::string &key) const;
  /// Returns the member's value, or null when the object has no such key or the
  /// value is JSON's null.
  const JsonValue *findNonNull(const std::string &key) const;
  /// Throws the document's `missingKey` error when the key is absent.
  const JsonValue &at(const std::string &key) const;

  /// Getters of members with a default; a null member counts as absent.
  bool boolOr(const std::string &key, bool fallback) const;
  int64_t integerOr(const std::string &key, int64_t fallback) const;
  double numberOr(const std::string &key, double fallback) const;
  std::string stringOr(const std::string &key,
                       const std::string &fallback) const;

  /// Where the value begins; without line and column if not `isTextFile`.
  SourceLocation location() const;
  /// The keys that lead from the root to this value, such as
  /// `optimizer.params.lr`.
  const std::string &path() const { return valuePath; }
  /// Describes the value for messages: `the string "auto"`, `an object`.
  std::string describe() const;
  /// Throws an error at this value, with file, position and path of keys.
  [[noreturn]] void fail(const std::string &code, const std::string &message,
                         const std::string &help = "") const;
  /// Throws `wrongType`: "PATH must be EXPECTED, not ...".
  [[noreturn]] void failType(const std::string &expected) const;

  nlohmann::json toJson() const;

private:
  friend class JsonTreeBuilder;
  friend struct JsonMember;
  Kind valueKind = Kind::Null;
  bool boolean = false;
  int32_t line = 0;
  int32_t column = 0;
  int64_t integer = 0;
  double number = 0;
  std::string string;
  std::vector<JsonValue> array;
  std::vector<JsonMember> object;
  std::string valuePath;
  std::shared_ptr<const JsonSource> source;
  SourceLocation locate(int32_t atLine, int32_t atColumn) const;
};

/// A key with its position, and its value.
struct JsonMember {
  std::string key;
  int32_t keyLine = 0;
  int32_t keyColumn = 0;
  JsonValue value;
  /// Where the key is; without line and column if not `isTextFile`.
  SourceLocation keyLocation() const;
};

/// Parses `text`; throws UserError with the codes of `source`. If `duplicates`
/// is given, a key that an object has twice causes no exception: the error is
/// added to `duplicates`, and the first member with this key counts.
JsonValue parseJson(const std::string &text, JsonSource source,
                    std::vector<Diagnostic> *duplicates = nullptr);

/// Reads and parses a file.
JsonValue parseJsonFile(const std::string &path, const JsonCodes &codes,
                        std::vector<Diagnostic> *duplicates = nullptr);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_JSON_H
