//===- Kernels.cpp - The loaded kernels of a plan -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads PTX or cubins as modules, and prepares the launches of each kernel.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/Kernels.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/io/CacheDirectory.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cstdlib>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

[[noreturn]] static void failKernels(const std::string &what) {
  fail("H0384", "the kernels cannot be loaded: " + what,
       "compile the binary again");
}

/// Returns the word after a directive in PTX, for example "sm_90" after
/// ".target".
static std::string directive(const std::string &text, const char *name) {
  size_t at = text.find(name);
  if (at == std::string::npos)
    return "";
  size_t first = text.find_first_not_of(" \t", at + std::string(name).size());
  size_t end = text.find_first_of(" \t\r\n,", first);
  return first == std::string::npos ? "" : text.substr(first, end - first);
}

LoadedKernels::LoadedKernels(const Driver &driver, const GpuModel &gpu,
                             std::string_view image,
                             const std::vector<plan::Kernel> &all,
                             const std::string &gemm, Device *cores)
    : driver(driver) {
  openLibrary(gemm, gpu, all);
  std::optional<plan::PtxImage> texts = plan::readPtxImage(image);
  if (!texts)
    failKernels("the binary holds no code for a GPU");
  if (cores && !texts->host.empty())
    ofHost = cores->load(texts->host.data(), texts->host.size(), all);
  try {
    texts->cubins.resize(texts->texts.size());
    for (size_t i = 0; i < texts->texts.size(); ++i) {
      modules.push_back(load(gpu, texts->texts[i], texts->cubins[i]));
      beginEarly.push_back(texts->texts[i].find("griddepcontrol.wait") !=
                           std::string::npos);
    }
    for (const plan::Kernel &kernel : all)
      add(kernel);
    if (algorithms)
      algorithms->save();
  } catch (...) {
    for (Module module : modules)
      driver.unloadModule(module);
    throw;
  }
}

LoadedKernels::~LoadedKernels() {
  for (Module module : modules)
    driver.unloadModule(module);
}

Module LoadedKernels::load(const GpuModel &gpu, const std::string &text,
                           const std::string &cubin) {
  // The PTX names its architecture. Code for sm_90, for example, also runs on
  // newer GPUs, but code for sm_90a runs only on compute capability 9.0.
  std::string target = directive(text, ".target");
  int chip = target.size() > 3 ? std::atoi(target.c_str() + 3) : 0;
  int here = gpu.major * 10 + gpu.minor;
  bool isOfOne = !target.empty() && target.back() == 'a';
  if (chip > here || (isOfOne && chip != here))
    fail("H0283",
         "the kernels are for " + target + ", and this GPU (" + gpu.name +
             ") is sm_" + std::to_string(here),
         "compile the binary with --target sm_80, for GPUs from there on, or "
         "run it on another GPU");
  Module module = nullptr;
  // The driver rejects the cubin if the GPU is newer than the cubin's target,
  // or if the driver is older than the cubin's format. In these cases, load the
  // PTX, which the driver compiles.
  if (!cubin.empty() &&
      driver.loadModule(&module, cubin.data(), 0, nullptr, nullptr) == Success)
    return module;
  char log[4096] = {};
  JitOption names[] = {JitErrorLog, JitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log - 1)};
  Result result = driver.loadModule(&module, text.c_str(), 2, names, values);
  if (result == UnsupportedPtxVersion)
    fail("H0281",
         "NVIDIA's driver is too old: it does not know version " +
             directive(text, ".version") + " of PTX",
         "install a newer driver");
  if (result != Success)
    failKernels(driver.describe(result) + (*log ? ":\n" : "") + log);
  return module;
}

