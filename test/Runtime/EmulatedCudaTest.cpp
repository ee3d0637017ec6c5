//===- EmulatedCudaTest.cpp - The emulated driver by itself ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "runtime/devices/emulated/cuda/Calls.h"

#include <cstring>

using namespace heddle::rt::cuda;
using namespace heddle::test;

static const char *const addText = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u64 value) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [value];
  ld.global.u64 %rd3, [%rd1];
  add.u64 %rd3, %rd3, %rd2;
  st.global.u64 [%rd1], %rd3;
  ret;
}
)";

namespace {
/// A context on the first device, current in this thread.
class EmulatedCuda : public testing::Test {
protected:
  EmulatedCuda() {
    EXPECT_EQ(cuInit(0), Success);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
    EXPECT_EQ(cuCtxSetCurrent(context), Success);
  }
  ~EmulatedCuda() override { cuDevicePrimaryCtxRelease_v2(0); }

  /// Zeroed memory.
  DevicePointer memory(size_t bytes) {
    DevicePointer address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), Success);
    EXPECT_EQ(cuMemsetD8Async(address, 0, bytes, nullptr), Success);
    EXPECT_EQ(cuCtxSynchronize(), Success);
    return address;
  }
  StreamHandle stream(unsigned flags = streamNonBlocking) {
    StreamHandle made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), Success);
    return made;
  }
  EventHandle event() {
    EventHandle made = nullptr;
    EXPECT_EQ(cuEventCreate(&made, eventDisableTiming), Success);
    return made;
  }
  Function addFunction() {
    Module module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, addText), Success);
    Function function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, "add"), Success);
    return function;
  }
  /// *to += value.
  Result add(Function function, DevicePointer to, uint64_t value,
             StreamHandle stream, unsigned threads = 1, unsigned shared = 0) {
    void *arguments[] = {&to, &value};
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, stream,
                          arguments, nullptr);
  }
  uint64_t numberAt(DevicePointer address) {
    uint64_t found = 0;
    EXPECT_EQ(cuCtxSynchronize(), Success);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&found, address, 8, nullptr), Success);
    EXPECT_EQ(cuCtxSynchronize(), Success);
    return found;
  }

  Context context = nullptr;
};
} // namespace

TEST_F(EmulatedCuda, SaysWhatItIs) {
  int version = 0, count = 0, value = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), Success);
  EXPECT_EQ(version, 12000);
  EXPECT_EQ(cuDeviceGetCount(&count), Success);
  EXPECT_EQ(count, 1);
  DeviceNumber device = -1;
  EXPECT_EQ(cuDeviceGet(&device, 0), Success);
  EXPECT_EQ(cuDeviceGet(&device, 1), InvalidDevice);
  EXPECT_EQ(cuDeviceGetAttribute(&value, MaxSharedPerBlockOptin, 0), Success);
  EXPECT_EQ(value, 227 * 1024);
  EXPECT_EQ(cuDeviceGetAttribute(&value, DeviceAttribute(9999), 0),
            InvalidValue);
  EXPECT_EQ(cuDeviceGetAttribute(&value, WarpSize, 1), InvalidDevice);
  size_t bytes = 0;
  EXPECT_EQ(cuDeviceTotalMem_v2(&bytes, 0), Success);
  EXPECT_EQ(bytes, size_t(80) << 30);
  Uuid uuid;
  EXPECT_EQ(cuDeviceGetUuid_v2(&uuid, 0), Success);
  Context now = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&now), Success);
  EXPECT_EQ(now, context);
}

TEST_F(EmulatedCuda, HasOneDeviceForEachRank) {
  Variable ranks("OMPI_COMM_WORLD_LOCAL_SIZE", "3");
  EXPECT_EQ(cuInit(0), Success);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), Success);
  EXPECT_EQ(count, 3);
}

TEST_F(EmulatedCuda, NamesErrors) {
  const char *text = nullptr;
  EXPECT_EQ(cuGetErrorName(IllegalAddress, &text), Success);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(cuGetErrorString(OutOfMemory, &text), Success);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(Result(12345), &text), InvalidValue);
}

