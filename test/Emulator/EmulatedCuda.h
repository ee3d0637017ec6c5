//===- EmulatedCuda.h - Support for tests of the driver ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_EMULATOR_EMULATEDCUDA_H
#define HEDDLE_TEST_EMULATOR_EMULATEDCUDA_H

#include "heddle/emulator/cuda/Calls.h"
#include "test/Runtime/TestDevice.h"

namespace heddle::test {

using namespace heddle::rt::cuda;

/// Adds `value` to the number at `to`.
inline const char *const addText = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u64 value) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [value];
  ld.global.u64 %rd3, [%rd1];
  add.u64 %rd3, %rd3, %rd2;
  st.global.u64 [%rd1], %rd3;
  ret;
}
)";

/// A context on the first device, current in this thread.
class EmulatedCuda : public testing::Test {
protected:
  EmulatedCuda() {
    EXPECT_EQ(cuInit(0), Success);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
    EXPECT_EQ(cuCtxSetCurrent(context), Success);
  }
  ~EmulatedCuda() override { cuDevicePrimaryCtxRelease_v2(0); }

  /// Zeroed memory.
  DevicePointer memory(size_t bytes) {
    DevicePointer address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), Success);
    EXPECT_EQ(cuMemsetD8Async(address, 0, bytes, nullptr), Success);
    EXPECT_EQ(cuCtxSynchronize(), Success);
    return address;
  }
  StreamHandle stream(unsigned flags = streamNonBlocking) {
    StreamHandle made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), Success);
    return made;
  }
  EventHandle event() {
    EventHandle made = nullptr;
    EXPECT_EQ(cuEventCreate(&made, eventDisableTiming), Success);
    return made;
  }
  Function addFunction() {
    Module module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, addText), Success);
    Function function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, "add"), Success);
    return function;
  }
  /// *to += value.
  Result add(Function function, DevicePointer to, uint64_t value,
             StreamHandle stream, unsigned threads = 1, unsigned shared = 0) {
    void *arguments[] = {&to, &value};
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, stream,
                          arguments, nullptr);
  }
  uint64_t numberAt(DevicePointer address) {
    uint64_t found = 0;
    EXPECT_EQ(cuCtxSynchronize(), Success);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&found, address, 8, nullptr), Success);
    EXPECT_EQ(cuCtxSynchronize(), Success);
    return found;
  }

  Context context = nullptr;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_EMULATOR_EMULATEDCUDA_H
