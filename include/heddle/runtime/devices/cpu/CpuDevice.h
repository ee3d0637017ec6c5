//===- CpuDevice.h - Kernels on the cores of this machine -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The host itself: its memory of every kind but File is the host's, and work
/// is done, on all threads of a pool, when its submission returns. Copies from
/// and to files on the streams Copy and Store alone are done beside it. What is
/// captured is one parallel region.
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
  /// Does it now, or captures it.
  void perform(const CpuWork &work);
  /// The block that holds an address, with what it begins at.
  std::pair<const uintptr_t, Arena> &blockOf(Address address);
  void await(const io::OffloadPoint &point);
  /// Returns when nothing is on its way from or to a file with these bytes.
  void awaitTransfers(const char *memory, int64_t bytes);

  /// What is on its way to or from memory, as far as is known.
  struct Transfer {
    const char *memory;
    int64_t bytes;
    io::OffloadPoint point;
  };

  ThreadPool &pool;
  std::map<uintptr_t, Arena> blocks; ///< By where they begin.
  io::OffloadTimes times; ///< Is there as long as the thread of what swaps.
  OffloadMemory swap;
  std::vector<io::OffloadPoint> points; ///< Of each event: what to wait for.
  /// What the streams Copy and Store have begun and wait for, which the host
  /// does not.
  std::array<io::OffloadPoint, numStreams> known;
  std::vector<Transfer> transfers;
  std::vector<std::vector<CpuWork>> captured;
  std::vector<CpuWork> *capturing = nullptr; ///< Null: work is done at once.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_CPUDEVICE_H
