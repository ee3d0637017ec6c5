//===- SeparateDevice.h - A test device with memory of its own --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device for tests that finds missing copies and missing synchronization
// without a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_SEPARATE_SEPARATEDEVICE_H
#define HEDDLE_RUNTIME_DEVICES_SEPARATE_SEPARATEDEVICE_H

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"

#include <array>
#include <deque>
#include <map>
#include <random>

namespace heddle::rt {

/// Computes on the host's cores like CpuDevice, but behaves like a GPU with
/// memory of its own. Dereferencing one of its addresses faults, since the
/// bytes are at another address. Most submitted work waits until the host
/// synchronizes. Then the streams advance in an order that `seed` determines. A
/// missing copy or event therefore changes results.
class SeparateDevice : public Device {
public:
  SeparateDevice(ThreadPool &pool, uint64_t seed);
  ~SeparateDevice() override;

  int64_t threads() const override { return cpu.threads(); }
  Address allocate(const MemoryRequest &request) override;
  void release(Address address) override;
  std::unique_ptr<KernelSet>
  load(const void *image, size_t bytes,
       const std::vector<plan::Kernel> &kernels) override {
    return cpu.load(image, bytes, kernels);
  }
  void *resolve(Address address) override { return bytesAt(address, 0); }
  char *map(Address address) override;

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
  void await(Event event) override;
  void synchronize(Stream stream) override;
  using Device::synchronize;

private:
  /// An allocation.
  struct Block {
    Arena bytes;
    /// The host cannot access memory of some kinds. For such memory the device
    /// returns addresses of an inaccessible range, and this is the size of that
    /// range. 0 if the host may access the memory: the device then returns the
    /// addresses of the bytes themselves.
    int64_t reserved = 0;
  };
  struct Work {
    enum class Kind {
      Launch,
      Copy,
      CopyRows,
      Fill,
      Record,
      Wait
    } kind = Kind::Launch;
    KernelLaunch launch;
    Scratch scratch;
    char *target = nullptr;
    const char *source = nullptr;
    unsigned char value = 0;
    int64_t bytes = 0;
    io::RowChoice choice; ///< For CopyRows: the rows to copy.
    Event event;
    int64_t time = 0; ///< For Record and Wait: index of the recording.
  };
  /// For each event: how often a recording of it was submitted, and how often a
  /// stream has reached a recording.
  struct Times {
    int64_t submitted = 0, done = 0;
  };

  /// Returns the last block that begins at or before the address; null if there
  /// is none.
  const std::pair<const uintptr_t, Block> *blockAt(Address address) const;
  /// Returns the address in host memory of the `bytes` bytes at the device's
  /// address `address`. Throws H0412 if they are not all in one allocation.
  char *bytesAt(Address address, int64_t bytes) const;
  std::deque<Work> &queue(Stream stream) { return queues[size_t(stream)]; }
  void add(Stream stream, const Work &work);
  void addCopy(Stream stream, char *target, const char *source, int64_t bytes);
  bool isReady(const std::deque<Work> &queue) const;
  /// Performs the next work of one stream. The seed decides which stream.
  void advance();
  void perform(const Work &work);

  CpuDevice cpu;
  std::mt19937_64 random;
  std::map<uintptr_t, Block> blocks; ///< Blocks by device address.
  std::array<std::deque<Work>, numStreams> queues;
  std::vector<Times> events;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_SEPARATE_SEPARATEDEVICE_H
