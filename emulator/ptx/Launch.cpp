//===- Launch.cpp - Runs all blocks of a launch ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the blocks of a launch. Workers (host threads) take clusters of blocks
// one after the other. Then the recorded accesses of all blocks are checked for
// races.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Launch.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

namespace heddle::emulator {

namespace {
/// Writes the value `bits` to all lanes of a register of `width` bits. `row` is
/// the register's memory.
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

/// Returns the value of a special register for one lane.
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
  const Dim3 &at = block.at, &grid = launch.grid;
  const Dim3 &cluster = block.cluster->size;
  if (is("%ctaid."))
    return component(at);
  if (is("%nctaid."))
    return component(grid);
  if (is("%clusterid."))
    return component({at.x / cluster.x, at.y / cluster.y, at.z / cluster.z});
  if (is("%nclusterid."))
    return component(
        {grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z});
  if (is("%cluster_ctaid."))
    return component({at.x % cluster.x, at.y % cluster.y, at.z % cluster.z});
  if (is("%cluster_nctaid."))
    return component(cluster);
  if (name == "%cluster_ctarank")
    return static_cast<uint32_t>(block.rank);
  if (name == "%cluster_nctarank")
    return static_cast<uint32_t>(cluster.count());
  if (name == "%is_explicit_cluster")
    return launch.cluster || program.cluster[0];
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
  // %smid is 0, because all blocks run on multiprocessor 0.
  return name == "WARP_SZ" ? warpSize : 0;
}

/// Runs the clusters of a launch on several workers.
class LaunchRunner {
public:
  explicit LaunchRunner(const LaunchSetup &setup)
      : setup(setup), program(setup.program), launch(setup.launch),
        options(setup.options), order(launch.blocks),
        count(order.empty() ? launch.grid.count() / setup.cluster.count()
                            : static_cast<int64_t>(order.size())),
        firstFault(count) {
    drawOrder();
    parameters.resize(program.parameterBytes + sizeof(uint64_t));
    for (size_t i = 0; i < program.parameters.size(); ++i)
      std::memcpy(parameters.data() + program.parameters[i].offset,
                  launch.arguments[i], program.parameters[i].bytes);
  }

  std::string run(Counters *counters, AccessedRanges *touched);

private:
  void work(Worker &worker);
  void prepare(Worker &worker, std::vector<uint64_t> &registers);
  void startCluster(Worker &worker, int64_t index);
  void startBlock(Block &block, int64_t cluster);
  void startWarp(Warp &warp);
  void drawOrder();
  /// Returns the coordinates of the block or thread with the linear index
  /// `index` in a grid of size `of`. The coordinate x varies fastest.
  static Dim3 coordinatesOf(int64_t index, const Dim3 &of) {
    return {index % of.x, index / of.x % of.y, index / (of.x * of.y)};
  }
  void tellNext(const std::vector<Worker> &workers, AccessedRanges &touched);
  void noteRace(std::vector<RangeAccess> &ranges);
  void noteChangedConstant(std::vector<RangeAccess> &ranges);
  /// Reports as an error that two blocks access the same bytes, for example in
  /// a race. The error is attributed to the block which made the access
  /// `first`.
  void noteMeeting(const RangeAccess &first, const RangeAccess &second,
                   const std::string &what, const std::string &verb);
  void note(int64_t turn, const Warp &warp, const Fault &fault);

  const LaunchSetup &setup;
  const Program &program;
  const Launch &launch;
  const Options &options;
  std::vector<char> parameters;
  std::atomic<int64_t> next{0};
  /// The order in which clusters run. Empty if they run in the order of their
  /// indices.
  std::vector<int64_t> order;
  const int64_t count; ///< Number of clusters to run.
  /// The position in `order` of the first cluster with an error.
  std::atomic<int64_t> firstFault;
  std::mutex mutex;
  std::string message;
  /// Whether accesses of global memory are recorded, to detect races between
  /// blocks or to report the accessed ranges.
  bool recordsAccesses = false;
  /// Whether reads before griddepcontrol.wait are recorded.
  bool recordsEarlyReads = false;
  Counters total;
};
} // namespace

