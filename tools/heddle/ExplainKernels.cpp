//===- ExplainKernels.cpp - The GPU kernels of a binary -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs blocks of each GPU kernel in the PTX emulator, to count instructions and
// memory accesses. Prints the counts, together with what the plan and ptxas say
// about the kernel.
//
//===----------------------------------------------------------------------===//

#include "ExplainKernels.h"
#include "ExplainProgram.h"
#include "ExplainText.h"
#include "PredictProgram.h"
#include "PtxResources.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/emulator/ptx/Sample.h"
#include "heddle/runtime/core/DrawOperand.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <iostream>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

namespace {

/// The limits of a GPU's multiprocessor, from which occupancy follows.
struct Multiprocessor {
  int64_t threads = 2048, blocks = 32, registers = 65536, sharedBytes = 0;
  int64_t reservedBytes = 1024; ///< Shared memory that each block reserves.
};

/// Memory filled with zeros. The system provides a page only when it is
/// accessed, so that large tensors are cheap. Allocations are aligned to 256
/// bytes, as on a GPU.
class Zeros {
public:
  explicit Zeros(int64_t bytes)
      : bytes(std::max<int64_t>(bytes, 1)),
        start(mmap(nullptr, this->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (start == MAP_FAILED)
      throw std::bad_alloc();
  }
  Zeros(const Zeros &) = delete;
  Zeros &operator=(const Zeros &) = delete;
  ~Zeros() { munmap(start, bytes); }
  void *const &data() const { return start; }
  int64_t size() const { return bytes; }

private:
  int64_t bytes;
  void *start;
};

/// Operands with which a kernel's blocks can run. Their elements are the values
/// that `BINARY check` uses. Long tensors are filled only if they hold ids or
/// are layouts of attention: a kernel computes addresses from them. Other
/// values do not change which instructions and memory accesses are counted.
class Operands {
public:
  Operands(const plan::Kernel &kernel, const plan::PlainKernel &plain,
           const rt::KernelConstants &constants) {
    rt::OperandWriter writer(constants);
    uint32_t number = 0;
    for (const plan::PlainKernel::Argument &argument : plain.arguments) {
      ++number;
      if (argument.isScalar)
        continue;
      add(argument.elements * plan::byteSize(argument.type));
      int64_t count = argument.elements;
      if (argument.type != plan::DType::I32 &&
          argument.type != plan::DType::I64)
        count = std::min(count, rt::drawnPeriod);
      writer.write(argument, number,
                   static_cast<char *>(buffers.back()->data()), count);
    }
    for (const plan::PlainKernel::Result &result : plain.results)
      if (result.tie < 0)
        add(result.elements * plan::byteSize(result.type));
    if (kernel.scratchBytes > 0)
      add(kernel.scratchBytes);
    for (const auto &one : buffers)
      values.push_back(&one->data());
    for (const plan::PlainKernel::Argument &argument : plain.arguments)
      if (argument.isScalar)
        scalars.push_back(
            std::make_unique<int64_t>(static_cast<int64_t>(argument.low)));
    for (const auto &scalar : scalars)
      values.push_back(scalar.get());
  }

  emulator::GlobalMemory memory;
  std::vector<const void *> values;

private:
  void add(int64_t bytes) {
    buffers.push_back(std::make_unique<Zeros>(bytes));
    memory.add("buffer", buffers.back()->data(), buffers.back()->size());
  }

