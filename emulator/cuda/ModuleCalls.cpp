//===- ModuleCalls.cpp - Driver calls: modules and launches ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads PTX modules, looks up kernels, and submits launches to streams.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"
#include "heddle/emulator/cuda/Calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// The PTX version of a module, times ten; 0 if it states none.
static int versionOf(std::string_view text) {
  constexpr std::string_view directive = ".version";
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    size_t first = text.find_first_not_of(" \t", at);
    if (first == text.npos)
      return 0;
    if (text.compare(first, directive.size(), directive) == 0) {
      std::string number(text.substr(first + directive.size(), 16));
      return int(std::lround(10 * std::strtod(number.c_str(), nullptr)));
    }
    if (text.find('\n', at) == text.npos)
      return 0;
  }
  return 0;
}

/// Checks that a module is for this GPU.
static Result checkTarget(const ContextData &context,
                          const emulator::Module &code) {
  const Chip &chip = *context.settings.chip;
  int made = std::atoi(code.target().c_str() + std::strlen("sm_"));
  int here = chip.major * 10 + chip.minor;
  bool isOfOne = code.target().back() == 'a';
  return made > here || (isOfOne && made != here) ? NoBinaryForGpu : Success;
}

static Result load(Module *module, const char *text, std::string &error,
                   const char *call = __builtin_FUNCTION()) {
  auto work = [&](ContextData &context) {
    // The emulator cannot run a cubin, which is machine code.
    if (!std::strncmp(text,
                      "\x7f"
                      "ELF",
                      4))
      return NoBinaryForGpu;
    // Check the PTX version first, because a newer version may have syntax that
    // the parser does not know.
    if (versionOf(text) > newestPtx(context.settings.driver))
      return UnsupportedPtxVersion;
    auto made = std::make_unique<ModuleData>();
    made->code = emulator::Module::load(text, error);
    if (!made->code)
      return InvalidPtx;
    if (Result wrong = checkTarget(context, *made->code); wrong != Success)
      return wrong;
    for (const std::string &name : made->code->kernels()) {
      auto function = std::make_unique<FunctionData>();
      function->code = made->code.get();
      function->name = name;
      function->info = *made->code->info(name);
      constexpr int64_t unasked = 48 * 1024;
      function->maxDynamicShared =
          int(std::max<int64_t>(unasked - function->info.sharedBytes, 0));
      context.functions.insert(function.get());
      made->functions[name] = std::move(function);
    }
    *module = made.get();
    context.modules[*module] = std::move(made);
    return Success;
  };
  return inContext(work, call);
}

Result cuda::cuModuleLoadData(Module *module, const void *image) {
  std::string error;
  Result result = load(module, static_cast<const char *>(image), error);
  if (!error.empty())
    complain(error);
  return result;
}

Result cuda::cuModuleLoadDataEx(Module *module, const void *image,
                                unsigned options, JitOption *names,
                                void **values) {
  char *log = nullptr;
  size_t logBytes = 0;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == JitErrorLog)
      log = static_cast<char *>(values[i]);
    else if (names[i] == JitErrorLogBytes)
      logBytes = reinterpret_cast<size_t>(values[i]);
    else
      return NotSupported;
  }
  std::string error;
  Result result = load(module, static_cast<const char *>(image), error);
  if (log && logBytes > 0)
    std::snprintf(log, logBytes, "%s", error.c_str());
  return result;
}

Result cuda::cuModuleUnload(Module module) {
  return inContext([&](ContextData &context) {
    auto found = context.modules.find(module);
    if (found == context.modules.end())
      return InvalidHandle;
    context.timeline.finish();
    for (const auto &[name, function] : found->second->functions)
      context.functions.erase(function.get());
    context.modules.erase(found);
    return Success;
  });
}