TEST_F(EmulatedCuda, FindsItsFunctionsByName) {
  void *found = nullptr;
  ProcAddressResult result;
  EXPECT_EQ(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &result),
            Success);
  EXPECT_EQ(found, reinterpret_cast<void *>(&cuMemAlloc_v2));
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &found, 11040, 0, nullptr), Success);
  EXPECT_EQ(found, reinterpret_cast<void *>(&cuInit));
  EXPECT_EQ(cuGetProcAddress_v2("cuMem", &found, 12000, 0, &result), NotFound);
  EXPECT_EQ(result, ProcAddressNotFound);
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &found, 13000, 0, &result), NotFound);
  EXPECT_EQ(result, ProcAddressTooNew);
}

TEST_F(EmulatedCuda, NeedsAContext) {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuCtxSetCurrent(nullptr), Success);
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), InvalidContext);
  EXPECT_EQ(cuCtxSetCurrent(context), Success);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), Success);
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), ContextIsDestroyed);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
}

TEST_F(EmulatedCuda, RefusesSettingsThatMakeNoSense) {
  for (auto [name, value] : {std::pair("HEDDLE_EMULATE", "never"),
                             {"HEDDLE_EMULATE", "seed:x"},
                             {"HEDDLE_EMULATE_CHIP", "sm_70"},
                             {"HEDDLE_EMULATE_DRIVER", "12"},
                             {"HEDDLE_EMULATE_DRIVER", "14.0"},
                             {"HEDDLE_EMULATE_DEVICES", "0"},
                             {"HEDDLE_EMULATE_FAULT", "ecc"},
                             {"HEDDLE_EMULATE_FAULT", "no-device:1"}}) {
    Variable variable(name, value);
    testing::internal::CaptureStderr();
    EXPECT_EQ(cuInit(0), Unknown) << value;
    std::string message = testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
  EXPECT_EQ(cuInit(0), Success);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(EmulatedCuda, CountsMemory) {
  size_t before = 0, during = 0, after = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&before, &total), Success);
  DevicePointer first = memory(1000), second = memory(24);
  EXPECT_EQ(cuMemGetInfo_v2(&during, &total), Success);
  EXPECT_EQ(before - during, 1024u);
  EXPECT_EQ(first % 512, 256u); // Aligned to 256, and no better.
  EXPECT_EQ(cuMemFree_v2(first), Success);
  EXPECT_EQ(cuMemFree_v2(first), InvalidValue);
  EXPECT_EQ(cuMemFree_v2(second + 8), InvalidValue);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void *>(second)), InvalidValue);
  EXPECT_EQ(cuMemFree_v2(second), Success);
  EXPECT_EQ(cuMemGetInfo_v2(&after, &total), Success);
  EXPECT_EQ(after, before);
  EXPECT_EQ(cuMemAlloc_v2(&first, 0), InvalidValue);
  EXPECT_EQ(cuMemAlloc_v2(&first, size_t(1) << 60), OutOfMemory);
}

TEST_F(EmulatedCuda, FreshMemoryIsNaN) {
  DevicePointer address = 0;
  ASSERT_EQ(cuMemAlloc_v2(&address, 8), Success);
  EXPECT_EQ(numberAt(address), ~uint64_t(0));
}

TEST_F(EmulatedCuda, KnowsWhereMemoryIs) {
  void *place = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&place, 64, hostAllocPortable), Success);
  auto pinned = reinterpret_cast<DevicePointer>(place);
  DevicePointer address = memory(64);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, PointerMemoryType, address + 63),
            Success);
  EXPECT_EQ(type, unsigned(DeviceMemoryType));
  EXPECT_EQ(cuPointerGetAttribute(&type, PointerMemoryType, pinned), Success);
  EXPECT_EQ(type, unsigned(HostMemory));
  auto elsewhere = reinterpret_cast<DevicePointer>(&type);
  EXPECT_EQ(cuPointerGetAttribute(&type, PointerMemoryType, elsewhere),
            InvalidValue);
  // Kernels and copies reach pinned memory at the host's address.
  uint64_t number = 5;
  std::memcpy(place, &number, 8);
  EXPECT_EQ(add(addFunction(), pinned, 6, nullptr), Success);
  EXPECT_EQ(cuMemcpyAsync(address, pinned, 8, nullptr), Success);
  EXPECT_EQ(numberAt(address), 11u);
  EXPECT_EQ(cuMemFreeHost(place), Success);
}

