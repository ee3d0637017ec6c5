//===- CpuDevice.cpp - The device that is this machine's CPU --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory, launches, copies and their order on the CPU. Only transfers with
// files are asynchronous.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cpu/KernelImage.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A kernel of this device. KernelHandle points to it.
struct LoadedKernel {
  KernelFunction function;
  bool isSmall; ///< One thread finishes before others could be woken.
};

/// Whether a kernel takes less time than it takes to start several threads. A
/// kernel without a known cost counts as large.
bool isSmall(const plan::Kernel &kernel) {
  return kernel.bytes > 0 && kernel.bytes <= 16 << 10 &&
         kernel.flops <= 32 << 10;
}

class CpuKernels : public KernelSet {
public:
  CpuKernels(const void *data, size_t size,
             const std::vector<plan::Kernel> &kernels)
      : image(data, size) {
    for (const plan::Kernel &kernel : kernels)
      if (isSmall(kernel))
        small.insert(kernel.name);
  }
  KernelHandle find(const std::string &name) const override {
    KernelFunction function = image.find(name);
    if (!function)
      return nullptr;
    LoadedKernel &kernel = found[name];
    kernel = {function, small.count(name) != 0};
    return reinterpret_cast<KernelHandle>(&kernel);
  }

private:
  KernelImage image;
  std::unordered_set<std::string> small;
  mutable std::unordered_map<std::string, LoadedKernel> found;
};

} // namespace

Address CpuDevice::allocate(const MemoryRequest &request) {
  if (request.bytes == 0)
    return {};
  if (request.kind == MemoryKind::File)
    return swap.allocate(request);
  Arena arena(request.bytes, request.owner, request.guarded);
  Address address(reinterpret_cast<uintptr_t>(arena.data()));
  blocks.emplace(address.value(), std::move(arena));
  return address;
}

void CpuDevice::release(Address address) {
  if (swap.holds(address))
    swap.release(address);
  else
    blocks.erase(address.value());
}

std::pair<const uintptr_t, Arena> &CpuDevice::blockOf(Address address) {
  return *std::prev(blocks.upper_bound(address.value()));
}

bool CpuDevice::mapFile(Address address, int64_t bytes, int descriptor,
                        int64_t offset, const std::string &path) {
  auto &[begin, arena] = blockOf(address);
  return arena.mapFile(address.value() - begin, bytes, descriptor, offset,
                       path);
}

void CpuDevice::unmapFile(Address address, int64_t bytes) {
  auto &[begin, arena] = blockOf(address);
  arena.unmapFile(address.value() - begin, bytes);
}

std::unique_ptr<KernelSet>
CpuDevice::load(const void *image, size_t bytes,
                const std::vector<plan::Kernel> &kernels) {
  return std::make_unique<CpuKernels>(image, bytes, kernels);
}

void CpuDevice::submit(Stream, const KernelLaunch &launch,
                       const Scratch &scratch) {
  const auto &kernel = *reinterpret_cast<const LoadedKernel *>(launch.kernel);
  perform(KernelWork{kernel.function, kernel.isSmall, launch.refs,
                     launch.scalars, scratch});
}

void CpuDevice::perform(const CpuWork &work) {
  if (capturing)
    capturing->push_back(work);
  else
    runRegion(pool, &work, 1);
}

void CpuDevice::fill(Stream stream, Address target, unsigned char value,
                     int64_t bytes) {
  if (swap.holds(target))
    return swap.fill(target, value, bytes);
  synchronize(stream);
  perform(MoveWork{map(target), nullptr, value, bytes});
}