Result cuda::cuModuleGetFunction(Function *function, Module module,
                                 const char *name) {
  return inContext([&](ContextData &context) {
    auto found = context.modules.find(module);
    if (found == context.modules.end())
      return InvalidHandle;
    auto named = found->second->functions.find(name);
    if (named == found->second->functions.end())
      return NotFound;
    *function = named->second.get();
    return Success;
  });
}

Result cuda::cuFuncSetAttribute(Function function, FunctionAttribute attribute,
                                int value) {
  return inContext([&](ContextData &context) {
    if (!context.functions.count(function))
      return InvalidHandle;
    if (attribute == FunctionNonPortableCluster) {
      function->takesAnyCluster = value != 0;
      return Success;
    }
    int64_t most =
        context.settings.chip->sharedPerBlock - function->info.sharedBytes;
    if (attribute != FunctionMaxDynamicShared || value < 0 || value > most)
      return InvalidValue;
    function->maxDynamicShared = value;
    return Success;
  });
}

Result cuda::cuFuncGetAttribute(int *value, FunctionAttribute attribute,
                                Function function) {
  return inContext([&](ContextData &context) {
    if (!context.functions.count(function))
      return InvalidHandle;
    const emulator::KernelInfo &info = function->info;
    const std::pair<FunctionAttribute, int64_t> values[] = {
        {FunctionMaxThreads, info.maxThreads},
        {FunctionSharedBytes, info.sharedBytes},
        {FunctionLocalBytes, info.localBytes},
        {FunctionRegisters, info.registers},
        {FunctionMaxDynamicShared, function->maxDynamicShared},
        {FunctionClusterWidth, info.cluster[0]},
        {FunctionClusterHeight, info.cluster[1]},
        {FunctionClusterDepth, info.cluster[2]},
        {FunctionNonPortableCluster, function->takesAnyCluster}};
    for (auto [known, number] : values)
      if (known == attribute) {
        *value = int(number);
        return Success;
      }
    return InvalidValue;
  });
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// A launch, with copies of its parameters' values.
struct QueuedLaunch {
  const emulator::Module *code = nullptr;
  emulator::Launch launch;
  std::vector<std::vector<char>> values;
};
} // namespace

/// Throws the error that HEDDLE_EMULATE_FAULT asks for at this launch, if any.
static void loseDevice(const Settings &settings, int64_t launch) {
  if (settings.faultAt != launch)
    return;
  throw Fault{settings.isFaultEcc ? EccUncorrectable : DeviceUnavailable,
              "launch " + std::to_string(launch) +
                  " fails, as HEDDLE_EMULATE_FAULT says"};
}

static void runLaunch(ContextData &context, const QueuedLaunch &launched,
                      Command &command) {
  int64_t number = context.launches++;
  context.befall("kernel", number);
  loseDevice(context.settings, number);
  emulator::Launch launch = launched.launch;
  launch.isProgrammatic = command.isProgrammatic;
  for (const std::vector<char> &value : launched.values)
    launch.arguments.push_back(value.data());
  emulator::Options options = context.settings.machineOf(number);
  std::string wrong = launched.code->run(
      launch, context.memory.global(), options,
      options.counts ? &context.kernels[launch.kernel] : nullptr,
      context.timeline.isChecked() ? &command.memory : nullptr);
  if (!wrong.empty())
    throw Fault{wrong.find("access of") == std::string::npos ? LaunchFailed
                                                             : IllegalAddress,
                wrong};
}

/// Reads the attributes of a launch.
static Result readAttributes(const Chip &chip, const LaunchConfig &config,
                             std::optional<emulator::Dim3> &cluster,
                             bool &isProgrammatic) {
  for (unsigned i = 0; i < config.numAttributes; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id == LaunchAttributeIgnore)
      continue;
    if (attribute.id == LaunchAttributeCluster) {
      auto [x, y, z] = attribute.value.cluster;
      cluster = emulator::Dim3{x, y, z};
    } else if (attribute.id == LaunchAttributeProgrammatic) {
      int value = attribute.value.programmatic;
      if (value != 0 && value != 1)
        return InvalidValue;
      constexpr int firstMajor = 9;
      if (value && chip.major < firstMajor)
        return NotSupported;
      isProgrammatic = value != 0;
    } else {
      return NotSupported;
    }
  }
  return Success;
}