TEST_F(EmulatedCuda, RefusesCopiesOutsideOfMemory) {
  DevicePointer address = memory(64);
  char host[128] = {};
  auto *wrong = reinterpret_cast<char *>(address);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, host, 64, nullptr), Success);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, host, 65, nullptr), InvalidValue);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, wrong, 8, nullptr), InvalidValue);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(wrong, address, 8, nullptr), InvalidValue);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, address + 60, 8, nullptr), InvalidValue);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(address, address + 63, 2, nullptr),
            InvalidValue);
  EXPECT_EQ(cuMemsetD8Async(address - 1, 0, 1, nullptr), InvalidValue);
  EXPECT_EQ(cuMemsetD8Async(address, 0, 0, nullptr), Success);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

TEST_F(EmulatedCuda, WorkIsNotDoneUntilSomebodyWaits) {
  StreamHandle work = stream();
  EventHandle done = event();
  EXPECT_EQ(cuStreamQuery(work), Success);
  EXPECT_EQ(cuEventQuery(done), Success); // Never recorded.
  EXPECT_EQ(cuMemsetD8Async(memory(8), 1, 8, work), Success);
  EXPECT_EQ(cuEventRecord(done, work), Success);
  EXPECT_EQ(cuStreamQuery(work), NotReady);
  EXPECT_EQ(cuEventQuery(done), NotReady);
  EXPECT_EQ(cuEventSynchronize(done), Success);
  EXPECT_EQ(cuEventQuery(done), Success);
  EXPECT_EQ(cuStreamQuery(work), Success);
}

TEST_F(EmulatedCuda, EventsTellTheTimeBetweenThem) {
  Function function = addFunction();
  DevicePointer to = memory(8);
  StreamHandle one = stream();
  EventHandle from = nullptr, until = nullptr;
  EXPECT_EQ(cuEventCreate(&from, eventDefault), Success);
  EXPECT_EQ(cuEventCreate(&until, eventDefault), Success);
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, from, until), InvalidHandle);
  EXPECT_EQ(cuEventRecord(from, one), Success);
  EXPECT_EQ(add(function, to, 1, one), Success);
  EXPECT_EQ(cuEventRecord(until, one), Success);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, from, until), NotReady);
  EXPECT_EQ(cuEventSynchronize(until), Success);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, from, until), Success);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, until, from), Success);
  EXPECT_LT(milliseconds, 0);
  EventHandle plain = event();
  EXPECT_EQ(cuEventRecord(plain, one), Success);
  EXPECT_EQ(cuEventSynchronize(plain), Success);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, from, plain), InvalidHandle);
}

TEST_F(EmulatedCuda, TheDefaultStreamOrdersThoseThatBlock) {
  DevicePointer address = memory(8);
  StreamHandle first = stream(0), second = stream(0);
  Function function = addFunction();
  EXPECT_EQ(add(function, address, 1, first), Success);
  EXPECT_EQ(add(function, address, 1, nullptr), Success);
  EXPECT_EQ(add(function, address, 1, second), Success);
  EXPECT_EQ(numberAt(address), 3u);
  EXPECT_EQ(add(function, address, 1, first), Success);
  EXPECT_EQ(add(function, address, 1, stream()), Success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuCtxSynchronize(), LaunchFailed);
  EXPECT_EQ(cuCtxSynchronize(), LaunchFailed); // From now on.
  EXPECT_NE(testing::internal::GetCapturedStderr().find("kernel add"),
            std::string::npos);
}

