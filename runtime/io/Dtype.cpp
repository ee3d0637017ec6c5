//===- Dtype.cpp - Convert elements and test them ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of safetensors' element types, conversion of elements, and the
// search for elements that are not finite.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::io;

bool io::isFloatType(const std::string &dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "BF16" || dtype == "F16";
}

const char *io::nameInConfig(const std::string &dtype) {
  return dtype == "F64"    ? "float64"
         : dtype == "BF16" ? "bfloat16"
         : dtype == "F16"  ? "float16"
                           : "float32";
}

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

//===----------------------------------------------------------------------===//
// Values that are not finite
//===----------------------------------------------------------------------===//

/// Whether an element has all bits of `mask` set. If `mask` has the bits of the
/// exponent, such an element is not finite.
template <typename Bits>
static int64_t firstWithAll(const uint8_t *elements, Bits mask, int64_t count) {
  auto load = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    return bits;
  };
  // Test many elements before branching, so that the loop vectorizes.
  constexpr int64_t most = 4096;
  for (int64_t first = 0; first < count; first += most) {
    int64_t end = std::min(count, first + most);
    Bits any = 0;
    for (int64_t i = first; i < end; ++i)
      any |= (load(i) & mask) == mask;
    for (int64_t i = first; any && i < end; ++i)
      if ((load(i) & mask) == mask)
        return i;
  }
  return -1;
}

int64_t io::firstNonFinite(const void *elements, const std::string &type,
                           int64_t count) {
  auto *bytes = static_cast<const uint8_t *>(elements);
  if (type == "F32")
    return firstWithAll<uint32_t>(bytes, 0x7F800000, count);
  if (type == "BF16")
    return firstWithAll<uint16_t>(bytes, 0x7F80, count);
  if (type == "F16")
    return firstWithAll<uint16_t>(bytes, 0x7C00, count);
  if (type == "F64")
    return firstWithAll<uint64_t>(bytes, 0x7FF0000000000000, count);
  return -1;
}

void io::failNonFinite(const TensorInfo &info, const std::string &type,
                       int64_t element) {
  std::vector<int64_t> place(info.shape.size());
  int64_t rest = element;
  for (size_t i = place.size(); i-- > 0;) {
    place[i] = rest % info.shape[i];
    rest /= info.shape[i];
  }
  fail("H0307",
       "tensor \"" + info.name + "\" is not finite: its element " +
           shapeToString(place) + " is infinite or no number" +
           (info.dtype == type ? "" : " as " + type),
       "use weights from before they went wrong, as an earlier checkpoint",
       {info.file, 0, 0});
}
