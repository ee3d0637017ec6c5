//===- CommandList.h - A program with resolved addresses --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The commands of a plan's program, resolved for one rank: addresses instead of
// operands, loops unrolled. Session makes a list for each program and runs it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_COMMANDLIST_H
#define HEDDLE_RUNTIME_CORE_COMMANDLIST_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/Communication.h"
#include "heddle/runtime/core/Device.h"

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

namespace heddle::rt {

/// The memory regions that operands refer to.
struct Regions {
  plan::PerMemory<Region> persistent;
  plan::PerMemory<Region> arena;
};

/// The rank that runs a command list, and its communication with others.
struct Participant {
  int64_t rank = 0;
  /// The communication with other ranks; null if there is a single rank.
  Communication *communication = nullptr;
};

/// What a command list needs besides the program: the device, the loaded
/// kernels, the memory regions, and the rank.
struct Machine {
  Device &device;
  const KernelSet &kernels;
  HostMirror &host; ///< The host's access to the regions.
  Regions regions;
  Participant participant;
};

/// Describes an entry of a command list, for timings, traces and errors.
struct LaunchInfo {
  /// The command of the entry, owned by the plan.
  const plan::Command *command = nullptr;
  /// For a wait: the command that starts the awaited collective, or that
  /// records the awaited event.
  const plan::Command *awaited = nullptr;
  /// The pipeline instruction that the entry belongs to: the forward or
  /// backward pass of one micro-batch through a chunk of layers.
  struct Fragment {
    /// The pass, such as forward, and its chunk of layers; the plan owns this
    /// object. Null if the entry belongs to no pass of a pipeline.
    const plan::Fragment *kind = nullptr;
    int64_t microBatch = 0;
    /// The name in printed pipeline schedules, such as `F3/1`: the forward pass
    /// of micro-batch 3 through chunk 1. Empty if `kind` is null.
    std::string name() const {
      return kind ? kind->name(std::to_string(microBatch)) : std::string();
    }
  };
  Fragment fragment;
  /// The path of the layer whose call runs the command, owned by the plan; null
  /// outside of layers.
  const std::string *layer = nullptr;
  std::string layerPath() const { return layer ? *layer : std::string(); }
  /// The index of the kernel in the plan; -1 if the entry launches no kernel.
  int64_t kernel() const {
    const auto *launch = command->as<plan::command::Launch>();
    return launch ? launch->kernel : -1;
  }
  const std::string &path() const {
    return awaited ? awaited->path : command->path;
  }
};

/// The values of a stage's conditions in a run of a program.
using Outcomes = std::vector<bool>;

/// Start and end of an entry, in nanoseconds of the steady clock.
struct LaunchTime {
  int64_t begin = 0;
  int64_t end = 0;

  /// The time of an entry that a run has skipped.
  static LaunchTime skipped() { return {-1, 0}; }
  bool isSkipped() const { return begin < 0; }
};

/// A program as a linear list of operations for one rank: calls, loops and
/// pipeline schedules are unrolled, and operands are addresses. The list is
/// made once, and a run of it allocates nothing.
class CommandList {
public:
  /// Resolves `program` of `plan`, which must outlive the list. Throws a
  /// UserError (H0385) if the program is malformed: an operand leaves its
  /// region, a name is unknown, sequences call each other without end, or
  /// commands need communication that the participant does not have.
  CommandList(const plan::Plan &plan, const plan::Program &program,
              const Machine &machine);

  /// Submits the entries in order, and returns when all sends have been
  /// started. The device may still compute then. `outcomes` has the value of
  /// each condition of the stage; entries whose guard has another value are
  /// skipped. If `outcomes` is empty, all conditions are true.
  ///
  /// If `times` is not null, it has room for one element per entry. The run
  /// then waits for each entry before the next and records its times. Only
  /// copies from and to files still overlap with other entries. Throws what the
  /// functions of Communication throw.
  void run(Device &device, const Outcomes &outcomes = {},
           LaunchTime *times = nullptr) const;

