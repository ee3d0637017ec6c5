//===- DeviceTest.h - Shared by the tests of devices ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_DEVICETEST_H
#define HEDDLE_TEST_RUNTIME_DEVICETEST_H

#include "TestDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <functional>
#include <numeric>
#include <unistd.h>

namespace heddle::test {

inline constexpr int64_t page = 4096;

/// What the host reads at an address after all that was submitted.
inline std::vector<char> bytesOf(rt::Device &device, rt::Address address,
                                 int64_t bytes) {
  std::vector<char> found(bytes);
  for (rt::Stream stream : plan::streams)
    device.synchronize(stream);
  device.copyOut(rt::Stream::Communication, found.data(), address, bytes);
  device.synchronize(rt::Stream::Communication);
  return found;
}

inline std::vector<char> counted(int64_t bytes) {
  std::vector<char> values(bytes);
  std::iota(values.begin(), values.end(), char(1));
  return values;
}

inline std::string codeOf(const std::function<void()> &work) {
  try {
    work();
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

/// Whether this process can read the byte; the system looks, so nothing faults.
inline bool isReadable(uintptr_t place) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  bool read = write(ends[1], reinterpret_cast<const void *>(place), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return read;
}

/// A device of each sort, and what its memory holds.
class DeviceTest : public OnEachDevice {
protected:
  DeviceTest() : device(GetParam()) {}
  /// Whether requests of its own move what is on file.
  static bool swaps() { return GetParam() == 0 || GetParam() >= cudaLate; }
  TestDevice device;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_DEVICETEST_H