TEST_F(EmulatedCuda, HandlesMustBeThoseOfWhatIsThere) {
  StreamHandle gone = stream();
  EventHandle past = event();
  DevicePointer address = memory(8);
  EXPECT_EQ(cuMemsetD8Async(address, 1, 8, gone), Success);
  EXPECT_EQ(cuStreamDestroy_v2(gone), Success);
  EXPECT_EQ(cuEventDestroy_v2(past), Success);
  EXPECT_EQ(cuStreamDestroy_v2(gone), InvalidHandle);
  EXPECT_EQ(cuStreamSynchronize(gone), InvalidHandle);
  EXPECT_EQ(cuEventRecord(past, nullptr), InvalidHandle);
  EXPECT_EQ(cuStreamWaitEvent(nullptr, past, 0), InvalidHandle);
  EXPECT_EQ(cuEventSynchronize(past), InvalidHandle);
  EXPECT_EQ(numberAt(address), 0x0101010101010101u); // It was still done.
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

TEST_F(EmulatedCuda, RefusesLaunchesThatTheGpuCannotDo) {
  Function function = addFunction();
  DevicePointer address = memory(8);
  EXPECT_EQ(add(function, address, 1, nullptr, 1024), Success);
  EXPECT_EQ(add(function, address, 1, nullptr, 1025), InvalidValue);
  EXPECT_EQ(add(function, address, 1, nullptr, 0), InvalidValue);
  EXPECT_EQ(add(function, address, 1, nullptr, 1, 48 * 1024 + 1), InvalidValue);
  EXPECT_EQ(cuFuncSetAttribute(function, FunctionMaxDynamicShared, 200 * 1024),
            Success);
  EXPECT_EQ(add(function, address, 1, nullptr, 1, 48 * 1024 + 1), Success);
  EXPECT_EQ(cuFuncSetAttribute(function, FunctionMaxDynamicShared, 228 * 1024),
            InvalidValue);
  int value = 0;
  EXPECT_EQ(cuFuncGetAttribute(&value, FunctionMaxThreads, function), Success);
  EXPECT_EQ(value, 1024);
  // The other way to say it.
  uint64_t number = 5;
  void *arguments[] = {&address, &number};
  LaunchConfig config = {1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, 0};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr), Success);
  config.gridY = 65536;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr),
            InvalidValue);
  config.gridY = config.numAttributes = 1;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr),
            NotSupported);
  EXPECT_GE(numberAt(address), 5u);
}

/// 80 numbers that live at once: 1024 threads with so many are too many, unless
/// the text says how many threads there are, so that a compiler makes room.
TEST_F(EmulatedCuda, RefusesBlocksOfTooManyRegisters) {
  auto launch = [&](const std::string &bounds) {
    std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n"
                       ".visible .entry many(.param .u64 to) " +
                       bounds +
                       " {\n.reg .b32 %r<81>; .reg .b64 %rd1;\n"
                       "ld.param.u64 %rd1, [to];\n"
                       "mov.u32 %r80, %tid.x;\n";
    for (int i = 0; i < 80; ++i)
      text += "add.u32 %r" + std::to_string(i) + ", %r80, " +
              std::to_string(i) + ";\n";
    for (int i = 1; i < 80; ++i)
      text += "xor.b32 %r0, %r0, %r" + std::to_string(i) + ";\n";
    text += "setp.eq.u32 %p, %r80, 0; @%p st.global.u32 [%rd1], %r0; ret; }\n";
    text.replace(text.find(".reg"), 0, ".reg .pred %p; ");
    Module module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, text.c_str()), Success);
    Function function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, "many"), Success);
    DevicePointer address = memory(8);
    void *arguments[] = {&address};
    return cuLaunchKernel(function, 1, 1, 1, 1024, 1, 1, 0, nullptr, arguments,
                          nullptr);
  };
  EXPECT_EQ(launch(""), LaunchOutOfResources);
  EXPECT_EQ(launch(".maxntid 1024, 1, 1"), Success);
  EXPECT_EQ(launch(".maxnreg 64"), Success);
  EXPECT_EQ(launch(".maxnreg 72"), LaunchOutOfResources);
  EXPECT_EQ(cuCtxSynchronize(), Success);
}

TEST_F(EmulatedCuda, ModulesGoWithTheirFunctions) {
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, addText), Success);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "sub"), NotFound);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "add"), Success);
  EXPECT_EQ(cuModuleUnload(module), Success);
  EXPECT_EQ(add(function, memory(8), 1, nullptr), InvalidHandle);
  EXPECT_EQ(cuModuleUnload(module), InvalidHandle);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuModuleLoadData(&module, "this is no text"), InvalidPtx);
  EXPECT_EQ(cuModuleLoadData(&module, "\x7f"
                                      "ELF"),
            NoBinaryForGpu);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
}

