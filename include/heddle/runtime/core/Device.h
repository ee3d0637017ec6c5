//===- Device.h - The interface to hardware ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface to hardware: memory, streams, events and launches.
// runtime/devices/cpu and runtime/devices/cuda implement it.
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

/// An address in memory that a device allocated. It need not be a pointer: only
/// the device knows how to access the memory.
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

/// What a caller of Device::allocate asks for.
struct MemoryRequest {
  MemoryKind kind = MemoryKind::Device;
  int64_t bytes = 0; ///< The number of bytes, a multiple of the page size.
  /// The name of the memory for the error about too little memory.
  std::string owner;
  /// Whether an access just before or just after the memory raises a fault.
  bool guarded = false;
  /// For memory of the kind File: the size of each offload file. The files have
  /// consecutive ranges of addresses. The rest of the memory, after the last of
  /// them, holds activations.
  plan::PerFile<int64_t> files{};
  /// For memory of the kind File: returns what is stored at an offset, for
  /// error messages, such as `the state h.0.attn.weight`.
  std::function<std::string(int64_t offset)> nameAt{};
};

/// An event: a point in a stream; see Device::record.
struct Event {
  int64_t number = -1;
};

/// A kernel that a device has loaded. The device defines what the pointer is.
using KernelHandle = void (*)();

/// The kernels of a plan, loaded by a device. The device must outlive this
/// object.
class KernelSet {
public:
  virtual ~KernelSet() = default;
  /// The kernel of that name, or null.
  virtual KernelHandle find(const std::string &name) const = 0;
  /// Returns a sentence for the user: how many matrix products a library such
  /// as cuBLASLt computes, and how many generated kernels compute. Empty if no
  /// library is used.
  virtual std::string products() const { return ""; }
};

/// A launch of a kernel. `refs` and `scalars` must not change until it is done.
struct KernelLaunch {
  KernelHandle kernel = nullptr;
  /// The addresses of the operands, as Device::resolve returns them.
  void *const *refs = nullptr;
  const int64_t *scalars = nullptr;
  int64_t numRefs = 0, numScalars = 0;
  const std::string *path = nullptr; ///< Module path, for messages.
};

/// Scratch memory for the kernels of a program. On a CPU, thread t has `stride`
/// bytes from `base + t * stride`. On a GPU, the running launch has all of it.
/// `base` is a result of Device::resolve.
struct Scratch {
  char *base = nullptr;
  int64_t stride = 0;
};

/// The peak rate of a device, from the manufacturer's data sheet.
struct StatedPeak {
  double flopsPerSecond = 0;
  std::string unit; ///< The execution unit, such as "sm_90 tensor cores, bf16".
};

/// The operands of Device::copyRows.
struct RowCopy {
  Address target, source, ids;
  int64_t rowBytes = 0;
  int64_t tableRows = 0; ///< The number of rows of the source.
  int64_t count = 0;     ///< The number of ids.
  /// Set if the source is a shard of a larger table: the index of the shard's
  /// first row in that table. The copy then writes zeros for ids of rows that
  /// other shards have.
  std::optional<int64_t> first{};
};

/// The handle of work that Device::capture has recorded. Device::repeat runs
/// this work.
struct CapturedWork {
  int64_t number = -1;
};

/// Numbers in a device's memory.
struct NumberRange {
  Address begin;
  plan::DType type = plan::DType::F32; ///< F32, BF16 or F16.
  int64_t count = 0;
};

/// Looks for infinite and NaN numbers in a list of ranges, on the device, so
/// that the host need not wait. The device must outlive this object.
class NonfiniteSearch {
public:
  virtual ~NonfiniteSearch() = default;
  /// Submits a search to the stream Compute. It reads the ranges only if the
  /// F32 at `condition` is infinite or NaN.
  virtual void submit(Address condition) = 0;
  /// The address of the result, an I32 in the memory Device: 1 plus the index
  /// of the last range with an infinite or NaN number; 0 if there is none, or
  /// if `condition` was finite.
  virtual Address result() const = 0;
};

class DeviceLink;

/// A device: memory, and the processors that compute on it. All calls come from
/// one thread. Work that is submitted to a stream may run at any later time,
/// and has run when `synchronize` returns.
class Device {
public:
  virtual ~Device() = default;
  /// The number of host threads that share the work of a launch; 1 on a GPU.
  virtual int64_t threads() const = 0;

  /// The name of the hardware; empty for this machine's CPUs.
  virtual std::string model() const { return ""; }
  /// A name that identifies this device among all devices of the machine; empty
  /// if several ranks may share the device.
  virtual std::string serial() const { return ""; }
  /// The peak rate of the device for computation in `precision`; nullopt if the
  /// rate must be measured.
  virtual std::optional<StatedPeak>
  statedPeak(const std::string &precision) const {
    return std::nullopt;
  }
  /// The free bytes of the device's own memory; nullopt if it has none.
  virtual std::optional<int64_t> freeBytes() const { return std::nullopt; }
  /// Throws, before any memory is allocated, if the device's own memory is too
  /// small for the selected stage of a plan.
  virtual void requireMemory(const plan::Plan &plan) {}
  /// Allocates the device's pinned buffers for copies, at most `bytes` bytes
  /// (plan::Memory::stagingBytes). Does nothing if the device has them already.
  virtual void stage(int64_t bytes) {}
  /// Bytes of the device's own pinned memory for copies.
  virtual int64_t stagedBytes() const { return 0; }
  /// Allocates zeroed memory, aligned to a page (on a GPU to 256 bytes). Throws
  /// H0292 if there is too little memory.
  virtual Address allocate(const MemoryRequest &request) = 0;
  /// Waits for all streams, then frees the memory at `address`.
  virtual void release(Address address) = 0;

