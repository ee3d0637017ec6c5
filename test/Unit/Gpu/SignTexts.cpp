//===- SignTexts.cpp - Kernels of averages in one bit, as texts -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SignTexts.h"
#include "../Kernels/KernelReference.h"

namespace heddle::test {

static int64_t upTo(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

int64_t SignSizes::bucket() const {
  int64_t sum = padding;
  for (int64_t count : counts)
    sum += upTo(count, 64);
  return sum;
}

int64_t SignSizes::chunks() const {
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += upTo(count, 64 * parts) / parts;
  return sum;
}

std::string SignSizes::textOf(const std::string &text, int64_t rows) const {
  std::string list = "counts = array<i64: ";
  for (size_t i = 0; i < counts.size(); ++i)
    list += (i ? ", " : "") + std::to_string(counts[i]);
  auto named = [](int64_t value) { return std::to_string(value); };
  return instantiate(text,
                     {{"COUNTS", list + ">"},
                      {"PARTS", named(parts)},
                      {"TENSORS", named(static_cast<int64_t>(counts.size()))},
                      {"ROWS", named(rows)},
                      {"BUCKET", named(bucket())},
                      {"ALL_ROWS", named(rows * bucket())},
                      {"CHUNKS", named(rows * chunks())},
                      {"WORDS", named(chunks() / 32)}});
}

namespace signs {

const char *const scales = R"(
    plan.kernel @k(%x: tensor<$ALL_ROWSxf32>, %c: tensor<f32>) -> tensor<$ROWSx$TENSORSxf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1>} {
      %y = nn.sign_scales %x if %c parts $PARTS {$COUNTS}
          : (tensor<$ALL_ROWSxf32>, tensor<f32>) -> tensor<$ROWSx$TENSORSxf32>
      plan.yield %y : tensor<$ROWSx$TENSORSxf32>
    })";

const char *const scalesOfChunks = R"(
    plan.kernel @k(%x: tensor<$CHUNKSxf32>, %c: tensor<f32>, %i: index)
        -> tensor<$ROWSx$TENSORSxf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1>} {
      %y = nn.sign_scales %x if %c first %i parts $PARTS {$COUNTS, chunked}
          : (tensor<$CHUNKSxf32>, tensor<f32>, index) -> tensor<$ROWSx$TENSORSxf32>
      plan.yield %y : tensor<$ROWSx$TENSORSxf32>
    })";

const char *const joined = R"(
    plan.kernel @k(%a: tensor<$ROWSx$TENSORSxf32>, %i: index)
        -> (tensor<$ROWSx1xf32>, tensor<$ROWSx1xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, -1>} {
      %s, %n = nn.join_scales %a first %i parts $PARTS {$COUNTS, chunked}
          : (tensor<$ROWSx$TENSORSxf32>, index) -> (tensor<$ROWSx1xf32>, tensor<$ROWSx1xf32>)
      plan.yield %s, %n : tensor<$ROWSx1xf32>, tensor<$ROWSx1xf32>
    })";

const char *const packed = R"(
    plan.kernel @k(%x: tensor<$ALL_ROWSxf32>, %a: tensor<$ROWSx$TENSORSxf32>)
        -> (tensor<$ROWSx$PARTSx$WORDSxi32>, tensor<$ALL_ROWSxf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, 0>} {
      %w, %e = nn.pack_signs %x scales %a parts $PARTS {$COUNTS}
          : (tensor<$ALL_ROWSxf32>, tensor<$ROWSx$TENSORSxf32>)
          -> (tensor<$ROWSx$PARTSx$WORDSxi32>, tensor<$ALL_ROWSxf32>)
      plan.yield %w, %e : tensor<$ROWSx$PARTSx$WORDSxi32>, tensor<$ALL_ROWSxf32>
    })";

const char *const packedChunks = R"(
    plan.kernel @k(%x: tensor<$CHUNKSxf32>, %a: tensor<$ROWSx$TENSORSxf32>, %i: index)
        -> (tensor<$ROWSx1x$WORDSxi32>, tensor<$CHUNKSxf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, 0>} {
      %w, %e = nn.pack_signs %x scales %a first %i parts $PARTS {$COUNTS, chunked}
          : (tensor<$CHUNKSxf32>, tensor<$ROWSx$TENSORSxf32>, index)
          -> (tensor<$ROWSx1x$WORDSxi32>, tensor<$CHUNKSxf32>)
      plan.yield %w, %e : tensor<$ROWSx1x$WORDSxi32>, tensor<$CHUNKSxf32>
    })";

const char *const mean = R"(
    plan.kernel @k(%w: tensor<$PARTSx$ROWSx$WORDSxi32> {test.bits = 0.5},
        %a: tensor<$PARTSx$TENSORSxf32>, %e: tensor<$CHUNKSxf32>, %i: index)
        -> tensor<$CHUNKSxf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: 2>} {
      %y = nn.mean_signs %w scales %a to %e first %i parts $PARTS {$COUNTS}
          : (tensor<$PARTSx$ROWSx$WORDSxi32>, tensor<$PARTSx$TENSORSxf32>,
             tensor<$CHUNKSxf32>, index) -> tensor<$CHUNKSxf32>
      plan.yield %y : tensor<$CHUNKSxf32>
    })";

static const char *const unpacked = R"(
    plan.kernel @k(%w: tensor<$PARTSx1x$WORDSxi32> {test.bits = 0.5},
        %a: tensor<$PARTSx$TENSORSxf32>, %m: tensor<$BUCKETxf32>, %c: tensor<f32>)
        -> tensor<$BUCKETxf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: $TIE>} {
      %y = nn.unpack_signs %w scales %a else %m if %c parts $PARTS {$COUNTS}
          : (tensor<$PARTSx1x$WORDSxi32>, tensor<$PARTSx$TENSORSxf32>,
             tensor<$BUCKETxf32>, tensor<f32>) -> tensor<$BUCKETxf32>
      plan.yield %y : tensor<$BUCKETxf32>
    })";

std::string unpackedInto(const char *tie) {
  return instantiate(unpacked, {{"TIE", tie}});
}

} // namespace signs
} // namespace heddle::test
