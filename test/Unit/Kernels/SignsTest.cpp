//===- SignsTest.cpp - Kernels of averages in one bit ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of NNSignOps.td against the reference. The tensors have 100, 64,
// 330 and 7 elements: in the first case each of three replicas has a chunk of
// 64, 64, 128 and 64 elements, of which some are padding.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "KernelReference.h"
#include <gtest/gtest.h>

namespace heddle::test {
namespace {

constexpr const char *counts = "{counts = array<i64: 100, 64, 330, 7>}";

/// Runs a kernel for each row that a replica may have first.
void check(const char *body, std::vector<int64_t> firsts) {
  for (int64_t first : firsts) {
    KernelCheck check{instantiate(body, {{"COUNTS", counts}})};
    if (first >= 0)
      check.scalars = {first};
    check.run();
  }
}

// Tensors are multiples of 64 elements, because padding, which the check would
// fill with random numbers, has to be zero.
TEST(Signs, Scales) {
  for (int64_t first : {0, 1, 2}) {
    KernelCheck check{R"(
    plan.kernel @k(%x: tensor<256xf32>, %c: tensor<f32>, %i: index) -> tensor<1x3xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1>} {
      %y = nn.sign_scales %x if %c first %i parts 3
          {counts = array<i64: 192, 64, 384>, chunked}
          : (tensor<256xf32>, tensor<f32>, index) -> tensor<1x3xf32>
      plan.yield %y : tensor<1x3xf32>
    })"};
    check.scalars = {first};
    check.run();
  }
  KernelCheck whole{R"(
    plan.kernel @k(%x: tensor<1536xf32>, %c: tensor<f32>) -> tensor<2x3xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1>} {
      %y = nn.sign_scales %x if %c parts 2 {counts = array<i64: 192, 64, 384>}
          : (tensor<1536xf32>, tensor<f32>) -> tensor<2x3xf32>
      plan.yield %y : tensor<2x3xf32>
    })"};
  whole.run();
}

TEST(Signs, Pack) {
  check(R"(
    plan.kernel @k(%x: tensor<1280xf32>, %a: tensor<2x4xf32>)
        -> (tensor<2x3x10xi32>, tensor<1280xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, 0>} {
      %w, %e = nn.pack_signs %x scales %a parts 3 $COUNTS
          : (tensor<1280xf32>, tensor<2x4xf32>) -> (tensor<2x3x10xi32>, tensor<1280xf32>)
      plan.yield %w, %e : tensor<2x3x10xi32>, tensor<1280xf32>
    })",
        {-1});
}

TEST(Signs, PackChunks) {
  check(R"(
    plan.kernel @k(%x: tensor<320xf32>, %a: tensor<1x4xf32>, %i: index)
        -> (tensor<1x1x10xi32>, tensor<320xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, -1>} {
      %w, %e = nn.pack_signs %x scales %a first %i parts 3
          {chunked, counts = array<i64: 100, 64, 330, 7>}
          : (tensor<320xf32>, tensor<1x4xf32>, index) -> (tensor<1x1x10xi32>, tensor<320xf32>)
      plan.yield %w, %e : tensor<1x1x10xi32>, tensor<320xf32>
    })",
        {0, 1, 2});
}

TEST(Signs, Mean) {
  check(R"(
    plan.kernel @k(%w: tensor<3x1x10xi32>, %a: tensor<3x4xf32>, %e: tensor<320xf32>, %i: index)
        -> tensor<320xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: 2>} {
      %y = nn.mean_signs %w scales %a to %e first %i parts 3 $COUNTS
          : (tensor<3x1x10xi32>, tensor<3x4xf32>, tensor<320xf32>, index) -> tensor<320xf32>
      plan.yield %y : tensor<320xf32>
    })",
        {0, 1, 2});
}

TEST(Signs, Unpack) {
  check(R"(
    plan.kernel @k(%w: tensor<3x1x10xi32>, %a: tensor<3x4xf32>, %m: tensor<768xf32>, %c: tensor<f32>)
        -> tensor<768xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: 2>} {
      %y = nn.unpack_signs %w scales %a else %m if %c parts 3 $COUNTS
          : (tensor<3x1x10xi32>, tensor<3x4xf32>, tensor<768xf32>, tensor<f32>) -> tensor<768xf32>
      plan.yield %y : tensor<768xf32>
    })",
        {-1});
}

TEST(Signs, JoinScales) {
  check(R"(
    plan.kernel @k(%a: tensor<2x4xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, -1>} {
      %s, %n = nn.join_scales %a parts 3 $COUNTS
          : (tensor<2x4xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
      plan.yield %s, %n : tensor<2x1xf32>, tensor<2x1xf32>
    })",
        {-1});
  check(R"(
    plan.kernel @k(%a: tensor<1x4xf32>, %i: index) -> (tensor<1x1xf32>, tensor<1x1xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, -1>} {
      %s, %n = nn.join_scales %a first %i parts 3
          {chunked, counts = array<i64: 100, 64, 330, 7>}
          : (tensor<1x4xf32>, index) -> (tensor<1x1xf32>, tensor<1x1xf32>)
      plan.yield %s, %n : tensor<1x1xf32>, tensor<1x1xf32>
    })",
        {0, 1, 2});
}

/// One scale for all tensors of a row.
TEST(Signs, JointScales) {
  check(R"(
    plan.kernel @k(%x: tensor<1280xf32>, %a: tensor<2x1xf32>)
        -> (tensor<2x3x10xi32>, tensor<1280xf32>)
        attributes {generator = #plan.generator<signs>, ties = array<i64: -1, 0>} {
      %w, %e = nn.pack_signs %x scales %a parts 3 $COUNTS
          : (tensor<1280xf32>, tensor<2x1xf32>) -> (tensor<2x3x10xi32>, tensor<1280xf32>)
      plan.yield %w, %e : tensor<2x3x10xi32>, tensor<1280xf32>
    })",
        {-1});
  check(R"(
    plan.kernel @k(%w: tensor<3x1x10xi32>, %a: tensor<3x1xf32>, %e: tensor<320xf32>, %i: index)
        -> tensor<320xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: 2>} {
      %y = nn.mean_signs %w scales %a to %e first %i parts 3 $COUNTS
          : (tensor<3x1x10xi32>, tensor<3x1xf32>, tensor<320xf32>, index) -> tensor<320xf32>
      plan.yield %y : tensor<320xf32>
    })",
        {1});
  check(R"(
    plan.kernel @k(%w: tensor<3x1x10xi32>, %a: tensor<3x1xf32>, %f: tensor<4xf32>,
        %m: tensor<768xf32>, %c: tensor<f32>) -> tensor<768xf32>
        attributes {generator = #plan.generator<signs>, ties = array<i64: 3>} {
      %y = nn.unpack_signs %w scales %a times %f else %m if %c parts 3 $COUNTS
          : (tensor<3x1x10xi32>, tensor<3x1xf32>, tensor<768xf32>, tensor<f32>,
             tensor<4xf32>) -> tensor<768xf32>
      plan.yield %y : tensor<768xf32>
    })",
        {-1});
}

} // namespace
} // namespace heddle::test
