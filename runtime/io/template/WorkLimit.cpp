//===- WorkLimit.cpp - Limits of a template's work ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WorkLimit.h"
#include <cstdlib>

using namespace heddle::io;
using namespace heddle::io::jinja;

static thread_local WorkLimit *current = nullptr;

static const char *stackHere() {
  return static_cast<const char *>(__builtin_frame_address(0));
}

WorkLimit::WorkLimit() : begin(stackHere()) { current = this; }

WorkLimit::~WorkLimit() {
  current = nullptr;
  for (const Value &value : changed) {
    if (value.isList())
      List(std::move(value.list())).clear();
    else
      Dict(std::move(value.dict())).clear();
  }
}

void WorkLimit::spend(int64_t bytes) {
  if (!current)
    return;
  if (bytes > current->left)
    throw TemplateError{"the template does too much, or does not come to an "
                        "end"};
  current->left -= bytes;
}

void WorkLimit::deepen() {
  // The bytes of stack that rendering may use. A thread's stack usually has 8
  // MiB.
  constexpr int64_t deepest = 2 << 20;
  if (current && std::abs(current->begin - stackHere()) > deepest)
    throw TemplateError{"what the template does is nested too deeply"};
}

void WorkLimit::mayHoldItself(const Value &value) {
  if (!current)
    return;
  spend(sizeof(Value));
  current->changed.push_back(value);
}