  std::vector<std::unique_ptr<Zeros>> buffers;
  std::vector<std::unique_ptr<int64_t>> scalars;
};

} // namespace

static Multiprocessor multiprocessorOf(const std::string &target) {
  Multiprocessor one;
  one.sharedBytes = (target == "sm_80" ? 164 : 228) * 1024;
  return one;
}

/// Returns the occupancy: the number of a kernel's threads that can be resident
/// on a multiprocessor, divided by the most threads that it can hold.
static double occupancyOf(const Multiprocessor &one, int64_t threads,
                          int64_t registers, int64_t sharedBytes) {
  int64_t warps = (threads + emulator::warpSize - 1) / emulator::warpSize;
  int64_t blocks =
      std::min({one.blocks, one.threads / (warps * emulator::warpSize),
                one.registers / emulator::registersOfBlock(registers, threads),
                one.sharedBytes / (sharedBytes + one.reservedBytes)});
  return double(blocks * warps * emulator::warpSize) / double(one.threads);
}

/// Counts what a launch does. The counts are exact if the launch executes at
/// most `budget` instructions, counted once for each warp. Otherwise they are
/// estimated from some of the blocks.
static json countLaunch(const emulator::Module &module,
                        const plan::GridLaunch &launch,
                        const Operands &operands) {
  constexpr uint64_t budget = 1 << 20; // Instructions of warps.
  emulator::Launch all;
  all.kernel = launch.symbol;
  all.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
  all.block = {launch.block[0], launch.block[1], launch.block[2]};
  all.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  all.sharedBytes = launch.sharedBytes;
  all.arguments = operands.values;
  emulator::SampledCounts sampled;
  std::string fault =
      emulator::countSample(module, all, operands.memory, budget, sampled);
  if (!fault.empty())
    return {{"fault", fault}};
  const emulator::Counters &counters = sampled.counters;
  uint64_t instructions = 0;
  json byClass = json::object();
  for (int i = 0; i < emulator::numClasses; ++i) {
    instructions += counters.instructions[i];
    byClass[emulator::nameOf(emulator::Class(i))] = counters.instructions[i];
  }
  return {{"blocks", sampled.blocks},
          {"exact", sampled.isExact},
          {"bytes", counters.globalBytes},
          {"sectors", counters.globalSectors},
          {"instructions", instructions},
          {"instructions_by_class", byClass},
          {"tensor_operations", counters.tensorOperations}};
}

static json describeLaunch(const std::string &target,
                           const emulator::Module &module,
                           const plan::GridLaunch &launch,
                           const std::map<std::string, int64_t> &registers) {
  std::optional<emulator::KernelInfo> info = module.info(launch.symbol);
  int64_t shared = launch.sharedBytes + (info ? info->sharedBytes : 0);
  int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  json result = {{"symbol", launch.symbol},
                 {"grid", launch.grid},
                 {"block", launch.block},
                 {"cluster", launch.cluster},
                 {"shared_bytes", shared},
                 {"dynamic_shared_bytes", launch.sharedBytes}};
  auto known = registers.find(launch.symbol);
  if (known == registers.end())
    return result;
  result["registers"] = known->second;
  result["occupancy"] =
      occupancyOf(multiprocessorOf(target), threads, known->second, shared);
  return result;
}

/// Describes the kernels that `calls`, the number of calls of each kernel, says
/// are called. If it is empty, describes all kernels.
static json describeKernels(const rt::Binary &binary,
                            const std::vector<int64_t> &calls) {
  const plan::Plan &plan = binary.plan;
  auto image =
      plan::readPtxImage({binary.kernels.data(), binary.kernels.size()});
  if (!image || image->plain.size() != image->texts.size())
    fail("H0384", "the kernels cannot be read: they are none for a GPU",
         "compile the binary again");
  const std::vector<rt::KernelConstants> constants =
      rt::constantOperandsOf(plan);
  json all = json::array();
  for (size_t number = 0; number < plan.kernels.size(); ++number) {
    const plan::Kernel &kernel = plan.kernels[number];
    if (kernel.onHost || (!calls.empty() && calls[number] == 0))
      continue;
    const std::string &text = image->texts.at(kernel.text);
    std::string error;
    auto module = emulator::Module::load(text, error);
    if (!module)
      fail("H0384", "the kernels cannot be read: " + error,
           "compile the binary again");
    std::map<std::string, int64_t> registers = registersOf(text, plan.target);
    Operands operands(kernel, image->plain[kernel.text], constants[number]);
    json launches = json::array();
    for (const plan::GridLaunch &launch : kernel.launches) {
      json one = describeLaunch(plan.target, *module, launch, registers);
      one["counted"] = countLaunch(*module, launch, operands);
      launches.push_back(std::move(one));
    }
    all.push_back({{"name", kernel.name},
                   {"ops", kernel.ops},
                   {"bytes", kernel.bytes},
                   {"reads_cache", rt::readsCache(kernel)},
                   {"launches", std::move(launches)}});
    if (!calls.empty())
      all.back()["calls"] = calls[number];
  }
  return all;
}

json driver::describeLaunches(const rt::Binary &binary,
                              const std::string &program, int64_t context) {
  const plan::Plan &plan = binary.plan;
  json all = {{"target", plan.target}};
  std::vector<int64_t> calls;
  if (!program.empty()) {
    ProgramLaunches count = countProgramLaunches(plan, program);
    all["program"] = program;
    all["launches"] = count.all;
    all["layer_launches"] = count.ofLayer;
    calls = rt::needsOf(plan, programOf(plan, program)).launches;
  }
  all["kernels"] = describeKernels(binary, calls);
  if (!program.empty())
    all["predicted"] = predictProgram(plan, programOf(plan, program),
                                      all["kernels"], context);
  return all;
}

static std::string sizeText(const json &sizes) {
  std::string text = std::to_string(sizes[0].get<int64_t>());
  for (size_t i = 1; i < sizes.size(); ++i)
    if (sizes[1] != 1 || sizes[2] != 1)
      text += "x" + std::to_string(sizes[i].get<int64_t>());
  return text;
}

void driver::printLaunches(const rt::Binary &binary, const std::string &program,
                           int64_t context) {
  const json described = describeLaunches(binary, program, context);
  if (!program.empty()) {
    ProgramLaunches count = {described["launches"],
                             described["layer_launches"]};
    std::cout << "program " << program << ": " << launchesText(count) << "\n";
    printPrediction(described["predicted"]);
  }
  std::cout
      << "kernels for " << binary.plan.target
      << ": grid, block and shared memory are stated by the plan, registers "
         "by ptxas;\noccupancy is computed from these; bytes to move are "
         "those of the operands; requests,\nsectors and operations of tensor "
         "cores are counted, marked ~ where some blocks stand for all\n";
  std::vector<std::vector<std::string>> rows = {
      {"kernel", program.empty() ? "" : "calls", "grid", "block", "registers",
       "shared", "occupancy", "to move", "requested", "in sectors",
       "tensor cores"}};
  auto text = [](const json &object, const char *key, auto format) {
    return object.contains(key) ? format(object[key]) : std::string("-");
  };
  auto bytes = [](const json &value) {
    return plan::formatBytes(value.get<int64_t>());
  };
  auto sectors = [](const json &value) {
    return plan::formatBytes(32 * value.get<int64_t>());
  };
  auto operations = [](const json &v) { return formatFlops(v.get<double>()); };
  auto count = [&](const json &counted, const char *key, auto format) {
    bool isEstimate = counted.contains("exact") && !counted["exact"];
    return (isEstimate ? "~" : "") + text(counted, key, format);
  };
  for (const json &kernel : described["kernels"]) {
    std::string name = kernel["name"], size = bytes(kernel["bytes"]);
    std::string calls = program.empty() ? "" : kernel["calls"].dump();
    for (const json &launch : kernel["launches"]) {
      const json &counted = launch["counted"];
      rows.push_back(
          {std::exchange(name, ""), std::exchange(calls, ""),
           sizeText(launch["grid"]), sizeText(launch["block"]),
           text(launch, "registers", [](const json &v) { return v.dump(); }),
           bytes(launch["shared_bytes"]),
           text(launch, "occupancy",
                [](const json &v) {
                  return formatNumber("%.0f%%", 100 * v.get<double>());
                }),
           std::exchange(size, ""), count(counted, "bytes", bytes),
           count(counted, "sectors", sectors),
           count(counted, "tensor_operations", operations)});
    }
  }
  printTable(rows);
}
