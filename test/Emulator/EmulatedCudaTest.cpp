//===- EmulatedCudaTest.cpp - The emulated driver by itself ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedCuda.h"

#include <cstring>

using namespace heddle::rt::cuda;
using namespace heddle::test;

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
                             {"HEDDLE_EMULATE_MULTIPROCESSORS", "46x"},
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
  EXPECT_EQ(first % 512, 256u); // Aligned to 256, and no more.
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
  // Kernels and copies access pinned memory at the host's address.
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
  EXPECT_EQ(cuCtxSynchronize(), LaunchFailed); // The error persists.
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
  // It was executed all the same.
  EXPECT_EQ(numberAt(address), 0x0101010101010101u);
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
  // The other way to pass parameters.
  uint64_t number = 5;
  void *arguments[] = {&address, &number};
  LaunchConfig config = {1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, 0};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr), Success);
  config.gridY = 65536;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr),
            InvalidValue);
  LaunchAttribute attribute = {};
  attribute.id = LaunchAttributeId(2); // Cooperative.
  config.attributes = &attribute;
  config.gridY = config.numAttributes = 1;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr),
            NotSupported);
  // PTX for sm_80 has only clusters of one block.
  attribute.id = LaunchAttributeCluster;
  attribute.value.cluster = {1, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr), Success);
  config.gridX = attribute.value.cluster.x = 2;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, arguments, nullptr),
            InvalidClusterSize);
  EXPECT_GE(numberAt(address), 5u);
}

/// The blocks of a cluster add their number to a sum that the first block
/// stores.
TEST_F(EmulatedCuda, LaunchesClusters) {
  const char *text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry sum(.param .u64 to) {
.reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p;
.shared .align 4 .b32 total;
ld.param.u64 %rd1, [to]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, total;
mov.u32 %r3, 100; st.shared.u32 [%r2], %r3;
barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r4, %r2, 0;
red.shared::cluster.add.u32 [%r4], %r1;
barrier.cluster.arrive; barrier.cluster.wait;
setp.ne.u32 %p, %r1, 0; @%p ret;
mov.u32 %r5, %clusterid.x; mad.wide.u32 %rd2, %r5, 4, %rd1;
ld.shared.u32 %r6, [%r2]; st.global.u32 [%rd2], %r6; ret; })";
  Module module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, text), Success);
  Function function = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&function, module, "sum"), Success);
  DevicePointer address = memory(8);
  void *arguments[] = {&address};
  LaunchAttribute attributes[2] = {};
  attributes[1].id = LaunchAttributeCluster;
  attributes[1].value.cluster = {4, 1, 1};
  LaunchConfig config = {8, 1, 1, 1, 1, 1, 0, nullptr, attributes, 2};
  auto launch = [&] {
    return cuLaunchKernelEx(&config, function, arguments, nullptr);
  };
  ASSERT_EQ(launch(), Success);
  EXPECT_EQ(numberAt(address), (uint64_t(106) << 32 | 106));
  config.gridX = 6; // Not a multiple of the cluster.
  EXPECT_EQ(launch(), InvalidClusterSize);
  config.gridX = attributes[1].value.cluster.x = 16;
  EXPECT_EQ(launch(), InvalidClusterSize);
  EXPECT_EQ(cuFuncSetAttribute(function, FunctionNonPortableCluster, 1),
            Success);
  EXPECT_EQ(launch(), Success);
  EXPECT_EQ(numberAt(address), (uint64_t(106) << 32 | 220));
  int value = -1;
  EXPECT_EQ(cuFuncGetAttribute(&value, FunctionClusterWidth, function),
            Success);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cuDeviceGetAttribute(&value, ClusterLaunch, 0), Success);
  EXPECT_EQ(value, 1);
}

/// 80 values that are live at once are too many registers for 1024 threads,
/// unless the PTX states the number of threads, so that the compiler spills.
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
  // The module's contents do not matter.
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
  EXPECT_EQ(numberAt(address), 0u); // Nothing was executed.
  EXPECT_EQ(cuStreamWaitEvent(first, join, 0), CapturedEvent);

  GraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), Success);
  EXPECT_EQ(cuGraphDestroy(graph), Success);
  EXPECT_EQ(cuGraphDestroy(graph), InvalidValue);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cuGraphLaunch(exec, first), Success);
  EXPECT_EQ(add(function, address, 100, first), Success); // Executed after it.
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
  // A graph cannot wait for an event that was recorded outside of it.
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
