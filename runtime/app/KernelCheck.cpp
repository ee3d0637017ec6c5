//===- KernelCheck.cpp - Kernels beside plain ones ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/KernelCheck.h"
#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/DrawOperand.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

namespace {

using Argument = plan::PlainKernel::Argument;
using Result = plan::PlainKernel::Result;

/// A NaN in every type of floats.
constexpr unsigned char poison = 0xff;

/// Leaves out what lies between rows.
std::vector<double> withoutGaps(const std::vector<double> &values,
                                const Result &result) {
  std::vector<double> rows;
  for (auto row = values.begin(); row != values.end(); row += result.pitch)
    rows.insert(rows.end(), row, row + result.columns);
  return rows;
}

/// The numbers of a tensor that the device has computed.
std::vector<double> read(Device &device, const DeviceMemory &memory,
                         const Result &result) {
  std::vector<char> bytes(result.elements * plan::byteSize(result.type));
  device.copyOut(Stream::Compute, bytes.data(), memory.address(),
                 int64_t(bytes.size()));
  device.synchronize(Stream::Compute);
  std::vector<double> values(result.elements);
  if (result.type == plan::DType::I32) {
    for (int64_t i = 0; i < result.elements; ++i) {
      int32_t value = 0;
      memcpy(&value, &bytes[i * sizeof value], sizeof value);
      values[i] = value;
    }
  } else {
    io::convertElements(bytes.data(), plan::nameOf(result.type), values.data(),
                        "F64", result.elements);
  }
  return result.pitch > 0 ? withoutGaps(values, result) : values;
}

double errorOf(const std::vector<double> &actual,
               const std::vector<double> &expected) {
  double squares = 0;
  for (double value : expected)
    squares += value * value;
  double scale = std::sqrt(squares / double(expected.size())), error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i])
      continue;
    double one =
        std::abs(actual[i] - expected[i]) / (std::abs(expected[i]) + scale);
    // NaN is no number that agrees, nor one to compare with.
    error = std::isnan(one) ? std::numeric_limits<double>::infinity()
                            : std::max(error, one);
  }
  return error;
}

/// The memory of one kernel's arguments, and the launch of it.
class Operands {
public:
  Operands(Device &device, int64_t scratchBytes)
      : device(device), scratch(allocate(scratchBytes)) {
    fill(*scratch);
  }

  void add(const std::vector<char> &bytes) {
    memory.push_back(allocate(int64_t(bytes.size())));
    device.copyIn(Stream::Compute, memory.back()->address(), bytes.data(),
                  int64_t(bytes.size()));
    device.synchronize(Stream::Compute);
  }
  void addResult(const Result &result) {
    memory.push_back(allocate(result.elements * plan::byteSize(result.type)));
    fill(*memory.back());
  }
  void addScalar(int64_t value) { scalars.push_back(value); }
  size_t count() const { return memory.size(); }
  const DeviceMemory &operator[](size_t index) const { return *memory[index]; }

  /// Launches the kernel and waits for it; how long that took.
  double run(KernelHandle kernel, const std::string &name) {
    using Clock = std::chrono::steady_clock;
    std::vector<void *> refs;
    for (const auto &one : memory)
      refs.push_back(device.resolve(one->address()));
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.refs = refs.data();
    launch.numRefs = int64_t(refs.size());
    launch.scalars = scalars.data();
    launch.numScalars = int64_t(scalars.size());
    launch.path = &name;
    Scratch shared = {static_cast<char *>(device.resolve(scratch->address())),
                      scratch->size()};
    device.synchronize(Stream::Compute);
    Clock::time_point begin = Clock::now();
    device.submit(Stream::Compute, launch, shared);
    device.synchronize(Stream::Compute);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

private:
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) {
    int64_t page = Arena::pageSize();
    int64_t rounded = (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
    return std::make_unique<DeviceMemory>(
        device, MemoryRequest{MemoryKind::Device, rounded, "a kernel's check"});
  }
  void fill(const DeviceMemory &target) {
    device.fill(Stream::Compute, target.address(), poison, target.size());
  }

  Device &device;
  std::unique_ptr<DeviceMemory> scratch;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<int64_t> scalars;
};

} // namespace

KernelChecker::KernelChecker(Device &device, const std::vector<char> &bytes,
                             const std::vector<plan::Kernel> &kernels)
    : device(device) {
  fast = device.load(bytes.data(), bytes.size(), kernels);
  auto known = plan::readPtxImage({bytes.data(), bytes.size()});
  if (!known || known->plain.size() != known->texts.size())
    fail("H0384",
         "the kernels cannot be loaded: the binary holds no plain ones",
         "compile the binary again");
  image = std::move(*known);
  plan::PtxImage plainImage;
  std::vector<plan::Kernel> all;
  for (const plan::PlainKernel &one : image.plain) {
    plan::Kernel kernel;
    kernel.text = int64_t(all.size());
    kernel.name = std::to_string(kernel.text);
    kernel.launches = one.launches;
    kernel.scratchBytes = one.scratchBytes;
    plainImage.texts.push_back(one.text);
    all.push_back(kernel);
  }
  std::string text = plan::writePtxImage(plainImage);
  plain = device.load(text.data(), text.size(), all);
}

CheckedKernel KernelChecker::check(const plan::Kernel &kernel) {
  const plan::PlainKernel &other = image.plain.at(kernel.text);
  Operands mine(device, kernel.mostScratchBytes());
  Operands theirs(device, other.scratchBytes);
  std::vector<size_t> placeOf; ///< Of each argument, among the memory.
  for (const Argument &argument : other.arguments) {
    placeOf.push_back(mine.count());
    if (argument.isScalar) {
      mine.addScalar(int64_t(argument.low));
      theirs.addScalar(int64_t(argument.low));
      continue;
    }
    std::vector<char> bytes(argument.elements * plan::byteSize(argument.type));
    drawOperand(argument, uint32_t(placeOf.size()), bytes.data(),
                argument.elements);
    mine.add(bytes);
    theirs.add(bytes);
  }
  std::vector<size_t> myPlace, theirPlace;
  for (const Result &result : other.results) {
    theirPlace.push_back(theirs.count());
    theirs.addResult(result);
    myPlace.push_back(result.tie < 0 ? mine.count() : placeOf.at(result.tie));
    if (result.tie < 0)
      mine.addResult(result);
  }
  CheckedKernel checked;
  checked.name = kernel.name;
  checked.plainSeconds =
      theirs.run(plain->find(std::to_string(kernel.text)), kernel.name);
  checked.seconds = mine.run(fast->find(kernel.name), kernel.name);
  double worst = -1;
  for (size_t i = 0; i < other.results.size(); ++i) {
    const Result &result = other.results[i];
    double error = errorOf(read(device, mine[myPlace[i]], result),
                           read(device, theirs[theirPlace[i]], result));
    // What must be equal is worse than all else if it is not.
    double share = error == 0 ? 0 : error / result.tolerance;
    if (share > worst) {
      worst = share;
      checked.error = error;
      checked.tolerance = result.tolerance;
    }
  }
  return checked;
}