/// Allocates the registers of the worker's warps, and writes the kernel's
/// constants to the registers that hold constants. No instruction changes these
/// registers, so this is done only once.
void LaunchRunner::prepare(Worker &worker, std::vector<uint64_t> &registers) {
  Cluster &cluster = worker.cluster;
  worker.program = &program;
  worker.launch = &launch;
  worker.memory = &setup.memory;
  worker.parameters = parameters.data();
  worker.options = &options;
  worker.executed.resize(program.ops.size());
  worker.lastAllocation.resize(program.ops.size());
  constexpr int64_t alignment = 128;
  cluster.size = setup.cluster;
  cluster.sharedBytes = program.sharedBytes + launch.sharedBytes;
  cluster.sharedStride = (cluster.sharedBytes / alignment + 1) * alignment;
  cluster.localBytes = program.localBytes;
  cluster.numThreads = launch.block.count();
  if (program.copiesBulk && options.checks == Checks::Full)
    cluster.written = std::make_unique<GlobalWrites>();
  cluster.blocks.resize(setup.cluster.count());
  size_t warps = (cluster.numThreads + warpSize - 1) / warpSize;
  constexpr size_t line = 64;
  registers.resize(
      (program.registerBytes * warps * cluster.blocks.size() + line) / 8);
  auto start = reinterpret_cast<uintptr_t>(registers.data());
  auto *next = reinterpret_cast<char *>((start + line - 1) / line * line);
  for (Block &block : cluster.blocks) {
    block.cluster = &cluster;
    block.rank = static_cast<int>(&block - cluster.blocks.data());
    block.firstShared = block.rank * cluster.sharedStride;
    block.warps.resize(warps);
    block.local.resize(warps * warpSize * cluster.localBytes);
    if (recordsAccesses)
      block.touched = std::make_unique<AccessRecorder>(program.ops.size());
    if (recordsEarlyReads)
      block.earlyReads = std::make_unique<AccessRecorder>(program.ops.size());
    for (size_t i = 0; i < warps; ++i, next += program.registerBytes) {
      Warp &warp = block.warps[i];
      warp.index = static_cast<int>(i);
      warp.inCluster = static_cast<int>(block.rank * warps + i);
      warp.block = &block;
      warp.cluster = &cluster;
      warp.worker = &worker;
      warp.registers = next;
      for (const FixedRow &fixed : program.fixed)
        if (fixed.special.empty())
          fillRow(warp.registers + fixed.row, fixed.width, fixed.bits);
    }
  }
}

void LaunchRunner::startCluster(Worker &worker, int64_t index) {
  Cluster &cluster = worker.cluster;
  const Dim3 &size = cluster.size, &grid = launch.grid;
  Dim3 at =
      coordinatesOf(index, {grid.x / size.x, grid.y / size.y, grid.z / size.z});
  cluster.shared.reset(cluster.sharedStride,
                       static_cast<int>(cluster.blocks.size()),
                       static_cast<int>(cluster.blocks.front().warps.size()),
                       options.checks == Checks::Full);
  if (cluster.written)
    cluster.written->clear();
  cluster.barriersInMemory.clear();
  cluster.copies.clear();
  cluster.arrivals.clear();
  cluster.known[0] = cluster.known[1] = {};
  cluster.inits[0] = cluster.inits[1] = {};
  cluster.phase = 0;
  cluster.clock = 0;
  if (options.order)
    cluster.draw = RandomNumbers(*options.order, static_cast<uint64_t>(index));
  for (Block &block : cluster.blocks) {
    Dim3 in = coordinatesOf(block.rank, size);
    block.at = {at.x * size.x + in.x, at.y * size.y + in.y,
                at.z * size.z + in.z};
    startBlock(block, index);
  }
}

void LaunchRunner::startBlock(Block &block, int64_t cluster) {
  const Dim3 &grid = launch.grid, &at = block.at;
  int64_t index = at.x + grid.x * (at.y + grid.y * at.z);
  if (block.earlyReads)
    block.earlyReads->startBlock(index, cluster);
  if (block.touched) {
    block.touched->startBlock(index, cluster);
    if (block.cluster->blocks.size() == 1)
      block.touched->endClusterRaces();
  }
  std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier());
  std::fill(block.local.begin(), block.local.end(), static_cast<char>(0xff));
  block.freeRegisters = 0;
  block.isDone = false;
  block.nextBegins = NextBegins::AtEnd;
  for (Warp &warp : block.warps)
    startWarp(warp);
}

