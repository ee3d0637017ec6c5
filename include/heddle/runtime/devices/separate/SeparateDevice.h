//===- SeparateDevice.h - Memory out of the host's sight --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// A device for tests, which computes on the host's cores as CpuDevice does,
/// but keeps apart what a GPU keeps apart. Whoever follows one of its addresses
/// faults: the bytes stand elsewhere. Submitted work waits until somebody
/// synchronizes, and the streams take turns in an order that a seed
/// chooses, so that a missing copy or event changes the results.
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
  /// What was allocated at one address.
  struct Block {
    Arena bytes;
    int64_t reserved = 0; ///< Bytes without access at the address; 0: it is
                          ///< that of the bytes.
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
    io::RowChoice choice; ///< CopyRows.
    Event event;
    int64_t time = 0; ///< Record, Wait: of the event.
  };
  /// How often an event was recorded, by submission and in fact.
  struct Times {
    int64_t submitted = 0, done = 0;
  };

  /// The last block that begins at the address or before; null: there is none.
  const std::pair<const uintptr_t, Block> *blockAt(Address address) const;
  /// Where `bytes` bytes from an address on stand. Throws H0412 when they were
  /// not allocated together.
  char *bytesAt(Address address, int64_t bytes) const;
  std::deque<Work> &queue(Stream stream) { return queues[size_t(stream)]; }
  void add(Stream stream, const Work &work);
  void addCopy(Stream stream, char *target, const char *source, int64_t bytes);
  bool isReady(const std::deque<Work> &queue) const;
  /// Does the next work of a stream that the seed chooses.
  void advance();
  void perform(const Work &work);

  CpuDevice cpu;
  std::mt19937_64 random;
  std::map<uintptr_t, Block> blocks; ///< By the address handed out.
  std::array<std::deque<Work>, numStreams> queues;
  std::vector<Times> events;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_SEPARATE_SEPARATEDEVICE_H
