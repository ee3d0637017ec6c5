//===- Devices.cpp - Choose and open the device of a rank -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses a rank's target, GPU and offload directories.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Devices.h"
#include "Warnings.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/devices/separate/SeparateDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

using namespace heddle;
using namespace heddle::rt;

std::unique_ptr<Device> heddle::rt::makeDevice(const char *name,
                                               ThreadPool &pool,
                                               const OffloadOptions &swap) {
  std::string_view text = name ? name : "cpu", separate = "separate";
  if (text == "cpu")
    return std::make_unique<CpuDevice>(pool, swap);
  uint64_t seed = 0;
  std::string_view rest = text.substr(std::min(text.size(), separate.size()));
  if (text.substr(0, separate.size()) == separate) {
    const char *end = rest.data() + rest.size();
    if (!rest.empty() && rest[0] == ':') {
      auto [stop, error] = std::from_chars(rest.data() + 1, end, seed);
      rest = error == std::errc() ? std::string_view(stop, end - stop) : rest;
    }
    if (rest.empty())
      return std::make_unique<SeparateDevice>(pool, seed);
  }
  fail("H0190", "HEDDLE_DEVICE=" + std::string(text) + " names no device",
       "set it to cpu, separate or separate:SEED, or not at all");
}

/// Parses the GPU's compute capability from a target's name: 90 of sm_90.
static int capabilityOf(const plan::Plan &plan) {
  return std::atoi(plan.target.c_str() + plan.target.find('_') + 1);
}

size_t heddle::rt::chooseTarget(const std::vector<Binary> &targets,
                                const DeviceOptions &options,
                                int64_t localRank) {
  constexpr const char *cpu = "cpu";
  std::optional<GpuHere> gpu;
  if (targets.size() > 1 && options.kind != cpu)
    gpu = findGpu(localRank);
  // Returns how well a target's code suits this machine. The target with the
  // largest result is chosen. The newest GPU code that this GPU can run is
  // best, and code for the CPU is next. GPU code that this GPU cannot run is
  // worst. It is chosen only if the binary has no other code, and then opening
  // the device fails with the reason.
  auto worth = [&](const plan::Plan &plan) {
    if (!options.kind.empty() && options.kind != plan::nameOf(plan.device))
      return -1;
    if (plan.device == plan::DeviceKind::Cpu)
      return 1;
    int needed = capabilityOf(plan);
    return gpu && needed <= gpu->capability ? needed : 0;
  };
  int best = -1;
  size_t chosen = 0;
  std::string held;
  for (size_t i = 0; i < targets.size(); ++i) {
    const plan::Plan &plan = targets[i].plan;
    held += (held.empty() ? "" : ", ") + plan.target;
    if (worth(plan) < std::max(best, 0))
      continue;
    best = worth(plan);
    chosen = i;
  }
  if (best < 0)
    fail("H0172", "--device " + options.kind + ": this binary holds " + held,
         std::string("leave out --device, or compile with --target ") +
             (options.kind == cpu ? "x86-64" : "sm_90"));
  return chosen;
}

void heddle::rt::warnOfIdleGpu(const std::vector<Binary> &targets,
                               size_t chosen, const DeviceOptions &options,
                               int64_t localRank) {
  if (targets.size() == 1 || !options.kind.empty() ||
      targets[chosen].plan.device != plan::DeviceKind::Cpu)
    return;
  Diagnostic reason;
  try {
    GpuHere gpu = requireGpu(localRank);
    reason.code = "H0283";
    reason.message = "this GPU (" + gpu.name + ") is sm_" +
                     std::to_string(gpu.capability) +
                     ", older than the kernels for GPUs";
  } catch (const UserError &error) {
    reason = error.diagnostic;
  }
  if (reason.code == "H0280")
    return;
  reason.message = "the CPU takes the place of a GPU: " + reason.message;
  reason.help = "see that the GPU can be used, or give --device cpu";
  warn(reason);
}

