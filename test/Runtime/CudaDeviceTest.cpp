//===- CudaDeviceTest.cpp - What goes wrong on a GPU ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <functional>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

static constexpr int64_t page = 4096;

/// The error, as "H0282: message"; "" without one.
static std::string errorOf(const std::function<void()> &work) {
  try {
    work();
  } catch (const UserError &error) {
    return error.diagnostic.code + ": " + error.diagnostic.message;
  }
  return "";
}

static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A kernel that writes one value to its address.
static const char *const storeText = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 to, .param .u64 value) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [value];
  st.global.u64 [%rd1], %rd2;
  ret;
}
)";

/// That kernel, of such a text.
static std::unique_ptr<KernelSet> loadStore(Device &device, std::string text,
                                            int64_t sharedBytes = 0) {
  plan::Kernel kernel;
  kernel.name = "store";
  plan::GridLaunch launch;
  launch.symbol = "store";
  launch.sharedBytes = sharedBytes;
  kernel.launches = {launch};
  std::string image = plan::writePtxImage({{std::move(text)}});
  return device.load(image.data(), image.size(), {kernel});
}

static std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

/// Launches the kernel on an address.
static void launchStore(Device &device, const KernelSet &kernels,
                        uintptr_t address, const std::string &path = "") {
  void *refs[] = {reinterpret_cast<void *>(address)};
  int64_t scalars[] = {77};
  KernelLaunch launch = {kernels.find("store"), refs, scalars, 1, 1, &path};
  device.submit(Stream::Compute, launch, {});
}

TEST(CudaDevice, SaysWhyThereIsNoGpu) {
  {
    Variable fault("HEDDLE_EMULATE_FAULT", "no-device");
    std::string error = errorOf([] { makeCudaDevice(); });
    EXPECT_TRUE(contains(error, "H0282")) << error;
    EXPECT_TRUE(contains(error, "CUDA_ERROR_NO_DEVICE")) << error;
  }
  Variable fault("HEDDLE_EMULATE_FAULT", "old-driver");
  std::string error = errorOf([] { makeCudaDevice(); });
  EXPECT_TRUE(contains(error, "H0281")) << error;
  EXPECT_TRUE(contains(error, "11.4")) << error;
}

TEST(CudaDevice, EachRankHasItsGpu) {
  Variable devices("HEDDLE_EMULATE_DEVICES", "2");
  EXPECT_EQ(errorOf([] { makeCudaDevice({1}); }), "");
  std::string error = errorOf([] { makeCudaDevice({2}); });
  EXPECT_TRUE(contains(error, "H0282: rank 2")) << error;
  // A launcher may show a rank its own alone.
  Variable one("HEDDLE_EMULATE_DEVICES", "1");
  EXPECT_EQ(errorOf([] { makeCudaDevice({5}); }), "");
}

TEST(CudaDevice, SaysHowMuchMemoryIsFree) {
  Variable fault("HEDDLE_EMULATE_FAULT", "little-memory:1000000");
  std::unique_ptr<Device> device = makeCudaDevice();
  plan::Memory memory;
  memory.persistentBytes[MemoryKind::Device] = 996 * 1000;
  memory.arenaBytes[MemoryKind::Host] = int64_t(1) << 50;
  EXPECT_EQ(errorOf([&] { device->requireMemory(memory); }), "");
  memory.arenaBytes[MemoryKind::Device] = 5000;
  std::string error = errorOf([&] { device->requireMemory(memory); });
  EXPECT_TRUE(contains(error, "H0284")) << error;
  EXPECT_TRUE(contains(error, "1001000 bytes")) << error;
  EXPECT_TRUE(contains(error, "1000000 bytes")) << error;
  DeviceMemory most(*device, {MemoryKind::Device, 1000000, "test", false});
  EXPECT_TRUE(
      contains(errorOf([&] {
                 DeviceMemory(*device, {MemoryKind::Device, 1, "", false});
               }),
               "H0292"));
}

