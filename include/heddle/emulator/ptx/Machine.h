//===- Machine.h - Executes PTX on the CPU ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses PTX and executes it on the host's cores, from the same text that a
// driver would get. One warp is executed at a time, on vectors of 32 lanes. An
// instruction that the machine does not know is an error that names the line.
// An access whose result a GPU would leave undefined is an error, too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_MACHINE_H
#define HEDDLE_EMULATOR_PTX_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::emulator {

/// Number of lanes in a warp.
constexpr int64_t warpSize = 32;

/// Sizes or coordinates along x, y and z.
struct Dim3 {
  int64_t x = 1, y = 1, z = 1;

  int64_t count() const { return x * y * z; }
};

enum class Checks {
  Light, ///< Checks addresses, alignment, barriers, limits.
  Full   ///< Also races, and reads of unwritten shared memory.
};

/// Settings of the machine.
struct Options {
  Checks checks = Checks::Full;
  bool counts = false;      ///< Whether to fill `Counters`.
  uint64_t approximate = 0; ///< Seed for the errors of approximate functions.
  unsigned threads = 0;     ///< Host threads; 0: one for each core.
  /// Seed for a random order of blocks and warps, and for the number of
  /// instructions that a warp executes in one turn. If not set, blocks and
  /// warps run in order, each as far as it can.
  std::optional<uint64_t> order;

  /// The options that HEDDLE_EMULATE_CHECK (full or light) and
  /// HEDDLE_EMULATE_APPROX (a number) choose.
  static Options fromEnvironment();
  /// Returns an error message if HEDDLE_EMULATE_CHECK or HEDDLE_EMULATE_APPROX
  /// has a wrong value, else an empty string.
  static std::string problemOfEnvironment();
};

/// Limits of a chip.
struct Limits {
  int64_t sharedBytes = 0; ///< Of a block, dynamic shared memory included.
  int64_t registers = 255; ///< Of a thread.
  int64_t blockRegisters = 65536;
  int64_t threads = 1024;    ///< Of a block.
  int64_t clusterBlocks = 1; ///< Of a cluster; more than 8 are not portable.

  /// The limits of `chip`: sm_80 or sm_90. A module for another chip is refused
  /// when it is loaded.
  static Limits of(std::string_view chip);
};

/// Registers that the chip allocates for a block of `threads` threads with
/// `ofThread` registers each.
int64_t registersOfBlock(int64_t ofThread, int64_t threads);

/// The allocations of device memory. Addresses outside of them are invalid.
class GlobalMemory {
public:
  struct Allocation {
    uint64_t address = 0;
    uint64_t bytes = 0;
    char *host = nullptr;
    std::string name;
  };

  /// Adds an allocation: `bytes` at `host`, which have the device address
  /// `address`.
  void add(std::string name, uint64_t address, void *host, uint64_t bytes);
  /// Adds an allocation whose device address equals its host address.
  void add(std::string name, void *host, uint64_t bytes) {
    add(std::move(name), reinterpret_cast<uint64_t>(host), host, bytes);
  }

  /// The allocation that contains all of [first, end), or null.
  const Allocation *find(uint64_t first, uint64_t end) const;
  /// Says in words which allocation contains `address`.
  std::string describe(uint64_t address) const;

private:
  std::vector<Allocation> allocations; ///< Sorted by address.
};

/// Kinds of instructions.
enum class Class { Integer, Float, Move, Memory, Control, Tensor, Warp, Async };
constexpr int numClasses = 8;
const char *nameOf(Class kind);

/// Exact counts of what a launch executed.
struct Counters {
  uint64_t instructions[numClasses] = {}; ///< Executed by warps, by class.
  uint64_t tensorOperations = 0;          ///< Multiplications and additions.
  /// Accesses of global memory. A request is an instruction of a warp, and a
  /// sector has 32 bytes. If several lanes of a request access the same bytes,
  /// these count once.
  uint64_t globalRequests = 0, globalSectors = 0, globalBytes = 0;
  uint64_t sharedWavefronts = 0; ///< Passes over the banks of shared memory.
  uint64_t idealWavefronts = 0;  ///< The passes without bank conflicts.

