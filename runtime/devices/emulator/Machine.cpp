//===- Machine.cpp - Modules and launches ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/emulator/Machine.h"
#include "runtime/devices/emulator/Lanes.h"
#include "runtime/devices/emulator/Warp.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <thread>

namespace heddle::rt::emulator {

static int64_t registersOf(const Program &program, const Limits &limits);

/// A module with its variables.
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
  return info;
}

/// Makes memory for the variables outside of functions.
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
    // Room to align the start.
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

int64_t registersOfBlock(int64_t ofThread, int64_t threads) {
  // A warp gets whole groups of 8 for each lane.
  int64_t warps = (threads + warpSize - 1) / warpSize;
  return (ofThread + 7) / 8 * 8 * warps * warpSize;
}

Limits Limits::of(std::string_view chip) {
  Limits limits;
  if (chip == "sm_80")
    limits.sharedBytes = 163 * 1024;
  else if (chip == "sm_90" || chip == "sm_90a")
    limits.sharedBytes = 227 * 1024;
  return limits;
}

/// Registers of a thread. A compiler spills when the text allows fewer than
/// live at once.
static int64_t registersOf(const Program &program, const Limits &limits) {
  int64_t most = limits.registers;
  int64_t threads =
      program.maxThreads[0] * program.maxThreads[1] * program.maxThreads[2];
  if (program.requiredThreads[0])
    threads = program.requiredThreads[0] * program.requiredThreads[1] *
              program.requiredThreads[2];
  if (threads)
    while (registersOfBlock(most, threads) > limits.blockRegisters)
      --most;
  if (program.maxRegisters)
    most = std::min(most, program.maxRegisters);
  return std::min(program.registersPerThread, most);
}