void LaunchRunner::startWarp(Warp &warp) {
  int64_t threads =
      std::min(launch.block.count() - warp.index * warpSize, warpSize);
  warp.live = threads == warpSize ? allLanes : (uint32_t(1) << threads) - 1;
  warp.active = warp.live;
  warp.pc = 0;
  warp.reconverge = noPc;
  warp.state = Warp::Running;
  warp.isEarly = launch.isProgrammatic;
  warp.paths.clear();
  warp.groups.clear();
  warp.open.clear();
  warp.numCopies = 0;
  warp.products.reset();
  warp.stores = {};
  warp.awaited = -1;
  warp.clusterArrivals = warp.clusterWaits = 0;
  warp.fenced = warp.fencedInits = warp.knownInits = {};
  // A GPU allocates registers to a thread in groups of 8, so round up.
  warp.maxRegisters = (setup.entryRegisters + 7) / 8 * 8;
  warp.registerChanges = warp.registerTime = 0;
  warp.trace = 0;
  for (const FixedRow &fixed : program.fixed) {
    if (fixed.special.empty())
      continue;
    auto value = [&](int lane) {
      return specialValue(fixed.special, launch, program, *warp.block, warp,
                          lane);
    };
    char *to = warp.registers + fixed.row;
    if (fixed.width == 1) {
      fillRow(to, 1, value(0) ? allLanes : 0);
      continue;
    }
    for (int lane = 0; lane < warpSize; ++lane)
      reinterpret_cast<uint32_t *>(to)[lane] = value(lane);
  }
  // If the kernel may read a register before it writes to it, fill the register
  // with a NaN, so that such a read gives the same result in every run.
  for (uint32_t row : program.unwritten)
    std::memset(warp.registers + row, 0xff, 64);
}

std::string describeLocation(const OpLocation &location,
                             const std::map<int64_t, std::string> &files) {
  std::string result = "line " + std::to_string(location.line);
  auto file = files.find(location.sourceFile);
  if (file != files.end())
    result +=
        " (" + file->second + ":" + std::to_string(location.sourceLine) + ")";
  return result;
}

void LaunchRunner::drawOrder() {
  if (!options.order)
    return;
  if (order.empty()) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
  }
  RandomNumbers draw(*options.order, UINT64_MAX);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[draw.below(i)]);
}

void LaunchRunner::note(int64_t turn, const Warp &warp, const Fault &fault) {
  std::lock_guard<std::mutex> lock(mutex);
  if (turn >= firstFault)
    return;
  firstFault = turn;
  const Block &block = *warp.block;
  const OpLocation &location = program.locations[warp.current];
  auto number = [](int64_t value) { return std::to_string(value); };
  message = "kernel " + program.name + ", " +
            describeLocation(location, setup.files) + ", " + location.opcode +
            ": " + fault.message + "; block (" + number(block.at.x) + ", " +
            number(block.at.y) + ", " + number(block.at.z) + "), " +
            describeThreads(warp, fault.lanes ? fault.lanes : warp.mask);
}

void LaunchRunner::work(Worker &worker) {
  std::vector<uint64_t> registers;
  prepare(worker, registers);
  // Clusters are taken in order. After an error only clusters that come before
  // the failed one still matter. So every run reports the same first error.
  for (int64_t turn = next++; turn < count && turn < firstFault;
       turn = next++) {
    startCluster(worker, order.empty() ? turn : order[turn]);
    try {
      worker.cluster.run(program);
    } catch (const Fault &fault) {
      note(turn, *worker.cluster.current, fault);
    }
    for (const Block &block : worker.cluster.blocks)
      ++worker.blocksByNext[static_cast<int>(block.nextBegins)];
  }
  for (size_t i = 0; i < program.ops.size(); ++i)
    worker.counters.instructions[static_cast<int>(program.ops[i].kind)] +=
        worker.executed[i];
  std::lock_guard<std::mutex> lock(mutex);
  total += worker.counters;
}