/// Opens cuBLASLt if the plan has products that cuBLASLt can compute, unless
/// `gemm` forbids its use.
void LoadedKernels::openLibrary(const std::string &gemm, const GpuModel &gpu,
                                const std::vector<plan::Kernel> &kernels) {
  numProducts =
      std::count_if(kernels.begin(), kernels.end(),
                    [](const auto &kernel) { return !kernel.library.empty(); });
  if (gemm == "generated" || numProducts == 0)
    return;
  std::string reason;
  library = ProductLibrary::open(reason);
  if (!library && gemm == "library")
    fail("H0450", "--gemm library, and there is no cuBLASLt: " + reason,
         "install cuBLAS 12 or 13 where programs find libcublasLt.so, or run "
         "with --gemm auto, which takes Heddle's products");
  if (library)
    algorithms = std::make_unique<Algorithms>(io::cacheDirectory(), gpu.name,
                                              library->version());
}

void LoadedKernels::add(const plan::Kernel &kernel) {
  if (kernel.onHost) {
    KernelHandle found = ofHost ? ofHost->find(kernel.name) : nullptr;
    if (!found)
      failKernels("there is no code for the host's '" + kernel.name + "'");
    LoadedKernel &loaded = kernels[kernel.name];
    loaded.name = kernel.name;
    loaded.onHost = found;
    return;
  }
  if (kernel.launches.empty())
    return;
  if (kernel.text < 0 || kernel.text >= int64_t(modules.size()))
    failKernels("there is no text for '" + kernel.name + "'");
  LoadedKernel loaded;
  loaded.name = kernel.name;
  loaded.hasScratch = kernel.scratchBytes > 0;
  if (library && !kernel.library.empty())
    loaded.product =
        ProductCalls::prepare(*library, kernel.library.front(), *algorithms);
  for (const plan::GridLaunch &launch : kernel.launches) {
    LoadedKernel::Launch made;
    made.mayBeginEarly = beginEarly[kernel.text];
    const auto &[grid, block] = std::pair(launch.grid, launch.block);
    made.config = {unsigned(grid[0]),
                   unsigned(grid[1]),
                   unsigned(grid[2]),
                   unsigned(block[0]),
                   unsigned(block[1]),
                   unsigned(block[2]),
                   unsigned(launch.sharedBytes),
                   nullptr,
                   nullptr,
                   0};
    // The attribute for clusters of blocks is set only if it is needed, since
    // chips before sm_90 do not support it.
    if (launch.cluster != plan::GridLaunch().cluster) {
      LaunchAttribute &cluster = made.cluster.emplace();
      cluster.id = LaunchAttributeCluster;
      cluster.value.cluster = {unsigned(launch.cluster[0]),
                               unsigned(launch.cluster[1]),
                               unsigned(launch.cluster[2])};
    }
    if (driver.findFunction(&made.function, modules[kernel.text],
                            launch.symbol.c_str()) != Success)
      failKernels("there is no function '" + launch.symbol + "' for '" +
                  kernel.name + "'");
    // The query makes the driver load the function now. It would otherwise load
    // it at the first launch, which must not happen while work is captured.
    int registers = 0;
    if (driver.functionAttribute(&registers, FunctionRegisters,
                                 made.function) != Success)
      failKernels("the driver cannot load '" + launch.symbol + "'");
    // A function that uses more than 48 KiB of shared memory must request it.
    if (launch.sharedBytes > 0 &&
        driver.setFunction(made.function, FunctionMaxDynamicShared,
                           int(launch.sharedBytes)) != Success)
      failKernels("'" + kernel.name + "' takes " +
                  std::to_string(launch.sharedBytes) +
                  " bytes of shared memory, more than this GPU has");
    loaded.launches.push_back(made);
  }
  kernels[kernel.name] = std::move(loaded);
}

KernelHandle LoadedKernels::find(const std::string &name) const {
  auto found = kernels.find(name);
  if (found == kernels.end())
    return nullptr;
  return reinterpret_cast<KernelHandle>(
      reinterpret_cast<uintptr_t>(&found->second));
}

std::string LoadedKernels::products() const {
  if (!library)
    return "";
  auto count =
      std::count_if(kernels.begin(), kernels.end(), [](const auto &all) {
        return all.second.product != nullptr;
      });
  return std::to_string(count) + " by cuBLASLt, " +
         std::to_string(numProducts - count) + " by Heddle";
}