void CpuDevice::copy(Stream stream, Address target, Address source,
                     int64_t bytes) {
  if (bytes == 0)
    return;
  bool toFile = swap.holds(target), fromFile = swap.holds(source);
  if (toFile && fromFile)
    return swap.copy(target, source, bytes);
  // A transfer with a file is asynchronous only on the streams Copy and Store.
  // On any other stream the host waits until the transfer is done.
  if (toFile || fromFile) {
    io::OffloadPoint done =
        toFile ? swap.startWrite(target, map(source), bytes, times.next())
               : swap.startRead(map(target), source, bytes, times.next());
    if (!plan::copiesBeside(stream))
      return await(done);
    known[size_t(stream)].include(done);
    transfers.push_back({map(fromFile ? target : source), bytes, done});
    return;
  }
  synchronize(stream);
  perform(MoveWork{map(target), map(source), 0, bytes});
}

/// Copies rows before it returns. The ids that choose the rows are final,
/// because kernels run during their submission. Before the copy, waits only for
/// those transfers with files that access the bytes of this copy.
void CpuDevice::copyRows(Stream, const RowCopy &rows) {
  io::RowChoice choice = {rows.rowBytes, rows.tableRows,
                          reinterpret_cast<const int32_t *>(map(rows.ids)),
                          rows.count, rows.first};
  awaitTransfers(map(rows.ids), rows.count * int64_t(sizeof(int32_t)));
  awaitTransfers(map(rows.target), rows.count * rows.rowBytes);
  if (swap.holds(rows.source))
    return swap.readRows(map(rows.target), rows.source, choice);
  awaitTransfers(map(rows.source), rows.tableRows * rows.rowBytes);
  perform(RowsWork{map(rows.target), map(rows.source), choice});
}

void CpuDevice::awaitTransfers(const char *memory, int64_t bytes) {
  io::OffloadPoint point;
  for (const Transfer &transfer : transfers)
    if (transfer.memory < memory + bytes &&
        memory < transfer.memory + transfer.bytes)
      point.include(transfer.point);
  await(point);
}

void CpuDevice::copyIn(Stream stream, Address target, const void *source,
                       int64_t bytes) {
  if (swap.holds(target))
    return swap.write(target, source, bytes);
  synchronize(stream);
  memcpy(map(target), source, bytes);
}

void CpuDevice::copyOut(Stream stream, void *target, Address source,
                        int64_t bytes) {
  if (swap.holds(source))
    return swap.read(target, source, bytes);
  synchronize(stream);
  memcpy(target, map(source), bytes);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Event CpuDevice::makeEvent() {
  points.emplace_back();
  return {int64_t(points.size()) - 1};
}

void CpuDevice::await(const io::OffloadPoint &point) {
  swap.await(point);
  auto isDone = [&](const Transfer &transfer) {
    return transfer.point.isDone(point);
  };
  transfers.erase(std::remove_if(transfers.begin(), transfers.end(), isDone),
                  transfers.end());
}

/// Records only the transfers with files that the stream has started or depends
/// on. All other work is already done when its submission returns.
void CpuDevice::record(Stream stream, Event event) {
  points[event.number] = known[size_t(stream)];
}

/// Waits for the transfers that the event has recorded. If `stream` runs
/// kernels, the host itself waits, since kernels run during their submission.
/// If `stream` only copies, it merely remembers that it depends on these
/// transfers. They have started already, and transfers of the same bytes are
/// done in order.
void CpuDevice::wait(Stream stream, Event event) {
  if (plan::copiesBeside(stream))
    known[size_t(stream)].include(points[event.number]);
  else
    await(points[event.number]);
}

void CpuDevice::synchronize(Stream stream) { await(known[size_t(stream)]); }

/// Captures work only if the device uses no offload files. All captured work is
/// then done in the order of submission, so that recording and awaiting an
/// event needs no action.
std::optional<CapturedWork>
CpuDevice::capture(const std::function<void()> &submit) {
  if (swap.isUsed())
    return std::nullopt;
  capturing = &captured.emplace_back();
  try {
    submit();
  } catch (...) {
    capturing = nullptr;
    throw;
  }
  capturing = nullptr;
  return CapturedWork{int64_t(captured.size()) - 1};
}

void CpuDevice::repeat(CapturedWork work) {
  synchronize();
  const std::vector<CpuWork> &works = captured[work.number];
  runRegion(pool, works.data(), works.size());
}