std::string LaunchRunner::run(Counters *counters, AccessedRanges *touched) {
  recordsAccesses = touched != nullptr || options.checks == Checks::Full;
  recordsEarlyReads = touched != nullptr && launch.isProgrammatic;
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
  std::vector<RangeAccess> raceable, others;
  for (const Worker &worker : workers)
    for (const Block &block : worker.cluster.blocks)
      if (block.touched)
        block.touched->finish(raceable, others);
  if (touched) {
    addAccesses(raceable, *touched);
    addAccesses(others, *touched);
    tellNext(workers, *touched);
  }
  if (options.checks != Checks::Full)
    return message;
  if (message.empty() &&
      std::any_of(program.ops.begin(), program.ops.end(),
                  [](const Op &op) { return op.readsConstants; })) {
    others.insert(others.end(), raceable.begin(), raceable.end());
    noteChangedConstant(others);
  }
  if (message.empty())
    noteRace(raceable);
  return message;
}

/// Tells the caller what it needs to check programmatic launches: the early
/// reads of this one, and when the next one may begin.
void LaunchRunner::tellNext(const std::vector<Worker> &workers,
                            AccessedRanges &touched) {
  std::vector<RangeAccess> reads;
  uint64_t blocksByNext[3] = {};
  for (const Worker &worker : workers) {
    for (int i = 0; i < 3; ++i)
      blocksByNext[i] += worker.blocksByNext[i];
    for (const Block &block : worker.cluster.blocks)
      if (block.earlyReads)
        block.earlyReads->finish(reads, reads);
  }
  for (const RangeAccess &read : reads)
    touched.earlyReads.push_back(
        {{read.first, read.end}, program.locations[read.by.op].line});
  std::sort(touched.earlyReads.begin(), touched.earlyReads.end(),
            [](const EarlyRead &a, const EarlyRead &b) {
              return std::tie(a.range.first, a.range.end, a.line) <
                     std::tie(b.range.first, b.range.end, b.line);
            });
  auto [atEnd, afterWait, beforeWait] = blocksByNext;
  // The next launch begins when the last block allows it.
  touched.nextBegins = afterWait + beforeWait == 0 ? NextBegins::AtEnd
                       : atEnd + afterWait > 0     ? NextBegins::AfterWait
                                                   : NextBegins::BeforeWait;
}

static const char *verbOf(AccessKind kind) {
  return !writes(kind)               ? "reads"
         : kind == AccessKind::Write ? "writes"
                                     : "changes";
}

void LaunchRunner::noteMeeting(const RangeAccess &first,
                               const RangeAccess &second,
                               const std::string &what,
                               const std::string &verb) {
  auto describe = [&](const RangeAccess &range) {
    return describeLocation(program.locations[range.by.op], setup.files);
  };
  auto name = [&](const RangeAccess &range) {
    Dim3 at = coordinatesOf(range.block, launch.grid);
    return "block (" + std::to_string(at.x) + ", " + std::to_string(at.y) +
           ", " + std::to_string(at.z) + ")";
  };
  message = "kernel " + program.name + ", " + describe(first) + ", " +
            program.locations[first.by.op].opcode + ": " + what + name(first) +
            " " + verb + " what " + name(second) + " " +
            verbOf(second.by.kind) + ", " + describe(second) + ": " +
            setup.memory.describe(std::max(first.first, second.first));
}

/// Reports bytes that a block writes although an ld.global.nc in the same
/// launch reads them. That instruction promises that the bytes it reads do not
/// change during the launch.
void LaunchRunner::noteChangedConstant(std::vector<RangeAccess> &ranges) {
  if (auto found = findChangedConstant(ranges, program.ops))
    noteMeeting(found->first, found->second, "", "reads as a constant");
}

/// Reports a race between blocks. Blocks of a launch have no order, except an
/// order that they establish themselves by atomic operations or by barriers of
/// their cluster.
void LaunchRunner::noteRace(std::vector<RangeAccess> &ranges) {
  if (auto race = findRace(ranges))
    noteMeeting(race->first, race->second,
                "race between blocks: ", verbOf(race->first.by.kind));
}

std::string runLaunch(const LaunchSetup &setup, Counters *counters,
                      AccessedRanges *touched) {
  return LaunchRunner(setup).run(counters, touched);
}

} // namespace heddle::emulator