  Counters &operator+=(const Counters &other);
};

/// A range of addresses in global memory; `end` is exclusive.
struct ByteRange {
  uint64_t first = 0, end = 0;
};

/// Sorts ranges, and merges those that overlap or touch.
void mergeRanges(std::vector<ByteRange> &ranges);

/// When a launch lets a programmatic launch after it begin.
enum class NextBegins {
  /// When the launch has ended, because no block executes
  /// griddepcontrol.launch_dependents.
  AtEnd,
  /// When each block has executed griddepcontrol.launch_dependents or ended. By
  /// then a warp of the launch has executed griddepcontrol.wait, so that the
  /// kernels before the launch have ended.
  AfterWait,
  /// When each block has executed griddepcontrol.launch_dependents, but maybe
  /// no warp griddepcontrol.wait, so that the kernels before the launch may
  /// still be running.
  BeforeWait
};

/// A range that a warp read before griddepcontrol.wait, and the line in the PTX
/// of the instruction that read it.
struct EarlyRead {
  ByteRange range;
  int64_t line = 0;
};

/// The ranges of global memory that a launch read and wrote, sorted and
/// disjoint. Atomic operations count as writes.
struct AccessedRanges {
  std::vector<ByteRange> reads, writes;
  /// If the launch is programmatic: the reads before griddepcontrol.wait, in
  /// the order of their addresses. They are in `reads`, too.
  std::vector<EarlyRead> earlyReads;
  NextBegins nextBegins = NextBegins::AtEnd;
};

/// A kernel launch.
struct Launch {
  std::string kernel;
  Dim3 grid, block;
  /// The number of blocks in a cluster in each dimension. If not set, the size
  /// that the kernel declares is used, or else one block.
  std::optional<Dim3> cluster;
  int64_t sharedBytes = 0; ///< Dynamic shared memory.
  /// Whether the launch may begin before the kernels before it have ended. Then
  /// each warp must execute griddepcontrol.wait, and must not change global
  /// memory before.
  bool isProgrammatic = false;
  /// Pointers to the values of the kernel's parameters, each of its declared
  /// size.
  std::vector<const void *> arguments;
  /// Linear indices of the blocks to run, where x varies fastest. If empty, all
  /// blocks of the grid run.
  std::vector<int64_t> blocks;
};

/// Facts about a kernel that a launch needs.
struct KernelInfo {
  std::vector<int64_t> parameterBytes; ///< Of each parameter.
  int64_t sharedBytes = 0;             ///< Without dynamic shared memory.
  int64_t localBytes = 0;              ///< Of a thread.
  /// Registers of a thread: as many as are live at once, but no more than the
  /// PTX allows.
  int64_t registers = 0;
  int64_t maxThreads = 0; ///< Of a block.
  /// The cluster size that the PTX requires (.reqnctapercluster), and the
  /// largest number of blocks that it allows (.maxclusterrank). 0 if not
  /// stated.
  int64_t cluster[3] = {0, 0, 0};
  int64_t maxClusterBlocks = 0;
};

struct ModuleImage;

/// A PTX module, parsed and ready to run.
class Module {
public:
  /// Loads a module. On an error it returns null, and `error` says what is
  /// wrong with which line.
  static std::unique_ptr<Module> load(std::string_view text,
                                      std::string &error);
  ~Module();

  std::vector<std::string> kernels() const;
  /// Returns the facts about `kernel`, or nothing if the module has no such
  /// kernel.
  std::optional<KernelInfo> info(const std::string &kernel) const;
  /// The module's PTX version, as "8.0", and target, as "sm_90".
  const std::string &version() const;
  const std::string &target() const;

  /// Runs the blocks of a launch. Adds what they executed to `counters`, and
  /// the memory that they accessed to `touched`, where these are not null.
  /// Returns an error message, or an empty string.
  std::string run(const Launch &launch, const GlobalMemory &memory,
                  const Options &options, Counters *counters = nullptr,
                  AccessedRanges *touched = nullptr) const;

private:
  Module();

  std::unique_ptr<ModuleImage> image;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_MACHINE_H