  /// Loads the code of a plan's kernels; the bytes may be freed afterwards.
  /// Throws H0384 when the code is not for this device.
  virtual std::unique_ptr<KernelSet>
  load(const void *image, size_t bytes,
       const std::vector<plan::Kernel> &kernels) = 0;
  /// The address in the form that this device's kernels take.
  virtual void *resolve(Address address) = 0;
  /// A host pointer to the memory at `address`; null if the host cannot access
  /// it.
  virtual char *map(Address address) = 0;
  /// Maps bytes of an open file, from `offset` on, in place of whole pages that
  /// the host can access. All processes that map the same bytes share the
  /// physical memory. Writes do not reach the file. `path` appears in the error
  /// if the file is truncated later. Returns false, and leaves the pages
  /// unchanged, if the device cannot do this.
  virtual bool mapFile(Address address, int64_t bytes, int descriptor,
                       int64_t offset, const std::string &path) {
    return false;
  }
  /// Replaces the pages of a range that `mapFile` has mapped by zeroed ones.
  virtual void unmapFile(Address address, int64_t bytes) {}

  virtual void submit(Stream stream, const KernelLaunch &launch,
                      const Scratch &scratch) = 0;
  /// Sets every byte to `value`.
  virtual void fill(Stream stream, Address target, unsigned char value,
                    int64_t bytes) = 0;
  /// Copies bytes. If the source or target is in an offload file (memory of the
  /// kind File) and both begin at a page, the device may copy whole pages.
  /// Therefore the rest of the last page must be unused in both.
  virtual void copy(Stream stream, Address target, Address source,
                    int64_t bytes) = 0;
  /// Copies the rows of a table that ids (I32) select. The table may be in
  /// another kind of memory; the ids are in the device's memory. If an id is
  /// outside of the table, all bytes of its row become 0xff.
  virtual void copyRows(Stream stream, const RowCopy &rows) = 0;
  /// Copies bytes from host memory to the device (`copyIn`) or back
  /// (`copyOut`). The host memory must stay valid until the copy is done.
  virtual void copyIn(Stream stream, Address target, const void *source,
                      int64_t bytes) = 0;
  virtual void copyOut(Stream stream, void *target, Address source,
                       int64_t bytes) = 0;

  /// Prepares searches of these ranges, which must be in the memory Device.
  /// Returns null if the host can access that memory: it then searches itself.
  virtual std::unique_ptr<NonfiniteSearch>
  searchNonfinite(const std::vector<NumberRange> &ranges) {
    return nullptr;
  }

  virtual Event makeEvent() = 0;
  /// Records the current point of the stream as the event.
  virtual void record(Stream stream, Event event) = 0;
  /// Lets the stream wait for the recorded point of the event. It does not wait
  /// for an event that was never recorded.
  virtual void wait(Stream stream, Event event) = 0;
  /// Lets the host wait for the recorded point of the event; returns at once if
  /// the event was never recorded.
  virtual void await(Event event) = 0;
  /// Whether it is useful to submit a step before the previous one is done.
  virtual bool runsAhead() const { return false; }
  /// Calls `submit`, which submits work to the stream, waits for the work, and
  /// returns how many nanoseconds it took on the device. If the device's clock
  /// is no better than the host's, returns nullopt without calling `submit`.
  virtual std::optional<int64_t> measure(Stream stream,
                                         const std::function<void()> &submit) {
    return std::nullopt;
  }
  /// Waits until everything submitted to the stream is done.
  virtual void synchronize(Stream stream) = 0;
  /// How many bytes were read from and written to offload files by system
  /// calls. Zero if the files are mapped, since no system call then moves their
  /// bytes.
  virtual io::OffloadTraffic offloadTraffic() const { return {}; }
  /// The times of those copies from and to files that run asynchronously and
  /// are in no graph; null if there are no such copies.
  virtual io::OffloadTimes *fileTimes() { return nullptr; }
  /// Calls `submit` and captures the work that it submits as a graph, if the
  /// device supports graphs. Captured work does not run until `repeat`. The
  /// operands of its launches must not change any more. A device without graphs
  /// does not call `submit` and returns nullopt.
  virtual std::optional<CapturedWork>
  capture(const std::function<void()> &submit) {
    return std::nullopt;
  }
  /// Runs captured work after all work that was submitted to any stream before,
  /// and before all work that is submitted later. Events inside of the captured
  /// work order nothing outside of it.
  virtual void repeat(CapturedWork work) {}
  /// The connection to devices of other ranks (NCCL); null if the host
  /// transports data. After the device is destroyed, only `abort` may be
  /// called. Throws H0286 if the connection is impossible.
  virtual std::shared_ptr<DeviceLink> link() { return nullptr; }
  /// Waits for all streams.
  void synchronize() {
    for (Stream stream : plan::streams)
      synchronize(stream);
  }
};

/// Consecutive bytes of a device's memory.
struct Region {
  Address begin;
  int64_t bytes = 0;
};

/// A block of a device's memory. The block is freed with this object.
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

/// The memory that a plan asks for: one block in each kind of memory, such as
/// Device, Host or File. It is freed with this object.
class PlanMemory {
public:
  /// `files` and `nameAt` are as in MemoryRequest, for memory of the kind File.
  PlanMemory(Device &device, const plan::PerMemory<int64_t> &bytes,
             const std::string &owner, bool guarded,
             const plan::PerFile<int64_t> &files = {},
             std::function<std::string(int64_t offset)> nameAt = nullptr);

  const plan::PerMemory<Region> &regions() const { return all; }
  /// The sum over all kinds.
  int64_t bytes() const;

private:
  std::array<std::optional<DeviceMemory>, std::size(plan::memoryKinds)> owned;
  plan::PerMemory<Region> all;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DEVICE_H
