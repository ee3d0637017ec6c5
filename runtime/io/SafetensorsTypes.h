//===- SafetensorsTypes.h - Element types of safetensors --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_SAFETENSORSTYPES_H
#define HEDDLE_RUNTIME_IO_SAFETENSORSTYPES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::io {

struct DtypeEntry {
  const char *name;
  int bits;
};

/// All dtypes, from the lowest to the highest in the order of the reference
/// writer, which puts the tensors of the highest dtype first.
inline constexpr DtypeEntry dtypes[] = {
    {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16},        {"F16", 16},        {"BF16", 16},   {"I32", 32},
    {"U32", 32},        {"F32", 32},        {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};
inline constexpr size_t numDtypes = sizeof dtypes / sizeof dtypes[0];

/// Returns the index in `dtypes`; -1 if there is no such type.
int dtypeRank(const std::string &dtype);

/// Returns the number of bits of a tensor; none if a dimension is negative or
/// the product overflows.
std::optional<int64_t> tensorBits(const std::vector<int64_t> &shape,
                                  int64_t bits);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SAFETENSORSTYPES_H
