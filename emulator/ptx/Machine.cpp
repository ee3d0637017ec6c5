//===- Machine.cpp - Modules, options, and checks of launches -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a module, and checks that a launch respects the limits of the kernel
// and the chip before its blocks run.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/Machine.h"
#include "emulator/ptx/Launch.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::emulator {

static int64_t registersOf(const Program &program, const Limits &limits);

/// A loaded module and the memory of its variables.
struct ModuleImage {
  Syntax syntax;
  std::map<std::string, Program> programs;
  std::vector<std::pair<const Variable *, std::vector<uint64_t>>> variables;
  Limits limits;
};

Module::Module() : image(std::make_unique<ModuleImage>()) {}
Module::~Module() = default;

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto &[name, program] : image->programs)
    names.push_back(name);
  return names;
}

const std::string &Module::version() const { return image->syntax.version; }
const std::string &Module::target() const { return image->syntax.target; }

std::optional<KernelInfo> Module::info(const std::string &kernel) const {
  auto found = image->programs.find(kernel);
  if (found == image->programs.end())
    return std::nullopt;
  const Program &program = found->second;
  KernelInfo info;
  for (const Parameter &parameter : program.parameters)
    info.parameterBytes.push_back(parameter.bytes);
  info.sharedBytes = program.sharedBytes;
  info.localBytes = program.localBytes;
  info.registers = registersOf(program, image->limits);
  int64_t stated =
      program.maxThreads[0] * program.maxThreads[1] * program.maxThreads[2];
  info.maxThreads = stated ? stated : image->limits.threads;
  for (int i = 0; i < 3; ++i)
    info.cluster[i] = program.cluster[i];
  info.maxClusterBlocks = program.maxClusterRank;
  return info;
}

/// Allocates memory for the module's variables. Returns the address of each
/// variable.
static std::map<std::string, uint64_t> placeVariables(ModuleImage &image) {
  std::map<std::string, uint64_t> addresses;
  for (const Variable &variable : image.syntax.variables) {
    if (variable.space == "shared")
      continue;
    if (variable.isExtern || variable.bytes == 0)
      throw PtxError(variable.line, "the variable '" + variable.name +
                                        "' is in another module");
    constexpr int64_t most = 256;
    if (variable.alignment > most)
      throw PtxError(variable.line,
                     "an alignment of " + std::to_string(variable.alignment));
    // Allocate extra bytes, so that the variable's first byte can be aligned.
    std::vector<uint64_t> memory((variable.bytes + most) / 8 + 1);
    auto start = reinterpret_cast<uint64_t>(memory.data());
    start = (start + most - 1) / most * most;
    std::copy(variable.initial.begin(), variable.initial.end(),
              reinterpret_cast<uint8_t *>(start));
    addresses[variable.name] = start;
    image.variables.emplace_back(&variable, std::move(memory));
  }
  return addresses;
}

