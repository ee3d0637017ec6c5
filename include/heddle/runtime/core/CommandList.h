//===- CommandList.h - A program with every address resolved ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The regions that a plan's operands stand in.
struct Regions {
  plan::PerMemory<Region> persistent;
  plan::PerMemory<Region> arena;
};

/// Which rank a command list is for, and how that rank talks to the others.
struct Participant {
  int64_t rank = 0;
  Communication *communication = nullptr; ///< Null: it talks to nobody.
};

/// What the programs of a plan run on.
struct Machine {
  Device &device;
  const KernelSet &kernels;
  HostMirror &host; ///< Of the regions.
  Regions regions;
  Participant participant;
};

/// What an entry of a command list is, for timings, traces and errors.
struct LaunchInfo {
  const plan::Command *command = nullptr; ///< The plan owns it.
  /// What a wait is for: a collective, or a record.
  const plan::Command *awaited = nullptr;
  /// The pipeline fragment that the entry belongs to.
  struct Fragment {
    /// Null outside of fragments. The plan owns it.
    const plan::Fragment *kind = nullptr;
    int64_t microBatch = 0;
    /// As schedules are written: `F3/1`; empty outside of fragments.
    std::string name() const {
      return kind ? kind->name(std::to_string(microBatch)) : std::string();
    }
  };
  Fragment fragment;
  /// The kernel's number in the plan; -1 when the entry is no kernel's launch.
  int64_t kernel() const {
    const auto *launch = command->as<plan::command::Launch>();
    return launch ? launch->kernel : -1;
  }
  const std::string &path() const {
    return awaited ? awaited->path : command->path;
  }
};

/// Start and end of one entry, in nanoseconds of the steady clock.
struct LaunchTime {
  int64_t begin = 0;
  int64_t end = 0;
};

/// The flat form of a program for one rank: calls, loops and fragments
/// unrolled, operands turned into addresses. It is made once; running it
/// allocates nothing.
class CommandList {
public:
  /// Resolves `program` of `plan`, which must outlive the list. Throws a
  /// UserError (H0385) when an operand leaves its region, a name is unknown,
  /// sequences call each other without end, or ranks are spoken to by a
  /// participant that has no communication.
  CommandList(const plan::Plan &plan, const plan::Program &program,
              const Machine &machine);

  /// Submits every entry in order, and returns when all that was sent is on its
  /// way; the device may still compute. With `times`, which then has room for
  /// as many, waits for each entry and notes when it began and ended; but
  /// copies from and to files go on beside the others, as they do without.
  /// Throws what the communication throws.
  void run(Device &device, LaunchTime *times = nullptr) const;

  /// Whether a run leaves work to the next one: what does not know of it, as
  /// another program, has to wait for all that the device does.
  bool leavesWork() const { return carries; }

  size_t size() const { return launches.size(); }
  /// How many times the device is told to do something in a run: parallel
  /// regions or graphs, and entries of its own that are in none.
  size_t submissions() const;
  const LaunchInfo &info(size_t launch) const { return infos[launch]; }
  /// What an entry that is a kernel's launch hands to the device.
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
  /// An entry that is no launch.
  using Action = std::variant<Copy, CopyRows, Fill, Record, WaitForEvent, Start,
                              WaitForCollective, Send, Receive, Flush>;
  void act(Device &device, const Action &action) const;
  /// Entries that are submitted in one go.
  struct EntryGroup {
    size_t first = 0, end = 0;
    size_t firstAction = 0;
    bool ofHost = false; ///< The device does none of them by itself.
    std::optional<CapturedWork> work; ///< None: the entries one by one.
    int64_t sentBytes = 0; ///< By devices, each time that it is done.
  };
  /// Whether the device does it without the host.
  bool isOfDevice(const Action &action) const;
  /// Divides the entries into parts that the device captures, and others.
  void capture(Device &device);
  int64_t sentByDevices() const;
  void submit(Device &device, const EntryGroup &group, LaunchTime *times) const;
  /// On which stream a device does it, if it does: kernels, copies and fills,
  /// collectives and what comes in messages. `action` is that of an entry that
  /// is no launch.
  std::optional<Stream> streamOf(size_t entry, const Action *action) const;
  /// Notes when copies from and to files were under way.
  static void timeFileCopies(Device &device, LaunchTime *times, size_t entries);
  /// Submits an entry, waits for it, and says when it was done: the device's
  /// own time, where it has a clock and `stream` is given. Of a copy from or to
  /// a file that has begun `end` is its number, negative.
  static LaunchTime measure(Device &device, std::optional<Stream> stream,
                            const std::function<void()> &submit);

  /// Every entry; those of `actions` have no kernel.
  std::vector<KernelLaunch> launches;
  std::vector<Action> actions; ///< In the order of their entries.
  std::vector<EntryGroup> groups;
  std::vector<int64_t> sending; ///< The channels that something is sent on.
  std::vector<LaunchInfo> infos;
  std::vector<void *> refs;
  std::vector<int64_t> scalars;
  Scratch scratch;
  Communication *communication = nullptr;
  bool carries = false;
};

/// The address and size of an operand that stands in no sequence's arguments,
/// such as a port's. Throws H0385 when it leaves its region.
Address resolvePort(const plan::Port &port, const Regions &regions);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMANDLIST_H
