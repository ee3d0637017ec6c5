//===- Dtype.cpp - Element types and their conversion -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Safetensors.h"
#include <cstring>

using namespace heddle;
using namespace heddle::io;

template <typename From, typename To>
static void convertLoop(const uint8_t *source, uint8_t *destination,
                        int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename From::Storage in;
    std::memcpy(&in, source + i * sizeof in, sizeof in);
    typename To::Storage out = To::store(From::load(in));
    std::memcpy(destination + i * sizeof out, &out, sizeof out);
  }
}

template <typename From>
static bool convertFrom(const uint8_t *source, uint8_t *destination,
                        const std::string &type, int64_t count) {
  if (type == "F32")
    convertLoop<From, F32>(source, destination, count);
  else if (type == "F64")
    convertLoop<From, F64>(source, destination, count);
  else if (type == "BF16")
    convertLoop<From, BF16>(source, destination, count);
  else if (type == "F16")
    convertLoop<From, F16>(source, destination, count);
  else
    return false;
  return true;
}

bool io::convertElements(const void *source, const std::string &sourceType,
                         void *destination, const std::string &destinationType,
                         int64_t count) {
  const uint8_t *in = static_cast<const uint8_t *>(source);
  uint8_t *out = static_cast<uint8_t *>(destination);
  if (sourceType == destinationType) {
    int64_t bits = dtypeBits(sourceType);
    if (bits == 0)
      return false;
    if (count > 0)
      std::memcpy(out, in, (count * bits + 7) / 8);
    return true;
  }
  if (sourceType == "F32")
    return convertFrom<F32>(in, out, destinationType, count);
  if (sourceType == "F64")
    return convertFrom<F64>(in, out, destinationType, count);
  if (sourceType == "BF16")
    return convertFrom<BF16>(in, out, destinationType, count);
  if (sourceType == "F16")
    return convertFrom<F16>(in, out, destinationType, count);
  return false;
}
