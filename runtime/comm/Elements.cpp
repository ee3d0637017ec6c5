//===- Elements.cpp - Convert and add elements ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over the elements of collectives: conversions and sums. Compiled with
// options for vectorization, see CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Elements.h"

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Float.h"

#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using plan::DType;

/// Calls `function` with the C++ type that implements the conversions of the
/// float type `type`.
template <typename Function> static void visit(DType type, Function function) {
  switch (type) {
  case DType::F32:
    return function(io::F32());
  case DType::BF16:
    return function(io::BF16());
  case DType::F16:
    return function(io::F16());
  default:
    fail("H0921", std::string("a collective cannot sum or convert ") +
                      plan::nameOf(type));
  }
}

void rt::convertElements(DType from, const void *source, DType to,
                         void *destination, int64_t count) {
  if (from == to) {
    if (source != destination && count > 0)
      std::memcpy(destination, source, count * plan::byteSize(from));
    return;
  }
  visit(from, [&](auto in) {
    visit(to, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      auto *values = static_cast<const typename In::Storage *>(source);
      auto *results = static_cast<typename Out::Storage *>(destination);
      for (int64_t i = 0; i < count; ++i)
        results[i] = Out::store(In::load(values[i]));
    });
  });
}

void rt::addElements(float *sum, DType type, const void *values,
                     int64_t count) {
  visit(type, [&](auto in) {
    using In = decltype(in);
    auto *added = static_cast<const typename In::Storage *>(values);
    for (int64_t i = 0; i < count; ++i)
      sum[i] += In::load(added[i]);
  });
}

void rt::roundElements(float *values, DType to, int64_t count) {
  if (to == DType::F32)
    return;
  visit(to, [&](auto out) {
    using Out = decltype(out);
    for (int64_t i = 0; i < count; ++i)
      values[i] = Out::load(Out::store(values[i]));
  });
}
