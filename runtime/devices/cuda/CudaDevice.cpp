//===- CudaDevice.cpp - The device that is an NVIDIA GPU ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory, streams, events, graphs and copies on a GPU, by calls of the CUDA
// driver.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/PlanFormat/CacheSize.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cuda/NonfiniteKernel.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "runtime/devices/cuda/FileCopies.h"
#include "runtime/devices/cuda/Gpu.h"
#include "runtime/devices/cuda/Launcher.h"
#include "runtime/devices/cuda/NcclLink.h"
#include "runtime/devices/cuda/ProfilerRange.h"
#include "runtime/devices/cuda/RowCopies.h"

#include <cstring>
#include <map>
#include <optional>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

namespace {

class CudaDevice : public Device {
public:
  explicit CudaDevice(const CudaOptions &options);
  ~CudaDevice() override;

  int64_t threads() const override { return 1; }
  std::string model() const override { return gpu.name; }
  std::string serial() const override;
  std::optional<StatedPeak>
  statedPeak(const std::string &precision) const override {
    return peakOf(driver, number, gpu, precision);
  }
  std::optional<int64_t> freeBytes() const override {
    return memoryInfo().first;
  }
  void requireMemory(const plan::Plan &plan) override;
  void stage(int64_t bytes) override { files.stage(bytes); }
  int64_t stagedBytes() const override { return files.stagedBytes(); }
  Address allocate(const MemoryRequest &request) override;
  void release(Address address) override;
  std::unique_ptr<KernelSet>
  load(const void *image, size_t bytes,
       const std::vector<plan::Kernel> &kernels) override;
  void *resolve(Address address) override;
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

  std::unique_ptr<NonfiniteSearch>
  searchNonfinite(const std::vector<NumberRange> &ranges) override {
    return std::make_unique<NonfiniteKernel>(driver, *this, of(Stream::Compute),
                                             ranges);
  }

  Event makeEvent() override;
  void record(Stream stream, Event event) override;
  void wait(Stream stream, Event event) override;
  void await(Event event) override;
  bool runsAhead() const override { return !sync; }
  std::optional<int64_t> measure(Stream stream,
                                 const std::function<void()> &submit) override;
  void synchronize(Stream stream) override;
  using Device::synchronize;

  std::optional<CapturedWork>
  capture(const std::function<void()> &submit) override;
  void repeat(CapturedWork work) override;
  std::shared_ptr<DeviceLink> link() override;
  io::OffloadTraffic offloadTraffic() const override { return files.traffic(); }
  io::OffloadTimes *fileTimes() override { return files.copyTimes(); }

private:
  /// An allocation.
  struct Block {
    MemoryKind kind = MemoryKind::Device;
    int64_t bytes = 0;
    Arena pages; ///< The memory of a Host block.
  };

  void open(const CudaOptions &options);
  void close();
  std::pair<int64_t, int64_t> memoryInfo() const;
  /// Returns the handle of a stream for commands other than the plan's kernels.
  StreamHandle of(Stream stream) {
    lastKernel.reset();
    return streams[size_t(stream)];
  }
  Stream addStream();
  /// Returns the memory block that contains these bytes. Throws H0412 if there
  /// is none.
  const Block &find(Address address, int64_t bytes) const;
  bool isOnGpu(Address address, int64_t bytes) const {
    return find(address, bytes).kind == MemoryKind::Device;
  }
  void onHost(Stream stream, std::function<void()> work) {
    tasks.add(of(stream), std::move(work), isCapturing);
  }
  void copyFile(Stream stream, Address target, Address source, int64_t bytes);
  /// Waits for all submitted work, and then returns the offload files for an
  /// access by the host.
  OffloadMemory &idleFiles();
  EventHandle makeHandle(unsigned flags = eventDisableTiming);
  /// Orders two streams: work that is submitted to `later` after this call
  /// waits for the work that was submitted to `earlier` before it.
  void follow(Stream later, Stream earlier);
  /// Makes the compute stream wait for the work of all other streams so far.
  void join();
  /// Makes all other streams wait for the work of the compute stream so far.
  void fork();

