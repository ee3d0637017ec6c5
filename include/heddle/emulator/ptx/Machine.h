//===- Machine.h - GPU kernels without a GPU --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the text of PTX and executes it on the cores of the host: what a
// driver would be given is what runs. A warp is executed at a time, on vectors
// of 32 lanes. What the machine does not know is an error that names the line;
// so is what a GPU would leave undefined.
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

/// Lanes of a warp.
constexpr int64_t warpSize = 32;

/// Sizes or coordinates along x, y and z.
struct Dim3 {
  int64_t x = 1, y = 1, z = 1;

  int64_t count() const { return x * y * z; }
};

enum class Checks {
  Light, ///< Addresses, alignment, barriers, limits.
  Full   ///< Also races, and reads of shared memory that nobody wrote.
};

/// How the machine works.
struct Options {
  Checks checks = Checks::Full;
  bool counts = false;      ///< Fill `Counters`.
  uint64_t approximate = 0; ///< How approximate functions err.
  unsigned threads = 0;     ///< Of the host; 0: one a core.
  /// Chooses which block and which warp comes next, and how far a warp goes
  /// before another's turn. None: each in its order, as far as it can.
  std::optional<uint64_t> order;

  /// As HEDDLE_EMULATE_CHECK (full or light) and HEDDLE_EMULATE_APPROX (a
  /// number) say.
  static Options fromEnvironment();
  /// What is wrong with these variables; empty when nothing is.
  static std::string problemOfEnvironment();
};

/// What a chip can take.
struct Limits {
  int64_t sharedBytes = 0; ///< Of a block, with what the launch asks for.
  int64_t registers = 255; ///< Of a thread.
  int64_t blockRegisters = 65536;
  int64_t threads = 1024;    ///< Of a block.
  int64_t clusterBlocks = 1; ///< Of a cluster; more than 8 are not portable.

  /// Of sm_80 and sm_90; others are refused when a module is loaded.
  static Limits of(std::string_view chip);
};

/// Registers that a block takes whose threads have so many each.
int64_t registersOfBlock(int64_t ofThread, int64_t threads);

/// Device memory in allocations: whatever lies outside is no address.
class GlobalMemory {
public:
  struct Allocation {
    uint64_t address = 0;
    uint64_t bytes = 0;
    char *host = nullptr;
    std::string name;
  };

  /// Makes `bytes` at `host` known as `address` on the device.
  void add(std::string name, uint64_t address, void *host, uint64_t bytes);
  /// The same, at the address that the memory has on the host.
  void add(std::string name, void *host, uint64_t bytes) {
    add(std::move(name), reinterpret_cast<uint64_t>(host), host, bytes);
  }

  /// The allocation that holds all of [first, end), or null.
  const Allocation *find(uint64_t first, uint64_t end) const;
  /// Says in words where `address` lies.
  std::string describe(uint64_t address) const;

private:
  std::vector<Allocation> allocations; ///< By address.
};

/// Kinds of instructions.
enum class Class { Integer, Float, Move, Memory, Control, Tensor, Warp, Async };
constexpr int numClasses = 8;
const char *nameOf(Class kind);

/// What a launch did, counted exactly.
struct Counters {
  uint64_t instructions[numClasses] = {}; ///< Of warps.
  uint64_t tensorOperations = 0;          ///< Multiplications and additions.
  /// Of global memory. A request of a warp has those bytes once that several
  /// lanes ask for.
  uint64_t globalRequests = 0, globalSectors = 0, globalBytes = 0;
  uint64_t sharedWavefronts = 0; ///< Passes over the banks.
  uint64_t idealWavefronts = 0;  ///< If no two lanes met in a bank.

  Counters &operator+=(const Counters &other);
};

/// Bytes of global memory, from one address to before another.
struct ByteRange {
  uint64_t first = 0, end = 0;
};

/// What a launch read and wrote in global memory; atomic operations write. In
/// order, without ranges that meet.
struct AccessedRanges {
  std::vector<ByteRange> reads, writes;
};

/// One launch.
struct Launch {
  std::string kernel;
  Dim3 grid, block;
  /// Blocks of a cluster; none: as the kernel says, or one.
  std::optional<Dim3> cluster;
  int64_t sharedBytes = 0; ///< Beyond what the kernel declares.
  /// The values of the kernel's parameters, each of the size it declares.
  std::vector<const void *> arguments;
  /// The blocks of the grid that run, by number, x first; empty: all.
  std::vector<int64_t> blocks;
};

/// What a launch has to know of a kernel.
struct KernelInfo {
  std::vector<int64_t> parameterBytes; ///< Of each parameter.
  int64_t sharedBytes = 0;             ///< Without what a launch adds.
  int64_t localBytes = 0;              ///< Of a thread.
  /// Of a thread: those that live at once at most, if the text allows them.
  int64_t registers = 0;
  int64_t maxThreads = 0; ///< Of a block.
  /// Blocks of a cluster that the text requires, and allows; 0: it says
  /// nothing.
  int64_t cluster[3] = {0, 0, 0};
  int64_t maxClusterBlocks = 0;
};

struct ModuleImage;

/// A text of PTX, ready to run.
class Module {
public:
  /// Null, and what is wrong with which line in `error`.
  static std::unique_ptr<Module> load(std::string_view text,
                                      std::string &error);
  ~Module();

  std::vector<std::string> kernels() const;
  /// None when there is no kernel of that name.
  std::optional<KernelInfo> info(const std::string &kernel) const;
  /// As "8.0" and "sm_90".
  const std::string &version() const;
  const std::string &target() const;

  /// Runs the blocks of a launch; returns what went wrong, or an empty
  /// string. Adds to `counters` and `touched`.
  std::string run(const Launch &launch, const GlobalMemory &memory,
                  const Options &options, Counters *counters = nullptr,
                  AccessedRanges *touched = nullptr) const;

private:
  Module();

  std::unique_ptr<ModuleImage> image;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_MACHINE_H