/// What is wrong with a launch, or "".
static std::string checkLaunch(const Program &program, const Limits &limits,
                               const Launch &launch) {
  auto number = [](int64_t value) { return std::to_string(value); };
  const Dim3 &grid = launch.grid, &block = launch.block;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || block.x < 1 || block.y < 1 ||
      block.z < 1)
    return "a launch without threads";
  if (grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
    return "a grid of " + number(grid.x) + "x" + number(grid.y) + "x" +
           number(grid.z) + " blocks is too large";
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
      return "a block of " + number(block.x) + "x" + number(block.y) + "x" +
             number(block.z) + " threads is not that of the kernel";
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
  return {};
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

namespace {
/// A row that is the same in all lanes.
void fillRow(char *row, int width, uint64_t bits) {
  if (width == 1) {
    auto mask = static_cast<uint32_t>(bits);
    std::memcpy(row, &mask, sizeof(mask));
    return;
  }
  size_t bytes = width / 8;
  for (int lane = 0; lane < warpSize; ++lane)
    std::memcpy(row + lane * bytes, &bits, bytes);
}

/// The value of a special register in a lane.
uint32_t specialValue(const std::string &name, const Launch &launch,
                      const Program &program, const Block &block,
                      const Warp &warp, int lane) {
  const Dim3 &size = launch.block;
  int64_t thread = warp.thread(lane);
  Dim3 tid = {thread % size.x, thread / size.x % size.y,
              thread / (size.x * size.y)};
  auto component = [&](const Dim3 &of) {
    char axis = name.back();
    return static_cast<uint32_t>(axis == 'x'   ? of.x
                                 : axis == 'y' ? of.y
                                               : of.z);
  };
  auto is = [&](const char *prefix) { return name.rfind(prefix, 0) == 0; };
  if (is("%tid."))
    return component(tid);
  if (is("%ntid."))
    return component(size);
  if (is("%ctaid.") || is("%clusterid."))
    return component(block.at);
  if (is("%nctaid.") || is("%nclusterid."))
    return component(launch.grid);
  if (is("%cluster_nctaid.") || name == "%cluster_nctarank")
    return 1;
  if (name == "%laneid")
    return lane;
  if (name == "%warpid")
    return warp.index;
  if (name == "%nwarpid")
    return static_cast<uint32_t>(block.warps.size());
  uint32_t self = uint32_t(1) << lane;
  if (name == "%lanemask_eq")
    return self;
  if (name == "%lanemask_lt")
    return self - 1;
  if (name == "%lanemask_le")
    return self | (self - 1);
  if (name == "%lanemask_gt")
    return ~(self | (self - 1));
  if (name == "%lanemask_ge")
    return ~(self - 1);
  if (name == "%dynamic_smem_size")
    return static_cast<uint32_t>(launch.sharedBytes);
  if (name == "%total_smem_size")
    return static_cast<uint32_t>(program.sharedBytes + launch.sharedBytes);
  return name == "WARP_SZ" ? warpSize : 0; // %smid: all blocks on the first.
}

/// All blocks of a launch: workers take one after the other.
class LaunchRunner {
public:
  LaunchRunner(const ModuleImage &image, const Program &program,
               const Launch &launch, const GlobalMemory &memory,
               const Options &options)
      : image(image), program(program), launch(launch), memory(memory),
        options(options), order(launch.blocks),
        count(order.empty() ? launch.grid.count()
                            : static_cast<int64_t>(order.size())),
        firstFault(count) {
    drawOrder();
    parameters.resize(program.parameterBytes + sizeof(uint64_t));
    for (size_t i = 0; i < program.parameters.size(); ++i)
      std::memcpy(parameters.data() + program.parameters[i].offset,
                  launch.arguments[i], program.parameters[i].bytes);
  }

  std::string run(Counters *counters, Touched *touched);

private:
  void work(Worker &worker);
  void prepare(Worker &worker, std::vector<uint64_t> &registers);
  void startBlock(Worker &worker, int64_t index);
  void drawOrder();
  Dim3 blockAt(int64_t index) const {
    const Dim3 &grid = launch.grid;
    return {index % grid.x, index / grid.x % grid.y, index / (grid.x * grid.y)};
  }
  void noteRace(std::vector<TouchedRange> &ranges);
  void note(int64_t turn, const Block &block, const Fault &fault);

  const ModuleImage &image;
  const Program &program;
  const Launch &launch;
  const GlobalMemory &memory;
  const Options &options;
  std::vector<char> parameters;
  std::atomic<int64_t> next{0};
  std::vector<int64_t> order;      ///< Of the blocks; empty: as they are.
  const int64_t count;             ///< Of the blocks that run.
  std::atomic<int64_t> firstFault; ///< The turn of the first with a fault.
  std::mutex mutex;
  std::string message;
  bool recordsTouches = false; ///< Of global memory.
  Counters total;
};
} // namespace

/// Gives the worker's warps their registers, with what never changes in them.
void LaunchRunner::prepare(Worker &worker, std::vector<uint64_t> &registers) {
  Block &block = worker.block;
  worker.program = &program;
  worker.launch = &launch;
  worker.memory = &memory;
  worker.parameters = parameters.data();
  worker.options = &options;
  if (recordsTouches)
    worker.touched = std::make_unique<TouchRecorder>(program.ops.size());
  worker.executed.resize(program.ops.size());
  worker.lastAllocation.resize(program.ops.size());
  block.numThreads = launch.block.count();
  block.localBytes = program.localBytes;
  block.warps.resize((block.numThreads + warpSize - 1) / warpSize);
  block.local.resize(block.warps.size() * warpSize * block.localBytes);
  constexpr size_t line = 64;
  registers.resize((program.registerBytes * block.warps.size() + line) / 8);
  auto start = reinterpret_cast<uintptr_t>(registers.data());
  auto *base = reinterpret_cast<char *>((start + line - 1) / line * line);
  for (size_t i = 0; i < block.warps.size(); ++i) {
    Warp &warp = block.warps[i];
    warp.index = static_cast<int>(i);
    warp.block = &block;
    warp.worker = &worker;
    warp.registers = base + i * program.registerBytes;
    for (const FixedRow &fixed : program.fixed)
      if (fixed.special.empty())
        fillRow(warp.registers + fixed.row, fixed.width, fixed.bits);
  }
}

void LaunchRunner::startBlock(Worker &worker, int64_t index) {
  Block &block = worker.block;
  if (worker.touched)
    worker.touched->startBlock(index);
  block.at = blockAt(index);
  block.shared.reset(program.sharedBytes + launch.sharedBytes,
                     static_cast<int>(block.warps.size()),
                     options.checks == Checks::Full);
  block.barriersInMemory.clear();
  block.copies.clear();
  block.ofCluster = {};
  if (options.order)
    block.draw = Draw(*options.order, static_cast<uint64_t>(index));
  std::fill(block.local.begin(), block.local.end(), static_cast<char>(0xff));
  for (Warp &warp : block.warps) {
    int64_t threads =
        std::min(block.numThreads - warp.index * warpSize, warpSize);
    warp.live = threads == warpSize ? allLanes : (uint32_t(1) << threads) - 1;
    warp.active = warp.live;
    warp.pc = 0;
    warp.reconverge = noPc;
    warp.state = Warp::Running;
    warp.paths.clear();
    warp.groups.clear();
    warp.open.clear();
    warp.products.reset();
    warp.stores = {};
    warp.awaited = -1;
    warp.clusterTurn = 0;
    for (const FixedRow &fixed : program.fixed) {
      if (fixed.special.empty())
        continue;
      auto *row = reinterpret_cast<uint32_t *>(warp.registers + fixed.row);
      for (int lane = 0; lane < warpSize; ++lane)
        row[lane] =
            specialValue(fixed.special, launch, program, block, warp, lane);
    }
    // The same in every run, and a NaN.
    for (uint32_t row : program.unwritten)
      std::memset(warp.registers + row, 0xff, 64);
  }
}

std::string describePlace(const Place &place,
                          const std::map<int64_t, std::string> &files) {
  std::string result = "line " + std::to_string(place.line);
  auto file = files.find(place.sourceFile);
  if (file != files.end())
    result +=
        " (" + file->second + ":" + std::to_string(place.sourceLine) + ")";
  return result;
}

void LaunchRunner::drawOrder() {
  if (!options.order)
    return;
  if (order.empty()) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
  }
  Draw draw(*options.order, UINT64_MAX);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw.below(i)]);
}