  /// Whether asynchronous work of a run may still be active when the run ends,
  /// because the next run of this program waits for it. Before anything else
  /// uses the memory of the program, the caller must wait for the device.
  bool leavesWork() const { return carries; }

  size_t size() const { return launches.size(); }
  /// The number of calls with which a run submits its work to the device: one
  /// for each graph or parallel region, and one for each entry outside of
  /// these.
  size_t submissions() const;
  const LaunchInfo &info(size_t launch) const { return infos[launch]; }
  /// The launch of an entry that launches a kernel.
  const KernelLaunch &launch(size_t entry) const { return launches[entry]; }

private:
  friend class Resolver;
  struct Copy {
    Stream stream;
    Address target, source;
    int64_t bytes;
  };
  struct CopyRows {
    Stream stream;
    RowCopy rows;
  };
  struct Fill {
    Stream stream;
    Address target;
    int64_t bytes;
  };
  struct Record {
    Stream stream;
    Event event;
  };
  struct WaitForEvent {
    Stream stream;
    Event event;
  };
  struct Start {
    int64_t collective;
  };
  struct WaitForCollective {
    int64_t collective;
  };
  struct Send {
    int64_t channel;
    Address data;
    int64_t bytes;
  };
  struct Receive {
    int64_t channel;
    Address data;
    int64_t bytes;
  };
  struct Flush {
    int64_t channel;
    int64_t left;
  };
  /// An entry other than a launch.
  using Action = std::variant<Copy, CopyRows, Fill, Record, WaitForEvent, Start,
                              WaitForCollective, Send, Receive, Flush>;
  void act(Device &device, const Action &action) const;
  /// Consecutive entries that are submitted together.
  struct EntryGroup {
    size_t first = 0, end = 0;
    size_t firstAction = 0;
    bool ofHost = false; ///< Whether all entries need the host.
    plan::Guard guard;   ///< The guard of all entries.
    /// The group as a captured graph; nullopt: its entries are submitted one by
    /// one.
    std::optional<CapturedWork> work;
    /// Bytes that this rank's device sends to other ranks, without the host,
    /// each time this group of entries runs.
    int64_t sentBytes = 0;
  };
  /// Whether the device executes the action without the host.
  bool isOfDevice(const Action &action) const;
  /// Divides the entries into groups of consecutive entries. The device
  /// captures a group as a graph unless the group has entries that need the
  /// host.
  void capture(Device &device);
  int64_t sentByDevices() const;
  void submit(Device &device, const EntryGroup &group, LaunchTime *times) const;
  /// The stream on which the device executes an entry: a kernel, copy, fill,
  /// collective or message. Returns nullopt if the host executes it. `action`
  /// is the entry's action; null for a launch.
  std::optional<Stream> streamOf(size_t entry, const Action *action) const;
  /// Sets the times of copies from and to files, which are known only when the
  /// copies are done.
  static void timeFileCopies(Device &device, LaunchTime *times, size_t entries);
  /// Submits an entry, waits for it, and returns its times. The times are
  /// measured by the device if it has a clock and `stream` is given, otherwise
  /// by the host. For a copy from or to a file, `end` is the negative index of
  /// the transfer, from which timeFileCopies later computes the time.
  static LaunchTime measure(Device &device, std::optional<Stream> stream,
                            const std::function<void()> &submit);

  /// The launches of kernels, with one element for each entry. If an entry is
  /// an action, its element has no kernel.
  std::vector<KernelLaunch> launches;
  std::vector<Action> actions; ///< The actions, in the order of their entries.
  std::vector<EntryGroup> groups;
  std::vector<int64_t> sending; ///< The channels that the list sends on.
  std::vector<LaunchInfo> infos;
  std::vector<plan::Guard> guards; ///< One for each entry.
  std::vector<void *> refs;
  std::vector<int64_t> scalars;
  Scratch scratch;
  Communication *communication = nullptr;
  bool carries = false;
};

/// The address of a port, that is of an input, output or state of a program.
/// Throws H0385 when the bytes are not all in one region.
Address resolvePort(const plan::Port &port, const Regions &regions);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMANDLIST_H
