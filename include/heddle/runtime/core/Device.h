//===- Device.h - What runs a plan's kernels --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DEVICE_H
#define HEDDLE_RUNTIME_CORE_DEVICE_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/OffloadFile.h"
#include "heddle/runtime/io/OffloadTimes.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace heddle::rt {

/// A place in memory that a device handed out. It is no pointer: what stands
/// there is reached through the device alone.
class Address {
public:
  Address() = default;
  explicit Address(uintptr_t bits) : bits(bits) {}

  uintptr_t value() const { return bits; }
  Address operator+(int64_t bytes) const { return Address(bits + bytes); }
  int64_t operator-(Address other) const { return int64_t(bits - other.bits); }
  bool operator==(Address other) const { return bits == other.bits; }

private:
  uintptr_t bits = 0;
};

using plan::MemoryKind;
using plan::Stream;
inline constexpr size_t numStreams = std::size(plan::streams);

/// Memory to be allocated.
struct MemoryRequest {
  MemoryKind kind = MemoryKind::Device;
  int64_t bytes = 0;    ///< A multiple of the page size.
  std::string owner;    ///< Names it in the error when it cannot be had.
  bool guarded = false; ///< Accesses just before and after it fault.
  /// Of what is File: the bytes of each file, which stand one behind the
  /// other. Those that are left are of activations.
  plan::PerFile<int64_t> files{};
  /// Of what is File: says what stands at an offset; see
  /// OffloadFile::nameBytes.
  std::function<std::string(int64_t offset)> nameAt{};
};

/// A point in a stream; see Device::record.
struct Event {
  int64_t number = -1;
};

/// A kernel that a device has loaded; what it points to is the device's own.
using KernelHandle = void (*)();

/// The kernels of a plan, loaded by a device, which must outlive them.
class KernelSet {
public:
  virtual ~KernelSet() = default;
  /// The kernel of that name, or null.
  virtual KernelHandle find(const std::string &name) const = 0;
  /// The library that computes products, and how many of the kernels it does;
  /// empty when there is none.
  virtual std::string products() const { return ""; }
};

/// One launch. The tables must stay as they are until it is done.
struct KernelLaunch {
  KernelHandle kernel = nullptr;
  void *const *refs = nullptr; ///< Each from Device::resolve.
  const int64_t *scalars = nullptr;
  int64_t numRefs = 0, numScalars = 0;
  const std::string *path = nullptr; ///< The module's, for messages.
};

/// The scratch memory of a program's kernels: thread t has `stride` bytes from
/// `base + t * stride`; on a GPU a launch has all. `base` is from
/// Device::resolve.
struct Scratch {
  char *base = nullptr;
  int64_t stride = 0;
};

/// What a device can do at most, by its maker's data sheet.
struct StatedPeak {
  double flopsPerSecond = 0;
  std::string unit; ///< That does it, as "sm_90 tensor cores, bf16".
};

/// Rows that are copied; see Device::copyRows.
struct RowCopy {
  Address target, source, ids;
  int64_t rowBytes = 0;
  int64_t tableRows = 0;          ///< Of the source.
  int64_t count = 0;              ///< Of ids.
  std::optional<int64_t> first{}; ///< As io::RowChoice has it.
};

/// What a device has captured; see Device::capture.
struct CapturedWork {
  int64_t number = -1;
};

class DeviceLink;

/// Memory and what computes on it; one implementation per kind of device. All
/// calls come from one thread. What is submitted to a stream may be done at any
/// time from then on, and is done when `synchronize` returns.
class Device {
public:
  virtual ~Device() = default;
  /// How many threads a launch runs on.
  virtual int64_t threads() const = 0;

  /// What people call the hardware; empty for this machine's CPUs.
  virtual std::string model() const { return ""; }
  /// What tells the hardware from all other of this machine; empty where
  /// several ranks may have the same.
  virtual std::string serial() const { return ""; }
  /// None where it has to be measured. `precision` is a plan's.
  virtual std::optional<StatedPeak>
  statedPeak(const std::string &precision) const {
    return std::nullopt;
  }
  /// Throws when a plan cannot have that memory, before any of it is allocated.
  /// Devices that can only try do nothing.
  virtual void requireMemory(const plan::Memory &memory) {}
  /// Gets the plan::Memory::stagingBytes of a plan, if they are not there.
  virtual void stage(int64_t bytes) {}
  /// Pinned memory of the device's own, which copies go through.
  virtual int64_t stagedBytes() const { return 0; }
  /// Zeroed memory, from a page on (on a GPU from a multiple of 256 on). Throws
  /// H0292 when it cannot be had.
  virtual Address allocate(const MemoryRequest &request) = 0;
  /// Waits for all streams, then frees what begins at `address`.
  virtual void release(Address address) = 0;

