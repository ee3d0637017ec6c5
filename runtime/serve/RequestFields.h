//===- RequestFields.h - Check fields of a request's body -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the fields of a JSON request with range checks, for all services.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H
#define HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H

#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/serve/CompletionRequest.h"

#include <functional>

namespace heddle::rt {

/// Throws an ApiError of status 400 with code H0380.
[[noreturn]] void refuse(const std::string &field, const std::string &message);
/// As `refuse`, for a value of a wrong type.
[[noreturn]] void refuseType(const io::JsonValue &value,
                             const std::string &expected);

const std::string &textOf(const io::JsonValue &value);

/// Reads the fields of a request's body and checks their ranges; null counts as
/// absent.
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
  /// Reads a field that has one prompt, or an array of at most `most` prompts.
  /// A prompt is a text or an array of token ids.
  std::vector<CompletionRequest::Prompt> prompts(const char *name,
                                                 size_t most) const;

private:
  const io::JsonValue &object;
};

/// Parses a body and passes its fields to `read`. Throws an ApiError if the
/// body is not a JSON object.
void readBody(const std::string &body,
              const std::function<void(const RequestFields &)> &read);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_REQUESTFIELDS_H
