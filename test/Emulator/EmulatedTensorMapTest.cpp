//===- EmulatedTensorMapTest.cpp - Tensor maps of the driver --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedCuda.h"

using namespace heddle::rt::cuda;
using namespace heddle::test;

namespace {
/// Arguments of cuTensorMapEncodeTiled, for a matrix of 5 by 12 floats.
struct Tiling {
  TensorMapType type = TensorMapFloat32;
  unsigned rank = 2;
  uint64_t address = 4096;
  uint64_t sizes[5] = {12, 5, 1, 1, 1}, strides[4] = {48, 240, 240, 240};
  unsigned box[5] = {8, 4, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
  TensorMapInterleave interleave = TensorMapInterleaveNone;
  TensorMapSwizzle swizzle = TensorMapSwizzleNone;
  TensorMapFill fill = TensorMapFillZero;

  Result encode(TensorMapData *map) const {
    return cuTensorMapEncodeTiled(
        map, type, rank, reinterpret_cast<void *>(address), sizes, strides, box,
        steps, interleave, swizzle, TensorMapPromotionNone, fill);
  }
};
} // namespace

static const char *const boxText = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 to) {
  .reg .b64 %rd<9>;
  .reg .b32 %r<9>;
  .reg .pred %p<9>;
  .shared .align 128 .b8 tile[128];
  .shared .align 8 .b64 bar;
  mov.u64 %rd4, map;
  cvta.param.u64 %rd1, %rd4;
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, tile;
  mov.u32 %r2, bar;
  mov.u32 %r3, 7;
  mov.u32 %r4, 3;
  mov.u32 %r5, %tid.x;
  setp.eq.u32 %p1, %r5, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
  @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r3, %r4}], [%r2];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  @!%p2 bra wait;
  shl.b32 %r5, %r5, 2;
  add.u32 %r1, %r1, %r5;
  ld.shared.u32 %r6, [%r1];
  cvt.u64.u32 %rd3, %r5;
  add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r6;
  ret;
}
)";

/// A box from column 7 of row 3 on, which extends outside of the matrix.
TEST_F(EmulatedCuda, KernelsCopyBoxesOfTensorMaps) {
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, boxText), Success);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "box"), Success);
  std::vector<float> matrix(60), tile(32);
  for (int i = 0; i < 60; ++i)
    matrix[i] = float(i);
  Tiling tiling;
  tiling.address = memory(240);
  DevicePointer to = memory(128);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(tiling.address, matrix.data(), 240, nullptr),
            Success);
  for (TensorMapFill fill : {TensorMapFillZero, TensorMapFillNaN}) {
    TensorMapData map;
    tiling.fill = fill;
    tiling.steps[0] = 3; // Ignored.
    ASSERT_EQ(tiling.encode(&map), Success);
    void *arguments[] = {&map, &to};
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments,
                             nullptr),
              Success);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(tile.data(), to, 128, nullptr), Success);
    ASSERT_EQ(cuCtxSynchronize(), Success);
    for (int i = 0; i < 32; ++i) {
      int row = 3 + i / 8, column = 7 + i % 8;
      if (row < 5 && column < 12)
        EXPECT_EQ(tile[i], float(12 * row + column)) << i;
      else if (fill == TensorMapFillZero)
        EXPECT_EQ(tile[i], 0) << i;
      else
        EXPECT_NE(tile[i], tile[i]) << i;
    }
  }
}

TEST_F(EmulatedCuda, RefusesTensorMapsThatCudaRefuses) {
  TensorMapData map[2];
  auto encode = [&](auto change, TensorMapData *to) {
    Tiling tiling;
    change(tiling);
    testing::internal::CaptureStderr();
    Result result = tiling.encode(to);
    EXPECT_EQ(testing::internal::GetCapturedStderr().empty(),
              result == Success);
    return result;
  };
  auto expect = [&](Result result, auto change) {
    EXPECT_EQ(encode(change, map), result);
  };
  expect(Success, [](Tiling &) {});
  EXPECT_EQ(encode([](Tiling &) {}, reinterpret_cast<TensorMapData *>(
                                        reinterpret_cast<char *>(map) + 32)),
            InvalidValue);
  expect(InvalidValue, [](Tiling &t) { t.type = TensorMapType(13); });
  expect(InvalidValue, [](Tiling &t) { t.rank = 0; });
  expect(InvalidValue, [](Tiling &t) { t.rank = 6; });
  expect(Success, [](Tiling &t) { t.rank = 5; });
  expect(InvalidValue, [](Tiling &t) { t.address += 8; });
  expect(InvalidValue, [](Tiling &t) { t.sizes[1] = 0; });
  expect(Success, [](Tiling &t) { t.sizes[1] = uint64_t(1) << 32; });
  expect(InvalidValue, [](Tiling &t) { t.sizes[1] = (uint64_t(1) << 32) + 1; });
  expect(InvalidValue, [](Tiling &t) { t.strides[0] = 56; });
  expect(InvalidValue, [](Tiling &t) { t.strides[0] = uint64_t(1) << 40; });
  expect(Success, [](Tiling &t) { t.box[1] = 256; });
  expect(InvalidValue, [](Tiling &t) { t.box[1] = 257; });
  expect(InvalidValue, [](Tiling &t) { t.box[1] = 65536 + 4; });
  expect(InvalidValue, [](Tiling &t) { t.box[1] = 0; });
  expect(InvalidValue, [](Tiling &t) { t.box[0] = 7; });
  expect(Success, [](Tiling &t) { t.steps[1] = 8; });
  expect(InvalidValue, [](Tiling &t) { t.steps[1] = 9; });
  expect(InvalidValue, [](Tiling &t) { t.steps[1] = 256 + 1; });
  expect(InvalidValue, [](Tiling &t) { t.steps[0] = 0; });
  expect(NotSupported, [](Tiling &t) { t.interleave = TensorMapInterleave32; });
  expect(InvalidValue,
         [](Tiling &t) { t.interleave = TensorMapInterleave(3); });
  expect(InvalidValue, [](Tiling &t) { t.swizzle = TensorMapSwizzle(4); });
  auto swizzled = [](unsigned columns, int swizzle) {
    return [=](Tiling &t) {
      t.box[0] = columns;
      t.swizzle = TensorMapSwizzle(swizzle);
    };
  };
  expect(Success, swizzled(8, 1));
  expect(InvalidValue, swizzled(12, 1));
  expect(Success, swizzled(16, 2));
  expect(InvalidValue, swizzled(20, 2));
  expect(Success, swizzled(32, 3));
  expect(InvalidValue, swizzled(36, 3));
  expect(InvalidValue, [](Tiling &t) {
    t.type = TensorMapInt32;
    t.fill = TensorMapFillNaN;
  });
}