  const Driver &driver;
  bool sync, graphs;
  /// Whether kernels in graphs may begin before the end of the kernel before
  /// them.
  bool beginsEarly = false;
  /// The stream whose last command is a kernel of the plan, if the command that
  /// was submitted last is one.
  std::optional<Stream> lastKernel;
  DeviceNumber number = 0;
  GpuModel gpu;
  Context context = nullptr;
  std::vector<StreamHandle> streams; ///< The plan's streams, then those of the
                                     ///< link.
  std::vector<EventHandle> events;
  std::vector<EventHandle> ends;          ///< An event for each stream, used by
                                          ///< `follow`.
  std::array<EventHandle, 2> clocks = {}; ///< Events around work that `measure`
                                          ///< times.
  std::shared_ptr<nccl::Link> ranks;
  bool isCapturing = false;
  std::vector<bool> captured; ///< Whether each event was last recorded in a
                              ///< capture.
  std::vector<bool> here;     ///< Whether each event was recorded in the
                              ///< current capture.
  std::vector<GraphExec> execs;
  HostTasks tasks;
  FileCopies files;
  RowCopies rowCopies;
  Launcher launcher;
  std::map<uintptr_t, Block> blocks; ///< Blocks by address.
};

char *pointer(Address address) {
  return reinterpret_cast<char *>(address.value());
}

} // namespace

std::unique_ptr<Device> heddle::rt::makeCudaDevice(const CudaOptions &options) {
  return std::make_unique<CudaDevice>(options);
}

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(const CudaOptions &options)
    : driver(Driver::get()), sync(options.sync),
      graphs(options.graphs && !options.sync), tasks(driver),
      files(driver, options.swap), rowCopies(driver, tasks, files),
      launcher(driver, options) {
  try {
    open(options);
  } catch (...) {
    close();
    throw;
  }
}

void CudaDevice::open(const CudaOptions &options) {
  ProfilerRange::attach();
  number = chooseGpu(driver, options.localRank);
  gpu = modelOf(driver, number);
  check(driver.retainContext(&context, number), "opening the GPU");
  check(driver.setContext(context), "opening the GPU");
  // Before CUDA 12.3, such launches cannot be captured in graphs.
  int version = 0;
  beginsEarly = driver.driverVersion(&version) == Success && version >= 12030;
  for (size_t i = 0; i < numStreams; ++i)
    addStream();
  for (EventHandle &clock : clocks)
    clock = makeHandle(eventDefault);
}

Stream CudaDevice::addStream() {
  StreamHandle stream = nullptr;
  check(driver.makeStream(&stream, streamNonBlocking), "making a stream");
  streams.push_back(stream);
  ends.push_back(makeHandle());
  return Stream(streams.size() - 1);
}

std::shared_ptr<DeviceLink> CudaDevice::link() {
  if (!ranks)
    ranks = std::make_shared<nccl::Link>(
        nccl::Library::get(),
        nccl::Streams{[this] { return addStream(); },
                      [this](Stream stream) { return of(stream); }});
  return ranks;
}

CudaDevice::~CudaDevice() { close(); }

/// After a fault in a kernel every call of the driver fails. The errors are
/// ignored here, since the fault has been reported.
void CudaDevice::close() {
  for (StreamHandle stream : streams)
    driver.finishStream(stream);
  ranks.reset();
  for (StreamHandle stream : streams)
    driver.destroyStream(stream);
  for (GraphExec exec : execs)
    driver.destroyExec(exec);
  for (EventHandle event : events)
    driver.destroyEvent(event);
  for (EventHandle end : ends)
    driver.destroyEvent(end);
  for (EventHandle clock : clocks)
    if (clock)
      driver.destroyEvent(clock);
  for (const auto &[address, block] : blocks) {
    if (block.kind == MemoryKind::Device)
      driver.release(address);
    else if (block.kind == MemoryKind::Pinned)
      driver.releaseHost(pointer(Address(address)));
  }
  files.close();
  if (context)
    driver.releaseContext(number);
}

