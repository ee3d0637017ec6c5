//===- RequestFields.h - Fields of a body of a request ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H
#define HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/serve/CompletionRequest.h"

#include <functional>

namespace heddle::rt {

/// Throws an ApiError of status 400 and code H0380.
[[noreturn]] void refuse(const std::string &field, const std::string &message);
/// The same of a value that is not what was expected.
[[noreturn]] void refuseType(const io::JsonValue &value,
                             const std::string &expected);

const std::string &textOf(const io::JsonValue &value);

/// Fields with the ranges of their values; null counts as absent.
class RequestFields {
public:
  explicit RequestFields(const io::JsonValue &object) : object(object) {}

  const io::JsonValue *find(const char *name) const {
    return object.findNonNull(name);
  }
  bool flag(const char *name, bool fallback) const;
  std::optional<double> number(const char *name, double least,
                               double most) const;
  std::optional<int64_t> integer(const char *name, int64_t least,
                                 int64_t most) const;
  std::string text(const char *name) const {
    const io::JsonValue *value = find(name);
    return value ? textOf(*value) : "";
  }
  /// A text, tokens, or an array of at most so many of these.
  std::vector<CompletionRequest::Prompt> prompts(const char *name,
                                                 size_t most) const;

private:
  const io::JsonValue &object;
};

/// Hands the fields of a request's body to `read`; what is no JSON object is
/// refused with its place.
void readBody(const std::string &body,
              const std::function<void(const RequestFields &)> &read);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H
