//===- NvtxApi.h - The parts of NVTX that Heddle uses -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heddle's own declarations of NVTX, by which a program marks ranges for
// NVIDIA's profilers. A profiler names its library in the environment variable
// NVTX_INJECTION64_PATH. The program calls the library's function
// InitializeInjectionNvtx2. That function asks for tables of function pointers,
// and sets the pointers that the profiler implements. A test compares these
// declarations with NVTX's headers where they are installed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_NVTXAPI_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_NVTXAPI_H

#include <cstddef>
#include <cstdint>

namespace heddle::rt::nvtx {

using FunctionPointer = void (*)();
using FunctionTable = FunctionPointer **;
using GetExportTable = const void *(*)(uint32_t number);
/// The type of InitializeInjectionNvtx2, which returns whether the profiler
/// attaches.
using Initialize = int (*)(GetExportTable getTable);

/// NvtxExportTableID.
enum ExportTable : uint32_t { CallbackTable = 1, VersionTable = 3 };

/// NvtxCallbackModule: the indices of NVTX's modules. `moduleSizes` has the
/// size of each module's function table, including the table's unused entry 0.
enum CallbackModule : int { ModuleCore = 1, NumModules = 7 };
constexpr unsigned moduleSizes[NumModules] = {0, 16, 9, 15, 7, 16, 7};

/// NvtxCallbackIdCore.
enum CoreFunction : int { CoreRangePushA = 9, CoreRangePop = 11 };
using RangePushA = int (*)(const char *name);
using RangePop = int (*)();

/// NvtxExportTableCallbacks.
struct Callbacks {
  size_t bytes;
  int (*getTable)(CallbackModule module, FunctionTable *table, unsigned *size);
};

/// NvtxExportTableVersionInfo.
struct VersionInfo {
  size_t bytes;
  uint32_t version, reserved;
  void (*setInjectionVersion)(uint32_t version);
};

} // namespace heddle::rt::nvtx

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_NVTXAPI_H