std::string CudaDevice::serial() const {
  Uuid uuid;
  check(driver.uuid(&uuid, number), "its number");
  std::string text;
  for (unsigned char byte : uuid.bytes) {
    constexpr const char *digits = "0123456789abcdef";
    text += {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the free bytes and all bytes of the GPU's memory.
std::pair<int64_t, int64_t> CudaDevice::memoryInfo() const {
  size_t free = 0, total = 0;
  check(driver.memoryInfo(&free, &total), "asking for free memory");
  return {int64_t(free), int64_t(total)};
}

void CudaDevice::requireMemory(const plan::Plan &plan) {
  const plan::Memory &memory = plan.memory;
  int64_t needed = memory.peakBytes(MemoryKind::Device);
  auto [free, total] = memoryInfo();
  if (needed <= free)
    return;
  fail("H0284",
       "the plan needs " + plan::formatExactBytes(needed) +
           " of the GPU's memory; of the " + plan::formatBytes(total) +
           " of this " + gpu.name + ", " + plan::formatExactBytes(free) +
           " are free; the most have: " + plan::largestOwners(memory),
       plan::helpForDevice(plan, free));
}

Address CudaDevice::allocate(const MemoryRequest &request) {
  if (request.bytes == 0)
    return {};
  if (request.kind == MemoryKind::File)
    return files.allocate(request);
  Block block;
  block.kind = request.kind;
  block.bytes = request.bytes;
  DevicePointer start = 0;
  if (request.kind == MemoryKind::Device) {
    Result result = driver.allocate(&start, request.bytes);
    if (result == OutOfMemory)
      Arena::refuse(request.bytes, request.owner);
    check(result, "an allocation");
    check(driver.fill(start, 0, request.bytes, of(Stream::Compute)),
          "zeroing memory");
    synchronize(Stream::Compute);
  } else if (request.kind == MemoryKind::Pinned) {
    void *place = nullptr;
    Result result =
        driver.allocateHost(&place, request.bytes, hostAllocPortable);
    if (result == OutOfMemory)
      Arena::refuse(request.bytes, request.owner);
    check(result, "an allocation of pinned memory");
    memset(place, 0, request.bytes);
    start = reinterpret_cast<uintptr_t>(place);
  } else {
    block.pages = Arena(request.bytes, request.owner, request.guarded);
    start = reinterpret_cast<uintptr_t>(block.pages.data());
  }
  blocks.emplace(start, std::move(block));
  return Address(start);
}

void CudaDevice::release(Address address) {
  // `release` may be called while an exception is handled, so it must not throw
  // another one: ignore errors.
  for (StreamHandle stream : streams)
    driver.finishStream(stream);
  if (files.holds(address))
    return files.release(address);
  auto found = blocks.find(address.value());
  if (found == blocks.end())
    return;
  if (found->second.kind == MemoryKind::Device)
    driver.release(address.value());
  else if (found->second.kind == MemoryKind::Pinned)
    driver.releaseHost(pointer(address));
  blocks.erase(found);
}

const CudaDevice::Block &CudaDevice::find(Address address,
                                          int64_t bytes) const {
  auto after = blocks.upper_bound(address.value());
  if (after != blocks.begin()) {
    const auto &[start, block] = *--after;
    int64_t offset = address - Address(start);
    if (offset <= block.bytes && bytes <= block.bytes - offset)
      return block;
  }
  fail("H0412", "the device is asked for bytes that it did not hand out",
       "report this as a bug");
}

void *CudaDevice::resolve(Address address) { return pointer(address); }

char *CudaDevice::map(Address address) {
  return files.holds(address) || isOnGpu(address, 0) ? nullptr
                                                     : pointer(address);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

std::unique_ptr<KernelSet>
CudaDevice::load(const void *image, size_t bytes,
                 const std::vector<plan::Kernel> &kernels) {
  return launcher.load(gpu, {static_cast<const char *>(image), bytes}, kernels);
}

void CudaDevice::submit(Stream stream, const KernelLaunch &launch,
                        const Scratch &scratch) {
  bool follows = beginsEarly && isCapturing && lastKernel == stream;
  bool isKernel =
      launcher.submit(of(stream), launch, scratch, isCapturing, follows);
  if (isKernel)
    lastKernel = stream;
}

//===----------------------------------------------------------------------===//
// Fills and copies
//===----------------------------------------------------------------------===//

// The driver's asynchronous fills and copies are used only if the memory is on
// the GPU. The host performs all other fills and copies.

void CudaDevice::fill(Stream stream, Address target, unsigned char value,
                      int64_t bytes) {
  if (bytes == 0)
    return;
  if (files.holds(target))
    return idleFiles().fill(target, value, bytes);
  if (!isOnGpu(target, bytes))
    return onHost(stream, [=] { memset(pointer(target), value, bytes); });
  check(driver.fill(target.value(), value, bytes, of(stream)), "a fill");
}

void CudaDevice::copy(Stream stream, Address target, Address source,
                      int64_t bytes) {
  if (bytes == 0)
    return;
  if (files.holds(target) || files.holds(source))
    return copyFile(stream, target, source, bytes);
  if (!isOnGpu(source, bytes))
    return copyIn(stream, target, pointer(source), bytes);
  if (!isOnGpu(target, bytes))
    return copyOut(stream, pointer(target), source, bytes);
  check(driver.copy(target.value(), source.value(), bytes, of(stream)),
        "a copy");
}

/// Copies between a file and other memory. The steps of a program copy only
/// between files and the GPU, through rings of pinned buffers. All other copies
/// run while no other work does.
void CudaDevice::copyFile(Stream stream, Address target, Address source,
                          int64_t bytes) {
  bool toFile = files.holds(target);
  if (toFile && files.holds(source))
    return idleFiles().copy(target, source, bytes);
  if (toFile ? !isOnGpu(source, bytes) : !isOnGpu(target, bytes))
    return toFile ? copyIn(stream, target, pointer(source), bytes)
                  : copyOut(stream, pointer(target), source, bytes);
  Stream ring = toFile ? Stream::Store : Stream::Copy;
  if (stream != ring)
    follow(ring, stream);
  if (toFile)
    files.write(of(ring), target, source.value(), bytes, isCapturing);
  else
    files.read(of(ring), target.value(), source, bytes, isCapturing);
  if (stream != ring)
    follow(stream, ring);
}

/// All copies of rows share one buffer of pinned memory. Therefore they all run
/// on the stream Copy, whatever `stream` is.
void CudaDevice::copyRows(Stream stream, const RowCopy &rows) {
  constexpr Stream buffer = Stream::Copy;
  if (stream != buffer)
    follow(buffer, stream);
  rowCopies.copy(of(buffer), rows, isCapturing);
  if (stream != buffer)
    follow(stream, buffer);
}

void CudaDevice::copyIn(Stream stream, Address target, const void *source,
                        int64_t bytes) {
  if (bytes == 0)
    return;
  if (files.holds(target))
    return idleFiles().write(target, source, bytes);
  if (!isOnGpu(target, bytes))
    return onHost(stream, [=] { memmove(pointer(target), source, bytes); });
  check(driver.copyIn(target.value(), source, bytes, of(stream)), "a copy");
}

void CudaDevice::copyOut(Stream stream, void *target, Address source,
                         int64_t bytes) {
  if (bytes == 0)
    return;
  if (files.holds(source))
    return idleFiles().read(target, source, bytes);
  if (!isOnGpu(source, bytes))
    return onHost(stream, [=] { memmove(target, pointer(source), bytes); });
  check(driver.copyOut(target, source.value(), bytes, of(stream)), "a copy");
}

OffloadMemory &CudaDevice::idleFiles() {
  for (StreamHandle stream : streams)
    check(driver.finishStream(stream), "the end of copies from and to files");
  return files.memory();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

EventHandle CudaDevice::makeHandle(unsigned flags) {
  EventHandle event = nullptr;
  check(driver.makeEvent(&event, flags), "making an event");
  return event;
}

Event CudaDevice::makeEvent() {
  events.push_back(makeHandle());
  captured.push_back(false);
  here.push_back(false);
  return {int64_t(events.size()) - 1};
}

void CudaDevice::record(Stream stream, Event event) {
  check(driver.record(events[event.number], of(stream)), "recording an event");
  captured[event.number] = here[event.number] = isCapturing;
}

void CudaDevice::wait(Stream stream, Event event) {
  // If the event was recorded inside of a capture and is awaited outside of it,
  // or the reverse, no wait is needed: the whole graph starts after all earlier
  // work is done, and all later work starts after the graph is done.
  if (isCapturing ? !here[event.number] : captured[event.number])
    return;
  check(driver.streamWait(of(stream), events[event.number], 0),
        "a wait for an event");
}

void CudaDevice::await(Event event) {
  check(driver.finishEvent(events[event.number]), "the end of an event");
  tasks.check();
  files.checkTasks();
  launcher.check();
  if (ranks)
    ranks->check();
}

std::optional<int64_t>
CudaDevice::measure(Stream stream, const std::function<void()> &submit) {
  check(driver.record(clocks[0], of(stream)), "recording an event");
  submit();
  check(driver.record(clocks[1], of(stream)), "recording an event");
  check(driver.finishEvent(clocks[1]), "the end of an event");
  float milliseconds = 0;
  check(driver.elapsedTime(&milliseconds, clocks[0], clocks[1]),
        "the time between two events");
  return int64_t(1e6 * double(milliseconds));
}

void CudaDevice::synchronize(Stream stream) {
  check(driver.finishStream(of(stream)),
        std::string("the end of the stream ") + plan::nameOf(stream));
  tasks.check();
  files.checkTasks();
  launcher.check();
  if (plan::copiesBeside(stream))
    files.finish();
  if (ranks)
    ranks->check();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void CudaDevice::follow(Stream later, Stream earlier) {
  EventHandle end = ends[size_t(earlier)];
  check(driver.record(end, of(earlier)), "recording an event");
  check(driver.streamWait(of(later), end, 0), "ordering streams");
}

void CudaDevice::join() {
  for (size_t i = 0; i < streams.size(); ++i)
    if (Stream(i) != Stream::Compute)
      follow(Stream::Compute, Stream(i));
}

void CudaDevice::fork() {
  for (size_t i = 0; i < streams.size(); ++i)
    if (Stream(i) != Stream::Compute)
      follow(Stream(i), Stream::Compute);
}

std::optional<CapturedWork>
CudaDevice::capture(const std::function<void()> &submit) {
  if (!graphs)
    return std::nullopt;
  StreamHandle begun = of(Stream::Compute);
  here.assign(here.size(), false);
  // The capture uses the relaxed mode. In a stricter mode, a library could not
  // load a kernel when it is first called, which may happen during the capture.
  check(driver.beginCapture(begun, CaptureRelaxed), "a capture");
  isCapturing = true;
  Graph graph = nullptr;
  try {
    fork();
    submit();
    join();
  } catch (...) {
    isCapturing = false;
    if (driver.endCapture(begun, &graph) == Success)
      driver.destroyGraph(graph);
    throw;
  }
  isCapturing = false;
  check(driver.endCapture(begun, &graph), "the end of a capture");
  GraphExec exec = nullptr;
  Result made = driver.instantiate(&exec, graph, 0);
  driver.destroyGraph(graph);
  check(made, "making a graph");
  execs.push_back(exec);
  return CapturedWork{int64_t(execs.size()) - 1};
}

void CudaDevice::repeat(CapturedWork work) {
  ProfilerRange range("a captured step");
  join();
  check(driver.launchGraph(execs[work.number], of(Stream::Compute)),
        "the launch of a graph");
  fork();
}
