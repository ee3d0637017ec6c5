//===- CpuDevice.h - The device that is this machine's CPU ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rt::Device for x86-64 binaries. Kernels run on threads of this process,
// and all memory except offload files is memory of this process.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/core/OffloadMemory.h"
#include "heddle/runtime/devices/cpu/ParallelRegion.h"

#include <map>

namespace heddle::rt {

/// The device of a binary without a GPU: the host itself. All kinds of memory
/// except File are host memory. All threads of a pool perform submitted work
/// together, before the submission returns. Only transfers between memory and
/// files are asynchronous, and only on the streams Copy and Store. Captured
/// work becomes one parallel region, which starts the threads once.
class CpuDevice : public Device {
public:
  explicit CpuDevice(ThreadPool &pool, const OffloadOptions &swap = {})
      : pool(pool), swap(swap) {}

  int64_t threads() const override { return pool.threads(); }
  Address allocate(const MemoryRequest &request) override;
  void release(Address address) override;
  std::unique_ptr<KernelSet> load(const void *image, size_t bytes,
                                  const std::vector<plan::Kernel> &) override;
  void *resolve(Address address) override { return map(address); }
  char *map(Address address) override {
    return swap.holds(address) ? nullptr
                               : reinterpret_cast<char *>(address.value());
  }
  bool mapFile(Address address, int64_t bytes, int descriptor, int64_t offset,
               const std::string &path) override;
  void unmapFile(Address address, int64_t bytes) override;

  void submit(Stream stream, const KernelLaunch &launch,
              const Scratch &scratch) override;
  void fill(Stream stream, Address target, unsigned char value,
            int64_t bytes) override;
  void copy(Stream stream, Address target, Address source,
            int64_t bytes) override;
  void copyRows(Stream stream, const RowCopy &rows) override;
  void copyIn(Stream stream, Address target, const void *source,
              int64_t bytes) override;
  void copyOut(Stream stream, void *target, Address source,
               int64_t bytes) override;

  Event makeEvent() override;
  void record(Stream stream, Event event) override;
  void wait(Stream stream, Event event) override;
  void await(Event event) override { await(points[event.number]); }
  void synchronize(Stream stream) override;
  using Device::synchronize;
  std::optional<CapturedWork>
  capture(const std::function<void()> &submit) override;
  void repeat(CapturedWork work) override;
  io::OffloadTraffic offloadTraffic() const override { return swap.traffic(); }
  io::OffloadTimes *fileTimes() override {
    return swap.isUsed() ? &times : nullptr;
  }

private:
  /// Performs the work at once; while work is captured, records it instead.
  void perform(const CpuWork &work);
  /// Returns the memory block that contains an address, and the address at
  /// which the block begins.
  std::pair<const uintptr_t, Arena> &blockOf(Address address);
  void await(const io::OffloadPoint &point);
  /// Waits until no transfer between a file and these bytes is running.
  void awaitTransfers(const char *memory, int64_t bytes);

  /// A transfer between memory and a file that may still be running.
  struct Transfer {
    const char *memory;
    int64_t bytes;
    io::OffloadPoint point;
  };

  ThreadPool &pool;
  std::map<uintptr_t, Arena> blocks; ///< Blocks by their first address.
  io::OffloadTimes times; ///< Declared before `swap`, whose thread uses it
                          ///< until it ends.
  OffloadMemory swap;
  std::vector<io::OffloadPoint> points; ///< Transfers that each event awaits.
  /// For each stream, the transfers between memory and files that the host has
  /// not awaited yet: those that the stream has started, and those on which the
  /// stream depends through events.
  std::array<io::OffloadPoint, numStreams> known;
  std::vector<Transfer> transfers;
  std::vector<std::vector<CpuWork>> captured;
  std::vector<CpuWork> *capturing = nullptr; ///< Null: work is performed
                                             ///< immediately.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H
