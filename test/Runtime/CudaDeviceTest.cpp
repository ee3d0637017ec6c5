//===- CudaDeviceTest.cpp - What goes wrong on a GPU ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/devices/cuda/CudaApi.h"
#include "heddle/runtime/devices/cuda/NcclApi.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <dlfcn.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <unistd.h>

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

/// A kernel of one launch, by the name of its function.
static std::unique_ptr<KernelSet>
loadKernel(Device &device, std::string text, const plan::GridLaunch &launch,
           const std::vector<std::string> &cubins = {}) {
  plan::Kernel kernel;
  kernel.name = launch.symbol;
  kernel.launches = {launch};
  plan::PtxImage image;
  image.texts = {std::move(text)};
  image.cubins = cubins;
  std::string bytes = plan::writePtxImage(image);
  return device.load(bytes.data(), bytes.size(), {kernel});
}

/// The kernel above, or one of such a text.
static std::unique_ptr<KernelSet>
loadStore(Device &device, std::string text, int64_t sharedBytes = 0,
          const std::vector<std::string> &cubins = {}) {
  plan::GridLaunch launch;
  launch.symbol = "store";
  launch.sharedBytes = sharedBytes;
  return loadKernel(device, std::move(text), launch, cubins);
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

TEST(CudaDevice, CallsWhatNcclHas) {
  if (!*HEDDLE_TEST_NCCL)
    GTEST_SKIP() << "NCCL is not installed";
  void *library = dlopen(HEDDLE_TEST_NCCL, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
#define HEDDLE_LOOK_UP(RETURN, NAME, SYMBOL, PARAMETERS)                       \
  EXPECT_NE(dlsym(library, #SYMBOL), nullptr) << #SYMBOL;
  HEDDLE_NCCL_CALLS(HEDDLE_LOOK_UP)
#undef HEDDLE_LOOK_UP
}

/// The library against which programs for NVIDIA's driver are linked.
TEST(CudaDevice, CallsWhatNvidiasDriverHas) {
  if (!*HEDDLE_TEST_CUDA_STUB)
    GTEST_SKIP() << "CUDA's libcuda.so for linking is not installed";
  void *library = dlopen(HEDDLE_TEST_CUDA_STUB, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
#define HEDDLE_LOOK_UP(NAME, SYMBOL, PARAMETERS)                               \
  EXPECT_NE(dlsym(library, #SYMBOL), nullptr) << #SYMBOL;
  HEDDLE_CUDA_CALLS(HEDDLE_LOOK_UP)
  HEDDLE_CUDA_MORE_CALLS(HEDDLE_LOOK_UP)
#undef HEDDLE_LOOK_UP
  EXPECT_EQ(dlsym(library, "cuNoSuchFunction"), nullptr);
  dlclose(library);
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

TEST(CudaDevice, StatesWhatItsMakerStates) {
  auto peak = [](const char *chip, const char *precision) {
    Variable variable("HEDDLE_EMULATE_CHIP", chip);
    return makeCudaDevice()->statedPeak(precision)->flopsPerSecond / 1e12;
  };
  // The data sheets' figures without sparsity; of sm_90 at a higher clock.
  EXPECT_NEAR(peak("sm_80", "bf16"), 312, 1);
  EXPECT_NEAR(peak("sm_80", "fp32"), 19.5, 0.1);
  EXPECT_NEAR(peak("sm_90", "bf16"), 989, 90);
  EXPECT_NEAR(peak("sm_90", "fp32"), 67, 1);
}

TEST(CudaDevice, SaysHowMuchMemoryIsFree) {
  Variable fault("HEDDLE_EMULATE_FAULT", "little-memory:1000000");
  std::unique_ptr<Device> device = makeCudaDevice();
  EXPECT_EQ(device->freeBytes(), 1000000);
  plan::Plan plan;
  plan.memory.persistentBytes[MemoryKind::Device] = 996 * 1000;
  plan.memory.arenaBytes[MemoryKind::Host] = int64_t(1) << 50;
  EXPECT_EQ(errorOf([&] { device->requireMemory(plan); }), "");
  plan.memory.arenaBytes[MemoryKind::Device] = 5000;
  std::string error = errorOf([&] { device->requireMemory(plan); });
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

/// A cubin comes first; the emulated driver, as one of an older or newer GPU,
/// takes none.
TEST(CudaDevice, LoadsTheTextWhereTheDriverRefusesTheCubin) {
  std::string file =
      testing::TempDir() + "cubin-counts-" + std::to_string(getpid());
  Variable counts("HEDDLE_EMULATE_COUNTS", file);
  {
    auto device = makeCudaDevice();
    DeviceMemory memory(*device, {MemoryKind::Device, 4096, "test", false});
    auto kernels = loadStore(*device, storeText, 0,
                             {"\x7f"
                              "ELF and so on"});
    launchStore(*device, *kernels, memory.address().value());
    int64_t found = 0;
    device->copyOut(Stream::Compute, &found, memory.address(), sizeof found);
    device->synchronize(Stream::Compute);
    EXPECT_EQ(found, 77);
  }
  std::vector<char> text = readFile(file);
  remove(file.c_str());
  EXPECT_EQ(nlohmann::json::parse(text)["calls"]["cuModuleLoadDataEx"], 2);
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

/// Each cluster adds its blocks' numbers to 100, in the memory of the first
/// one.
TEST(CudaDevice, LaunchesClusters) {
  const char *text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry sum(.param .u64 to) {
  .reg .b32 %r<7>; .reg .b64 %rd<3>; .reg .pred %p;
  .shared .align 4 .b32 total;
  ld.param.u64 %rd1, [to]; mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, total; mov.u32 %r3, 100; st.shared.u32 [%r2], %r3;
  barrier.cluster.arrive; barrier.cluster.wait;
  mapa.shared::cluster.u32 %r4, %r2, 0;
  red.shared::cluster.add.u32 [%r4], %r1;
  barrier.cluster.arrive; barrier.cluster.wait;
  setp.ne.u32 %p, %r1, 0; @%p ret;
  mov.u32 %r5, %clusterid.x; mad.wide.u32 %rd2, %r5, 4, %rd1;
  ld.shared.u32 %r6, [%r2]; st.global.u32 [%rd2], %r6; ret;
})";
  std::unique_ptr<Device> device = makeCudaDevice();
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  auto sumsOf = [&](std::array<int64_t, 3> cluster) {
    plan::GridLaunch launch;
    launch.symbol = "sum";
    launch.grid = {12, 1, 1};
    launch.cluster = cluster;
    std::unique_ptr<KernelSet> kernels = loadKernel(*device, text, launch);
    void *refs[] = {device->resolve(memory.address())};
    device->fill(Stream::Compute, memory.address(), 0, page);
    device->submit(Stream::Compute,
                   {kernels->find("sum"), refs, nullptr, 1, 0, nullptr}, {});
    std::array<int, 4> found = {};
    device->copyOut(Stream::Compute, found.data(), memory.address(),
                    sizeof found);
    device->synchronize();
    return found;
  };
  EXPECT_EQ(sumsOf({4, 1, 1}), (std::array<int, 4>{106, 106, 106, 0}));
  EXPECT_EQ(sumsOf({6, 1, 1}), (std::array<int, 4>{115, 115, 0, 0}));
  EXPECT_EQ(sumsOf({1, 1, 1}), (std::array<int, 4>{100, 100, 100, 100}));
  std::string error = errorOf([&] { sumsOf({5, 1, 1}); });
  EXPECT_TRUE(contains(error, "H0436")) << error;
  EXPECT_TRUE(contains(error, "CUDA_ERROR_INVALID_CLUSTER_SIZE")) << error;
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

TEST(CudaDevice, NamesRangesForAProfiler) {
  Variable library("NVTX_INJECTION64_PATH", HEDDLE_TEST_NVTX);
  TestDevice device(cudaLate);
  void *profiler = dlopen(HEDDLE_TEST_NVTX, RTLD_LAZY);
  auto take =
      reinterpret_cast<const char *(*)()>(dlsym(profiler, "takeRanges"));
  ASSERT_NE(take, nullptr);
  take();
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  auto kernels = loadStore(*device, storeText);
  auto submit = [&](const std::string &path) {
    launchStore(*device, *kernels, memory.address().value(), path);
  };
  submit("model.layers.0.mlp");
  submit("");
  EXPECT_STREQ(take(), "<model.layers.0.mlp><store>");
  // What is captured runs later, as a whole.
  std::optional<CapturedWork> step =
      device->capture([&] { submit("model.layers.1.mlp"); });
  ASSERT_TRUE(step.has_value());
  EXPECT_STREQ(take(), "");
  device->repeat(*step);
  EXPECT_STREQ(take(), "<a captured step>");
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
  Variable check("HEDDLE_EMULATE_CHECK", "light"); // Which lets races pass.
  auto found = [](const char *order) {
    Variable chosen("HEDDLE_EMULATE", order);
    std::unique_ptr<Device> device = makeCudaDevice();
    DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
    std::string seen(64, '.');
    for (int i = 0; i < 64; ++i) {
      device->fill(Stream::Compute, memory.address() + i, 'x', 1);
      device->copyOut(Stream::Copy, &seen[i], memory.address() + i, 1);
    }
    device->synchronize(Stream::Copy);
    device->synchronize();
    return seen;
  };
  EXPECT_EQ(found("early"), std::string(64, 'x'));
  EXPECT_EQ(found("late"), std::string(64, '\0'));
  EXPECT_EQ(found("seed:1"), found("seed:1"));
  EXPECT_NE(found("seed:1"), found("seed:2"));
}

//===----------------------------------------------------------------------===//
// Commands without an order
//===----------------------------------------------------------------------===//

namespace {
/// Streams at work on one page, in every order of the emulation.
class Race : public testing::TestWithParam<const char *> {
protected:
  Race() : order("HEDDLE_EMULATE", GetParam()) { open(); }

  void open() {
    kernels = nullptr;
    device = nullptr;
    device = makeCudaDevice();
    kernels = loadStore(*device, storeText);
    start = device->allocate({MemoryKind::Device, page, "test", false});
    event = device->makeEvent();
  }
  void fill(Stream stream, int64_t first, int64_t bytes) {
    device->fill(stream, start + first, 1, bytes);
  }
  void read(Stream stream, int64_t first, int64_t bytes, char *to) {
    device->copyOut(stream, to, start + first, bytes);
  }
  void store(int64_t first) {
    launchStore(*device, *kernels, (start + first).value());
  }
  /// What the second stream does from here on comes after what the first did.
  void orderBetween(Stream first, Stream second) {
    device->record(first, event);
    device->wait(second, event);
  }
  /// What the emulation says of work without an order; "" when all has one.
  std::string messageOf(const std::function<void()> &work) {
    testing::internal::CaptureStderr();
    std::string error = errorOf([&] {
      work();
      device->synchronize();
    });
    std::string message = testing::internal::GetCapturedStderr();
    EXPECT_EQ(error.empty(), message.empty()) << error << message;
    return message;
  }

  Variable order;
  std::unique_ptr<Device> device;
  std::unique_ptr<KernelSet> kernels;
  Address start;
  Event event;
};
constexpr Stream one = Stream::Compute, two = Stream::Copy,
                 three = Stream::Communication;
} // namespace

INSTANTIATE_TEST_SUITE_P(, Race, testing::Values("late", "early", "seed:3"),
                         [](const auto &info) {
                           return std::string(info.param, 4);
                         });

TEST_P(Race, BetweenFills) {
  std::string message = messageOf([&] {
    fill(one, 100, 10);
    fill(two, 109, 5);
  });
  EXPECT_TRUE(contains(message, "a fill of 10 bytes")) << message;
  EXPECT_TRUE(contains(message, "a fill of 5 bytes")) << message;
}

TEST_P(Race, NotBetweenNeighbours) {
  EXPECT_EQ(messageOf([&] {
              fill(one, 100, 10);
              fill(two, 110, 5);
              fill(three, 99, 1);
              store(128);
            }),
            "");
}

TEST_P(Race, BetweenAKernelAndACopy) {
  char found[8];
  std::string message = messageOf([&] {
    store(64);
    read(two, 71, 1, found);
  });
  EXPECT_TRUE(contains(message, "kernel store (launch 0)")) << message;
  EXPECT_TRUE(contains(message, "a copy of 1 bytes")) << message;
}

TEST_P(Race, NotBetweenReaders) {
  char found[16];
  EXPECT_EQ(messageOf([&] {
              fill(one, 0, 100);
              orderBetween(one, two);
              orderBetween(one, three);
              read(two, 0, 8, found);
              read(three, 4, 8, found + 8);
            }),
            "");
}

TEST_P(Race, NoReaderIsForgotten) {
  char found[16];
  EXPECT_NE(messageOf([&] {
              fill(one, 0, 100);
              orderBetween(one, two);
              orderBetween(one, three);
              read(two, 0, 8, found);
              read(three, 0, 8, found + 8);
              orderBetween(three, one);
              fill(one, 7, 1); // The second stream may still read.
            }),
            "");
}

TEST_P(Race, EventsMakeAnOrderOverSeveralStreams) {
  EXPECT_EQ(messageOf([&] {
              store(8);
              orderBetween(one, two);
              fill(two, 0, 4);
              orderBetween(two, three);
              fill(three, 8, 8);
              orderBetween(three, one);
              store(8);
            }),
            "");
}

TEST_P(Race, AnEventIsAPointOfAStream) {
  EXPECT_NE(messageOf([&] {
              device->record(one, event);
              fill(one, 0, 4);
              device->wait(two, event);
              fill(two, 0, 4);
            }),
            "");
}

TEST_P(Race, TheHostMakesAnOrder) {
  EXPECT_EQ(messageOf([&] {
              fill(one, 0, 100);
              device->synchronize(one);
              fill(two, 0, 100);
              device->synchronize(two);
              store(0);
            }),
            "");
}

TEST_P(Race, GraphsComeBetweenWhatIsBeforeAndAfter) {
  EXPECT_EQ(messageOf([&] {
              std::optional<CapturedWork> work = device->capture([&] {
                fill(one, 0, 8);
                fill(two, 8, 8);
                device->wait(one, event); // Not of the graph: for nothing.
              });
              for (int i = 0; i < 2; ++i) {
                fill(three, 0, 16);
                device->repeat(*work);
                fill(i ? one : two, 0, 16);
                orderBetween(i ? one : two, three);
              }
            }),
            "");
}

TEST_P(Race, InGraphs) {
  EXPECT_NE(messageOf([&] {
              std::optional<CapturedWork> work = device->capture([&] {
                fill(one, 0, 8);
                fill(two, 4, 8);
              });
              device->repeat(*work);
            }),
            "");
}

TEST_P(Race, AFailedCaptureIsNoGraph) {
  EXPECT_THROW(device->capture([&] {
    fill(two, 0, 8);
    device->fill(one, Address(16), 0, 1);
  }),
               UserError);
  EXPECT_EQ(messageOf([&] { fill(one, 0, 8); }), "");
}

TEST_P(Race, InPinnedMemory) {
  Address pinned = device->allocate({MemoryKind::Pinned, page, "test", false});
  EXPECT_NE(messageOf([&] {
              device->copy(one, pinned + 8, start, 8);
              device->copy(two, start + 64, pinned + 12, 1);
            }),
            "");
}

TEST_P(Race, LightChecksLetItPass) {
  Variable check("HEDDLE_EMULATE_CHECK", "light");
  open();
  EXPECT_EQ(messageOf([&] {
              fill(one, 100, 10);
              fill(two, 100, 10);
            }),
            "");
}

/// What is over for all is forgotten, and nothing else.
TEST_P(Race, LongRunsAreChecked) {
  EXPECT_EQ(messageOf([&] {
              for (int round = 0; round < 3; ++round) {
                for (int64_t i = 0; i < page / 2; ++i)
                  fill(one, 2 * i, 1);
                orderBetween(one, two);
                for (int64_t i = 0; i < page / 2; ++i)
                  fill(two, 2 * i, 1);
                orderBetween(two, one);
                if (round == 1)
                  device->synchronize();
              }
            }),
            "");
  EXPECT_NE(messageOf([&] {
              fill(three, 6, 1);
              for (int64_t i = 0; i < page / 2; ++i)
                fill(two, 2 * i + 1, 1);
              fill(one, 6, 1);
            }),
            "");
}