TEST_F(EmulatedCuda, TakesThePtxOfItsVersionOfCuda) {
  auto load = [](const std::string &version) {
    std::string text = addText;
    text.replace(text.find("7.0"), 3, version);
    Module module = nullptr;
    return cuModuleLoadData(&module, text.c_str());
  };
  EXPECT_EQ(load("8.0"), Success);
  EXPECT_EQ(load("8.1"), UnsupportedPtxVersion);
  // Whatever it holds.
  Module module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, "// By hand.\n  .version 9.3\nnews\n"),
            UnsupportedPtxVersion);
  auto restart = [&](const char *version) {
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), Success);
    Variable variable("HEDDLE_EMULATE_DRIVER", version);
    Result result = cuInit(0);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
    EXPECT_EQ(cuCtxSetCurrent(context), Success);
    return result;
  };
  EXPECT_EQ(restart("12.6"), Success);
  EXPECT_EQ(load("8.5"), Success);
  EXPECT_EQ(load("8.6"), UnsupportedPtxVersion);
  EXPECT_EQ(restart("13.0"), Success);
  EXPECT_EQ(load("9.0"), Success);
  EXPECT_EQ(restart("12.0"), Success);
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

namespace {
/// What cuTensorMapEncodeTiled is given; a matrix of 5 by 12 floats.
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

/// A box that reaches out of the matrix, from column 7 of row 3 on.
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
    tiling.steps[0] = 3; // It is ignored.
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

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

TEST_F(EmulatedCuda, GraphsRepeatWhatWasCaptured) {
  DevicePointer address = memory(16);
  Function function = addFunction();
  StreamHandle first = stream(), second = stream();
  EventHandle fork = event(), join = event();
  ASSERT_EQ(cuStreamBeginCapture_v2(first, CaptureRelaxed), Success);
  EXPECT_EQ(add(function, address, 1, first), Success);
  EXPECT_EQ(cuEventRecord(fork, first), Success);
  EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), Success);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(address + 8, address, 8, second), Success);
  EXPECT_EQ(cuStreamSynchronize(second), CaptureUnsupported);
  EXPECT_EQ(cuEventRecord(join, second), Success);
  EXPECT_EQ(cuStreamWaitEvent(first, join, 0), Success);
  EXPECT_EQ(add(function, address, 10, first), Success);
  Graph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(second, &graph), CaptureUnmatched);
  ASSERT_EQ(cuStreamEndCapture(first, &graph), Success);
  EXPECT_EQ(numberAt(address), 0u); // Nothing was done.
  EXPECT_EQ(cuStreamWaitEvent(first, join, 0), CapturedEvent);

  GraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), Success);
  EXPECT_EQ(cuGraphDestroy(graph), Success);
  EXPECT_EQ(cuGraphDestroy(graph), InvalidValue);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cuGraphLaunch(exec, first), Success);
  EXPECT_EQ(add(function, address, 100, first), Success); // Comes after it.
  EXPECT_EQ(numberAt(address + 8), 23u);
  EXPECT_EQ(numberAt(address), 133u);
  EXPECT_EQ(cuGraphExecDestroy(exec), Success);
  EXPECT_EQ(cuGraphLaunch(exec, first), InvalidValue);
}

TEST_F(EmulatedCuda, CapturesMustBeWhole) {
  DevicePointer address = memory(16);
  StreamHandle first = stream(), second = stream();
  EventHandle before = event(), fork = event();
  EXPECT_EQ(cuEventRecord(before, second), Success);
  ASSERT_EQ(cuStreamBeginCapture_v2(first, CaptureRelaxed), Success);
  // What was recorded outside is nothing that a graph can wait for.
  EXPECT_EQ(cuStreamWaitEvent(first, before, 0), CaptureIsolation);
  EXPECT_EQ(cuEventRecord(fork, first), Success);
  EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), Success);
  EXPECT_EQ(cuMemsetD8Async(address, 0, 8, second), Success);
  Graph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(first, &graph), CaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(EmulatedCuda, FindsRacesInGraphs) {
  DevicePointer address = memory(16);
  StreamHandle first = stream(), second = stream();
  EventHandle fork = event(), join = event();
  ASSERT_EQ(cuStreamBeginCapture_v2(first, CaptureRelaxed), Success);
  EXPECT_EQ(cuEventRecord(fork, first), Success);
  EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), Success);
  EXPECT_EQ(cuMemsetD8Async(address, 0, 8, second), Success);
  EXPECT_EQ(cuMemsetD8Async(address + 4, 1, 8, first), Success);
  EXPECT_EQ(cuEventRecord(join, second), Success);
  EXPECT_EQ(cuStreamWaitEvent(first, join, 0), Success);
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(first, &graph), Success);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), Success);
  ASSERT_EQ(cuGraphLaunch(exec, first), Success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuStreamSynchronize(first), LaunchFailed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("a fill of 8 bytes"),
            std::string::npos);
}
