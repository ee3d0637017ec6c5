//===- KernelCheck.cpp - Compare kernels with simple ones -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocates and fills the arguments of a kernel and of the reference kernel
// that was compiled from the same body, runs both, and compares the results.
//
//===----------------------------------------------------------------------===//

#include "KernelCheck.h"
#include "heddle/runtime/app/CompareResults.h"
#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/DrawOperand.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <chrono>

using namespace heddle;
using namespace heddle::rt;

namespace {

using Argument = plan::PlainKernel::Argument;
using Result = plan::PlainKernel::Result;

/// Byte pattern that is a NaN in every float type.
constexpr unsigned char poison = 0xff;

/// Returns a launch with fewer blocks than `launch`, which saves time: the
/// reference kernel then computes only the first and last elements of a tensor.
/// A thread computes a sum of `terms` terms, such as the products of a matrix
/// product. The number of blocks is chosen so that all blocks together sum
/// about `most` terms.
plan::GridLaunch partOf(plan::GridLaunch launch, int64_t terms, int64_t most) {
  constexpr int64_t least = 16;
  auto &[columns, rows, layers] = launch.grid;
  int64_t ofColumn = layers * launch.block[0] * terms;
  columns = std::min(columns, std::max(least, most / ofColumn));
  return launch;
}

/// The name of the unoptimized reference kernel for kernel body number `text`.
/// With `isPart`, the name of the variant that computes only the first and last
/// elements of the result.
std::string plainName(int64_t text, bool isPart) {
  return std::to_string(text) + (isPart ? "_part" : "");
}

/// The memory of one kernel's arguments, and its launch.
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
  /// Copies a result to the host.
  std::vector<char> read(size_t place, const Result &result) {
    std::vector<char> bytes(result.elements * plan::byteSize(result.type));
    device.copyOut(Stream::Compute, bytes.data(), memory[place]->address(),
                   int64_t(bytes.size()));
    device.synchronize(Stream::Compute);
    return bytes;
  }

  /// Launches the kernel and waits; returns the seconds.
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
                             const std::vector<plan::Kernel> &kernels,
                             int64_t mostTerms)
    : device(device), hasParts(mostTerms > 0) {
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
    kernel.text = int64_t(plainImage.texts.size());
    kernel.name = plainName(kernel.text, /*isPart=*/false);
    kernel.launches = one.launches;
    kernel.scratchBytes = one.scratchBytes;
    plainImage.texts.push_back(one.text);
    all.push_back(kernel);
    if (!hasParts)
      continue;
    kernel.name = plainName(kernel.text, /*isPart=*/true);
    for (size_t i = 0; i < one.terms.size(); ++i)
      kernel.launches[i] = partOf(one.launches[i], one.terms[i], mostTerms);
    all.push_back(kernel);
  }
  std::string text = plan::writePtxImage(plainImage);
  plain = device.load(text.data(), text.size(), all);
}

CheckedKernel KernelChecker::check(const plan::Kernel &kernel,
                                   const KernelConstants &constants) {
  const plan::PlainKernel &other = image.plain.at(kernel.text);
  Operands mine(device, kernel.mostScratchBytes());
  Operands theirs(device, other.scratchBytes);
  OperandWriter writer(constants);
  std::vector<size_t> placeOf; ///< For each argument, the index of its memory.
  for (const Argument &argument : other.arguments) {
    placeOf.push_back(mine.count());
    if (argument.isScalar) {
      mine.addScalar(int64_t(argument.low));
      theirs.addScalar(int64_t(argument.low));
      continue;
    }
    std::vector<char> bytes(argument.elements * plan::byteSize(argument.type));
    writer.write(argument, uint32_t(placeOf.size()), bytes.data(),
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
  checked.seconds = mine.run(fast->find(kernel.name), kernel.name);
  // If a result has integers, run the reference kernel for all elements.
  // Elements that the reference kernel leaves out are marked by NaN, which
  // integers do not have.
  auto isInteger = [](const Result &result) {
    return result.type == plan::DType::I32 || result.type == plan::DType::U8;
  };
  bool isPart = hasParts && std::none_of(other.results.begin(),
                                         other.results.end(), isInteger);
  auto runPlain = [&] {
    checked.plainSeconds +=
        theirs.run(plain->find(plainName(kernel.text, isPart)), kernel.name);
  };
  runPlain();
  double worst = -1;
  for (size_t i = 0; i < other.results.size(); ++i) {
    const Result &result = other.results[i];
    std::vector<char> actual = mine.read(myPlace[i], result);
    auto compareWithPlain = [&] {
      return compareResults(actual.data(),
                            theirs.read(theirPlace[i], result).data(), result,
                            isPart);
    };
    Comparison found = compareWithPlain();
    if (isPart && found.compared == 0) {
      // The reference kernel was run for only some elements, and this result is
      // a sum over all elements, so there is nothing to compare. Run the
      // reference kernel for all elements.
      isPart = false;
      runPlain();
      found = compareWithPlain();
    }
    checked.elements += found.elements;
    checked.compared += found.compared;
    // The error relative to the tolerance. If the tolerance is 0 (equality is
    // required), any error gives infinity.
    double share = found.error == 0 ? 0 : found.error / result.tolerance;
    if (share > worst) {
      worst = share;
      checked.error = found.error;
      checked.tolerance = result.tolerance;
    }
  }
  return checked;
}