/// Checks the cluster size that a launch or its kernel states.
static Result checkCluster(const FunctionData &of, const LaunchConfig &config,
                           const std::optional<emulator::Dim3> &cluster) {
  const int64_t *stated = of.info.cluster;
  emulator::Dim3 size = cluster ? *cluster
                        : *stated
                            ? emulator::Dim3{stated[0], stated[1], stated[2]}
                            : emulator::Dim3();
  constexpr int64_t portable = 8;
  int64_t most = emulator::Limits::of(of.code->target()).clusterBlocks;
  if (!of.takesAnyCluster)
    most = std::min(most, portable);
  if (of.info.maxClusterBlocks)
    most = std::min(most, of.info.maxClusterBlocks);
  bool isOther = *stated && (size.x != stated[0] || size.y != stated[1] ||
                             size.z != stated[2]);
  if (size.count() == 0 || size.count() > most || isOther ||
      config.gridX % size.x || config.gridY % size.y || config.gridZ % size.z)
    return InvalidClusterSize;
  return Success;
}

static Result launch(Function function, const LaunchConfig &config,
                     void **arguments, void **extra,
                     const char *call = __builtin_FUNCTION()) {
  auto work = [&](ContextData &context, StreamData &stream) {
    if (!context.functions.count(function))
      return InvalidHandle;
    if (extra)
      return NotSupported;
    std::optional<emulator::Dim3> cluster;
    bool isProgrammatic = false;
    if (Result wrong = readAttributes(*context.settings.chip, config, cluster,
                                      isProgrammatic);
        wrong != Success)
      return wrong;
    if (Result wrong = checkCluster(*function, config, cluster);
        wrong != Success)
      return wrong;
    emulator::Dim3 grid = {config.gridX, config.gridY, config.gridZ};
    emulator::Dim3 block = {config.blockX, config.blockY, config.blockZ};
    if (grid.count() == 0 || block.count() == 0 || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535 || block.z > 64 ||
        block.count() > function->info.maxThreads ||
        config.sharedBytes > unsigned(function->maxDynamicShared))
      return InvalidValue;
    int64_t registers =
        emulator::registersOfBlock(function->info.registers, block.count());
    if (registers > emulator::Limits().blockRegisters)
      return LaunchOutOfResources;
    QueuedLaunch launched;
    launched.code = function->code;
    launched.launch.kernel = function->name;
    launched.launch.grid = grid;
    launched.launch.block = block;
    launched.launch.cluster = cluster;
    launched.launch.sharedBytes = config.sharedBytes;
    const std::vector<int64_t> &sizes = function->info.parameterBytes;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const char *value = static_cast<const char *>(arguments[i]);
      launched.values.emplace_back(value, value + sizes[i]);
    }
    Command command;
    command.name = "kernel " + function->name + " (launch " +
                   std::to_string(context.submitted++) + ")";
    command.kind = Command::Kind::Kernel;
    command.isProgrammatic = isProgrammatic;
    command.run = [&context, launched](Command &self) {
      runLaunch(context, launched, self);
    };
    context.submit(stream, std::move(command));
    return Success;
  };
  return inStream(config.stream, work, call);
}

Result cuda::cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                            unsigned gridZ, unsigned blockX, unsigned blockY,
                            unsigned blockZ, unsigned sharedBytes,
                            StreamHandle stream, void **arguments,
                            void **extra) {
  LaunchConfig config = {gridX,  gridY,       gridZ,  blockX,  blockY,
                         blockZ, sharedBytes, stream, nullptr, 0};
  return launch(function, config, arguments, extra);
}

Result cuda::cuLaunchKernelEx(const LaunchConfig *config, Function function,
                              void **arguments, void **extra) {
  return launch(function, *config, arguments, extra);
}