std::unique_ptr<Module> Module::load(std::string_view text,
                                     std::string &error) try {
  std::unique_ptr<Module> module(new Module());
  ModuleImage &image = *module->image;
  image.syntax = parsePtx(text);
  image.limits = Limits::of(image.syntax.target);
  if (!image.limits.sharedBytes)
    throw PtxError(1, "unknown target '" + image.syntax.target +
                          "': sm_80 and sm_90 are known");
  std::map<std::string, uint64_t> addresses = placeVariables(image);
  for (const Function &function : image.syntax.functions)
    if (function.isEntry)
      image.programs.emplace(function.name,
                             decode(image.syntax, function, addresses));
  return module;
} catch (const std::exception &fault) {
  error = fault.what();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Options and limits
//===----------------------------------------------------------------------===//

Options Options::fromEnvironment() {
  Options options;
  if (const char *checks = std::getenv("HEDDLE_EMULATE_CHECK"))
    if (std::string_view(checks) == "light")
      options.checks = Checks::Light;
  if (const char *number = std::getenv("HEDDLE_EMULATE_APPROX"))
    options.approximate = std::strtoull(number, nullptr, 10);
  return options;
}

std::string Options::problemOfEnvironment() {
  const char *checks = std::getenv("HEDDLE_EMULATE_CHECK");
  if (checks && std::string_view(checks) != "light" &&
      std::string_view(checks) != "full")
    return std::string("HEDDLE_EMULATE_CHECK is full or light, not '") +
           checks + "'";
  const char *number = std::getenv("HEDDLE_EMULATE_APPROX");
  if (number && std::string_view(number).find_first_not_of("0123456789") !=
                    std::string_view::npos)
    return std::string("HEDDLE_EMULATE_APPROX is a number, not '") + number +
           "'";
  return "";
}

int64_t registersOfBlock(int64_t ofThread, int64_t threads) {
  // A GPU allocates registers to whole warps, and rounds the number of
  // registers of each lane up to a multiple of 8.
  int64_t warps = (threads + warpSize - 1) / warpSize;
  return (ofThread + 7) / 8 * 8 * warps * warpSize;
}

Limits Limits::of(std::string_view chip) {
  Limits limits;
  if (chip == "sm_80")
    limits.sharedBytes = 163 * 1024;
  else if (chip == "sm_90" || chip == "sm_90a") {
    limits.sharedBytes = 227 * 1024;
    limits.clusterBlocks = 16;
  }
  return limits;
}

/// Returns the largest number of threads in a block that the PTX's .reqntid or
/// .maxntid states, or 0 if it has neither.
static int64_t statedThreads(const Program &program) {
  const int64_t *sizes =
      program.requiredThreads[0] ? program.requiredThreads : program.maxThreads;
  return sizes[0] * sizes[1] * sizes[2];
}

/// Returns the largest number of registers per thread with which `minBlocks`
/// blocks (at least one) fit on a multiprocessor.
static int64_t fittingRegisters(const Program &program, const Limits &limits,
                                int64_t minBlocks) {
  int64_t most = limits.registers, threads = statedThreads(program);
  if (threads)
    while (most > 1 &&
           registersOfBlock(most, threads) * std::max<int64_t>(minBlocks, 1) >
               limits.blockRegisters)
      --most;
  return most;
}

/// Returns the number of registers that a thread has when the kernel starts. As
/// for ptxas, .maxnreg states the number. Without .maxnreg, the number follows
/// from .minnctapersm and the threads of a block. Returns 0 if the PTX has
/// neither.
static int64_t entryRegisters(const Program &program, const Limits &limits) {
  if (program.maxRegisters && program.maxRegisters <= limits.registers)
    return program.maxRegisters;
  if (!program.minBlocks || !statedThreads(program))
    return 0;
  return fittingRegisters(program, limits, program.minBlocks) / 8 * 8;
}

/// Returns the number of registers that a thread uses. This is the number that
/// are live at once, but at most the number that the PTX allows, because a
/// compiler would spill the rest. If the kernel executes setmaxnreg, it is the
/// number that the PTX states for the start of the kernel.
static int64_t registersOf(const Program &program, const Limits &limits) {
  int64_t stated = entryRegisters(program, limits);
  if (program.changesRegisters && stated)
    return stated;
  int64_t most = fittingRegisters(program, limits, program.minBlocks);
  if (program.maxRegisters)
    most = std::min(most, program.maxRegisters);
  return std::min(program.registersPerThread, most);
}

static std::string sizesOf(const Dim3 &of) {
  return std::to_string(of.x) + "x" + std::to_string(of.y) + "x" +
         std::to_string(of.z);
}

/// Returns the number of blocks of a cluster in each dimension. The launch
/// states it, or else the PTX. If neither does, it is one.
static Dim3 clusterOf(const Program &program, const Launch &launch) {
  if (launch.cluster)
    return *launch.cluster;
  const int64_t *stated = program.cluster;
  return stated[0] ? Dim3{stated[0], stated[1], stated[2]} : Dim3();
}

/// Returns an error message for a wrong cluster size, or "" if the size is
/// right.
static std::string checkCluster(const Program &program, const Limits &limits,
                                const Launch &launch) {
  Dim3 cluster = clusterOf(program, launch);
  const int64_t sizes[] = {cluster.x, cluster.y, cluster.z};
  if (cluster.x < 1 || cluster.y < 1 || cluster.z < 1)
    return "a cluster without blocks";
  if (program.isExplicitCluster && !launch.cluster && !program.cluster[0])
    return "the launch has to state the blocks of a cluster";
  for (int i = 0; i < 3; ++i)
    if (program.cluster[0] && sizes[i] != program.cluster[i])
      return "a cluster of " + sizesOf(cluster) +
             " blocks is not that of the kernel";
  int64_t most = limits.clusterBlocks;
  if (program.maxClusterRank)
    most = std::min(most, program.maxClusterRank);
  if (cluster.count() > most)
    return "a cluster of " + std::to_string(cluster.count()) +
           " blocks; at most " + std::to_string(most) + " can be";
  if (launch.grid.x % cluster.x || launch.grid.y % cluster.y ||
      launch.grid.z % cluster.z)
    return "a grid of " + sizesOf(launch.grid) +
           " blocks is no multiple of a cluster of " + sizesOf(cluster);
  if (!launch.blocks.empty() && cluster.count() > 1)
    return "some blocks alone, though those of a cluster run together";
  return {};
}

/// Returns an error message for a launch that a driver would refuse, or "" if
/// it would not.
static std::string checkLaunch(const Program &program, const Limits &limits,
                               const Launch &launch) {
  auto number = [](int64_t value) { return std::to_string(value); };
  const Dim3 &grid = launch.grid, &block = launch.block;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || block.x < 1 || block.y < 1 ||
      block.z < 1)
    return "a launch without threads";
  if (grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
    return "a grid of " + sizesOf(grid) + " blocks is too large";
  if (block.count() > limits.threads || block.z > 64)
    return "a block of " + number(block.count()) + " threads is too large";
  const int64_t sizes[] = {block.x, block.y, block.z};
  int64_t most =
      program.maxThreads[0] * program.maxThreads[1] * program.maxThreads[2];
  if (most && block.count() > most)
    return "a block of " + number(block.count()) +
           " threads; the kernel takes at most " + number(most);
  for (int i = 0; i < 3; ++i)
    if (program.requiredThreads[0] && sizes[i] != program.requiredThreads[i])
      return "a block of " + sizesOf(block) +
             " threads is not that of the kernel";
  constexpr int64_t staticBytes = 48 * 1024;
  if (program.sharedBytes > staticBytes)
    return "the kernel declares " + number(program.sharedBytes) +
           " bytes of shared memory; " + number(staticBytes) + " can be";
  if (program.sharedBytes + launch.sharedBytes > limits.sharedBytes)
    return number(program.sharedBytes + launch.sharedBytes) +
           " bytes of shared memory; the chip has " +
           number(limits.sharedBytes);
  int64_t registers =
      registersOfBlock(registersOf(program, limits), block.count());
  if (registers > limits.blockRegisters)
    return "a block of " + number(block.count()) + " threads takes " +
           number(registers) + " registers; the chip has " +
           number(limits.blockRegisters);
  for (int64_t index : launch.blocks)
    if (index < 0 || index >= grid.count())
      return "block " + number(index) + " of a grid of " + number(grid.count());
  if (launch.arguments.size() != program.parameters.size())
    return number(static_cast<int64_t>(launch.arguments.size())) +
           " arguments for " +
           number(static_cast<int64_t>(program.parameters.size())) +
           " parameters";
  return checkCluster(program, limits, launch);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

std::string Module::run(const Launch &launch, const GlobalMemory &memory,
                        const Options &options, Counters *counters,
                        AccessedRanges *touched) const {
  auto found = image->programs.find(launch.kernel);
  if (found == image->programs.end())
    return "no kernel '" + launch.kernel + "'";
  const Program &program = found->second;
  std::string wrong = checkLaunch(program, image->limits, launch);
  if (!wrong.empty())
    return "kernel " + launch.kernel + ": " + wrong;
  GlobalMemory all = memory;
  for (const auto &[variable, words] : image->variables) {
    auto start = reinterpret_cast<uint64_t>(words.data());
    start = (start + 255) / 256 * 256;
    all.add(variable->name, start, reinterpret_cast<void *>(start),
            variable->bytes);
  }
  LaunchSetup setup = {program,
                       launch,
                       clusterOf(program, launch),
                       entryRegisters(program, image->limits),
                       image->syntax.files,
                       all,
                       options};
  return runLaunch(setup, counters, touched);
}

} // namespace heddle::emulator