/// Returns which kernels compute matrix products on a GPU: `library` (cuBLASLt)
/// or `generated` (kernels of the binary). The flag --gemm overrides the plan.
static std::string chooseGemm(const plan::Plan &plan,
                              const DeviceOptions &options) {
  if (options.gemm == "library" && plan.gemm == "generated")
    fail("H0177",
         "--gemm library: this binary was compiled with --gemm generated",
         "leave out --gemm library, or compile with --gemm auto");
  return options.gemm.empty() ? plan.gemm : options.gemm;
}

std::unique_ptr<Device> heddle::rt::openDevice(const plan::Plan &plan,
                                               const DeviceOptions &options,
                                               int64_t localRank,
                                               ThreadPool &pool) {
  if (plan.device == plan::DeviceKind::Cuda)
    return makeCudaDevice({localRank, options.sync, !options.noGraph,
                           chooseGemm(plan, options),
                           chooseOffload(plan, options), pool.threads()});
  return makeDevice(std::getenv("HEDDLE_DEVICE"), pool,
                    chooseOffload(plan, options));
}

OffloadOptions heddle::rt::chooseOffload(const plan::Plan &plan,
                                         const DeviceOptions &options) {
  OffloadOptions swap;
  for (const std::string *text : {&plan.swapDir, &options.swapDirectories})
    // The compiler and the command line have checked the setting of the offload
    // directories, so `parse` accepts it.
    if (auto named = io::OffloadDirectories::parse(*text))
      swap.directories.take(*named);
  swap.checks = options.checksSwap;
  constexpr int64_t page = io::OffloadFile::pageBytes;
  swap.shape = {std::max(plan.swapBlockBytes / page, int64_t(1)) * page,
                plan.swapQueueDepth};
  if (const char *method = std::getenv("HEDDLE_SWAP_IO"))
    swap.method = method;
  return swap;
}

std::map<std::string, std::vector<plan::FileRole>>
heddle::rt::usedDirectories(const plan::Plan &plan,
                            const OffloadOptions &swap) {
  std::map<std::string, std::vector<plan::FileRole>> used;
  for (plan::FileRole role : plan::fileRoles)
    if (plan.memory.fileBytes[role] > 0)
      used[io::offloadDirectory(swap.directories.of(role))].push_back(role);
  return used;
}

void heddle::rt::warnOfOffloadInMemory(const plan::Plan &plan,
                                       const DeviceOptions &options) {
  for (const auto &[directory, roles] :
       usedDirectories(plan, chooseOffload(plan, options))) {
    if (!io::fillsMemory(directory))
      continue;
    Diagnostic cached;
    cached.code = "H0463";
    cached.message = "the swap directory " + directory +
                     " is in memory, or its files go through the system's "
                     "cache: what is on file takes memory that is not planned";
    cached.help = "name a directory on a disk with --swap-dir";
    warn(cached);
  }
}

/// Returns an identifier of this rank's GPU that is unique among all machines,
/// or "" if the device is no GPU.
static std::string gpuOn(const std::string &machine, const Device &device) {
  std::string serial = device.serial();
  return serial.empty() ? "" : machine + " " + serial;
}

bool heddle::rt::mayUseNccl(const Device &device, io::Peers &ranks) {
  const char *given = std::getenv("NCCL_HOSTID");
  std::vector<std::string> all =
      ranks.exchange(gpuOn(given ? given : io::hostIdentity(), device));
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

void heddle::rt::requireOwnGpu(const Device &device, io::Peers &ranks) {
  std::vector<std::string> all =
      ranks.exchange(gpuOn(io::hostIdentity(), device));
  ranks.together([&] {
    const std::string &mine = all[ranks.rank()];
    auto first = std::find(all.begin(), all.end(), mine);
    if (mine.empty() || first == all.begin() + ranks.rank())
      return;
    fail("H0285",
         "ranks " + std::to_string(first - all.begin()) + " and " +
             std::to_string(ranks.rank()) + " have the same GPU, " +
             device.model(),
         "start at most as many ranks on a machine as it has GPUs, with a "
         "launcher that numbers them; or allow it with --share-gpu");
  });
}