void LaunchRunner::note(int64_t turn, const Block &block, const Fault &fault) {
  std::lock_guard<std::mutex> lock(mutex);
  if (turn >= firstFault)
    return;
  firstFault = turn;
  const Warp &warp = *block.current;
  const Place &place = program.places[warp.current];
  auto number = [](int64_t value) { return std::to_string(value); };
  message = "kernel " + program.name + ", " +
            describePlace(place, image.syntax.files) + ", " + place.opcode +
            ": " + fault.message + "; block (" + number(block.at.x) + ", " +
            number(block.at.y) + ", " + number(block.at.z) + "), " +
            describeThreads(warp, fault.lanes ? fault.lanes : warp.mask);
}

void LaunchRunner::work(Worker &worker) {
  std::vector<uint64_t> registers;
  prepare(worker, registers);
  // Blocks are taken in order, so the first fault is that of every run.
  for (int64_t turn = next++; turn < count && turn < firstFault;
       turn = next++) {
    startBlock(worker, order.empty() ? turn : order[turn]);
    try {
      worker.block.run(program);
    } catch (const Fault &fault) {
      note(turn, worker.block, fault);
    }
  }
  for (size_t i = 0; i < program.ops.size(); ++i)
    worker.counters.instructions[static_cast<int>(program.ops[i].kind)] +=
        worker.executed[i];
  std::lock_guard<std::mutex> lock(mutex);
  total += worker.counters;
}

std::string LaunchRunner::run(Counters *counters, Touched *touched) {
  recordsTouches = touched != nullptr || options.checks == Checks::Full;
  unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  int64_t numWorkers =
      std::min<int64_t>(options.threads ? options.threads : cores, count);
  std::vector<Worker> workers(numWorkers);
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < numWorkers; ++i)
    threads.emplace_back([&, i] { work(workers[i]); });
  work(workers[0]);
  for (std::thread &thread : threads)
    thread.join();
  if (counters)
    *counters += total;
  std::vector<TouchedRange> raceable, others;
  for (const Worker &worker : workers)
    if (recordsTouches)
      worker.touched->finish(raceable, others);
  if (touched) {
    addTouched(raceable, *touched);
    addTouched(others, *touched);
  }
  if (message.empty() && options.checks == Checks::Full)
    noteRace(raceable);
  return message;
}

/// Two blocks have no order but that which they make themselves.
void LaunchRunner::noteRace(std::vector<TouchedRange> &ranges) {
  auto race = findRace(ranges);
  if (!race)
    return;
  const auto &[later, other] = *race;
  auto verb = [](Touch kind) {
    return kind == Touch::Read    ? "reads"
           : kind == Touch::Write ? "writes"
                                  : "changes";
  };
  auto place = [&](const TouchedRange &range) {
    return describePlace(program.places[range.op], image.syntax.files);
  };
  auto name = [&](int64_t index) {
    Dim3 at = blockAt(index);
    return "block (" + std::to_string(at.x) + ", " + std::to_string(at.y) +
           ", " + std::to_string(at.z) + ")";
  };
  uint64_t at = std::max(later.first, other.first);
  message = "kernel " + program.name + ", " + place(later) + ", " +
            program.places[later.op].opcode +
            ": race between blocks: " + name(later.block) + " " +
            verb(later.kind) + " what " + name(other.block) + " " +
            verb(other.kind) + ", " + place(other) + ": " + memory.describe(at);
}

std::string Module::run(const Launch &launch, const GlobalMemory &memory,
                        const Options &options, Counters *counters,
                        Touched *touched) const {
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
  return LaunchRunner(*image, program, launch, all, options)
      .run(counters, touched);
}

} // namespace heddle::rt::emulator