TEST(CudaDevice, RefusesCodeThatItCannotRun) {
  Variable chip("HEDDLE_EMULATE_CHIP", "sm_80");
  std::unique_ptr<Device> device = makeCudaDevice();
  auto load = [&](const char *from, const char *to, int64_t shared = 0) {
    return errorOf(
        [&] { loadStore(*device, replaced(storeText, from, to), shared); });
  };
  EXPECT_EQ(load("sm_80", "sm_80"), "");
  std::string newer = load("sm_80", "sm_90");
  EXPECT_TRUE(contains(newer, "H0283")) << newer;
  EXPECT_TRUE(contains(newer, "sm_80")) << newer;
  std::string version = load("7.0", "8.5");
  EXPECT_TRUE(contains(version, "H0281")) << version;
  EXPECT_TRUE(contains(version, "8.5")) << version;
  std::string wrong = load("st.global", "st.nowhere");
  EXPECT_TRUE(contains(wrong, "H0384")) << wrong;
  EXPECT_TRUE(contains(wrong, "line 8")) << wrong;
  EXPECT_TRUE(contains(load("entry store", "entry other"), "H0384"));
  EXPECT_EQ(load("sm_80", "sm_80", 163 * 1024), "");
  EXPECT_TRUE(contains(load("sm_80", "sm_80", 164 * 1024), "H0384"));
}

TEST(CudaDevice, LaunchesWithMuchSharedMemory) {
  std::unique_ptr<Device> device = makeCudaDevice();
  std::unique_ptr<KernelSet> kernels =
      loadStore(*device, storeText, 100 * 1024);
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  launchStore(*device, *kernels, memory.address().value() + 8);
  int64_t found[2] = {};
  device->copyOut(Stream::Compute, found, memory.address(), sizeof found);
  device->synchronize();
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[1], 77);
}

TEST(CudaDevice, FaultsStay) {
  std::unique_ptr<Device> device = makeCudaDevice();
  std::unique_ptr<KernelSet> kernels = loadStore(*device, storeText);
  auto memory = device->allocate({MemoryKind::Device, page, "test", false});
  launchStore(*device, *kernels, memory.value() + page);
  // Nothing is known of it until somebody waits.
  std::string error = errorOf([&] { device->synchronize(); });
  EXPECT_TRUE(contains(error, "H0434")) << error;
  EXPECT_TRUE(contains(error, "CUDA_ERROR_ILLEGAL_ADDRESS")) << error;
  EXPECT_FALSE(contains(error, "store")) << error;
  EXPECT_TRUE(contains(
      errorOf([&] { device->fill(Stream::Copy, memory, 0, page); }), "H0434"));
}

TEST(CudaDevice, SyncNamesTheKernelOfAFault) {
  CudaOptions options;
  options.sync = true;
  std::unique_ptr<Device> device = makeCudaDevice(options);
  std::unique_ptr<KernelSet> kernels = loadStore(*device, storeText);
  std::string error =
      errorOf([&] { launchStore(*device, *kernels, 4096, "h.3.attn"); });
  EXPECT_TRUE(contains(error, "H0434")) << error;
  EXPECT_TRUE(contains(error, "'store' for h.3.attn")) << error;
}

TEST(CudaDevice, SaysThatAGpuIsLost) {
  for (const char *kind : {"lost-device:1", "ecc:1"}) {
    Variable fault("HEDDLE_EMULATE_FAULT", kind);
    std::unique_ptr<Device> device = makeCudaDevice();
    std::unique_ptr<KernelSet> kernels = loadStore(*device, storeText);
    DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
    launchStore(*device, *kernels, memory.address().value());
    EXPECT_EQ(errorOf([&] { device->synchronize(); }), "");
    launchStore(*device, *kernels, memory.address().value());
    std::string error = errorOf([&] { device->synchronize(); });
    EXPECT_TRUE(contains(error, "H0435")) << error;
  }
}

/// Streams without an event between them: the order is the emulation's.
TEST(CudaDevice, WorkWaitsForNobodyUnlessItMust) {
  auto found = [](const char *order) {
    Variable chosen("HEDDLE_EMULATE", order);
    std::unique_ptr<Device> device = makeCudaDevice();
    DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
    std::string order64(64, '.');
    for (int i = 0; i < 64; ++i) {
      device->fill(Stream::Compute, memory.address() + i, 'x', 1);
      device->copyOut(Stream::Copy, &order64[i], memory.address() + i, 1);
    }
    device->synchronize(Stream::Copy);
    device->synchronize();
    return order64;
  };
  EXPECT_EQ(found("early"), std::string(64, 'x'));
  EXPECT_EQ(found("late"), std::string(64, '\0'));
  EXPECT_EQ(found("seed:1"), found("seed:1"));
  EXPECT_NE(found("seed:1"), found("seed:2"));
}