  /// Loads the code of a plan's kernels, which is not kept. Throws H0384 when
  /// it is none for this device.
  virtual std::unique_ptr<KernelSet>
  load(const void *image, size_t bytes,
       const std::vector<plan::Kernel> &kernels) = 0;
  /// An address as kernels of this device take it. Nobody else may use it.
  virtual void *resolve(Address address) = 0;
  /// Where the host sees the memory from `address` on; null where it does not.
  virtual char *map(Address address) = 0;
  /// Puts bytes of an open file, from `offset` on, in the place of whole pages
  /// that the host sees: they are shared with all who map them, and what is
  /// written to them does not reach the file. `path` is named if the file loses
  /// them. False, with the pages as they were, where that cannot be had.
  virtual bool mapFile(Address address, int64_t bytes, int descriptor,
                       int64_t offset, const std::string &path) {
    return false;
  }
  /// Puts zeroed pages in the place of those.
  virtual void unmapFile(Address address, int64_t bytes) {}

  virtual void submit(Stream stream, const KernelLaunch &launch,
                      const Scratch &scratch) = 0;
  /// Writes `value` into every byte.
  virtual void fill(Stream stream, Address target, unsigned char value,
                    int64_t bytes) = 0;
  /// Between memory that is File and other memory, from the beginnings of pages
  /// on, whole pages may be copied: what stands behind the bytes in the last
  /// page is nobody's, on both sides.
  virtual void copy(Stream stream, Address target, Address source,
                    int64_t bytes) = 0;
  /// Copies the rows of a table elsewhere that ids (I32) in the device's memory
  /// name, one behind the other; bytes of ones for an id that is no row.
  virtual void copyRows(Stream stream, const RowCopy &rows) = 0;
  /// Copies from and to memory of the host, which must stay until it is done.
  virtual void copyIn(Stream stream, Address target, const void *source,
                      int64_t bytes) = 0;
  virtual void copyOut(Stream stream, void *target, Address source,
                       int64_t bytes) = 0;

  virtual Event makeEvent() = 0;
  /// The event is, from now on, the point that the stream has come to.
  virtual void record(Stream stream, Event event) = 0;
  /// What is submitted to the stream after this waits for the point that the
  /// event is now; for nothing when it was not recorded.
  virtual void wait(Stream stream, Event event) = 0;
  /// Returns when the stream has come to the point that the event is now; at
  /// once when it was not recorded.
  virtual void await(Event event) = 0;
  /// Whether the host does well to submit a step while the one before is not
  /// done.
  virtual bool runsAhead() const { return false; }
  /// Does what `submit` submits to the stream, waits for it, and says how many
  /// nanoseconds it took there. None, and nothing is done, where the host's
  /// clock is as good.
  virtual std::optional<int64_t> measure(Stream stream,
                                         const std::function<void()> &submit) {
    return std::nullopt;
  }
  /// Returns when all that was submitted to the stream is done.
  virtual void synchronize(Stream stream) = 0;
  /// What system calls have moved between files and memory that is not File;
  /// nothing where the system itself decides what is in a file.
  virtual io::OffloadTraffic offloadTraffic() const { return {}; }
  /// The times of copies from and to files that are done beside the host and
  /// the other streams, and repeated by no graph; null where there are none.
  virtual io::OffloadTimes *fileTimes() { return nullptr; }
  /// Captures what `submit` submits, instead of doing it, where that makes
  /// doing it faster; elsewhere calls nothing and returns none. The tables of
  /// launches must then stay as they are.
  virtual std::optional<CapturedWork>
  capture(const std::function<void()> &submit) {
    return std::nullopt;
  }
  /// Does it once more: after all that was submitted to any stream, and before
  /// all that will be. So its events count among themselves alone.
  virtual void repeat(CapturedWork work) {}
  /// What moves bytes between this device and those of other ranks; null where
  /// the host does. It works while the device is there; after that it can be
  /// told to abort, no more. Throws H0286 when it cannot be had.
  virtual std::shared_ptr<DeviceLink> link() { return nullptr; }
  /// `synchronize` for all streams.
  void synchronize() {
    for (Stream stream : plan::streams)
      synchronize(stream);
  }
};

/// Bytes of a device that stand together.
struct Region {
  Address begin;
  int64_t bytes = 0;
};

/// Memory of a device that is freed with this object.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(Device &device, const MemoryRequest &request)
      : device(&device), start(device.allocate(request)), bytes(request.bytes) {
  }
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory() {
    if (bytes > 0)
      device->release(start);
  }

  Address address() const { return start; }
  int64_t size() const { return bytes; }
  Region region() const { return {start, bytes}; }

private:
  Device *device = nullptr;
  Address start;
  int64_t bytes = 0;
};

/// What a plan asks for of each kind of memory, freed with this object.
class PlanMemory {
public:
  /// `files` and `nameAt` are for what is File.
  PlanMemory(Device &device, const plan::PerMemory<int64_t> &bytes,
             const std::string &owner, bool guarded,
             const plan::PerFile<int64_t> &files = {},
             std::function<std::string(int64_t offset)> nameAt = nullptr);

  const plan::PerMemory<Region> &regions() const { return all; }
  /// Of all kinds together.
  int64_t bytes() const;

private:
  std::array<std::optional<DeviceMemory>, std::size(plan::memoryKinds)> owned;
  plan::PerMemory<Region> all;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DEVICE_H
