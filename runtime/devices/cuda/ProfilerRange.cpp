//===- ProfilerRange.cpp - Named ranges in a profiler's timeline ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Marks ranges for profilers by NVTX. NVTX requires that the program has tables
// of function pointers, which an attached profiler sets.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/ProfilerRange.h"
#include "heddle/runtime/devices/cuda/NvtxApi.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>

using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::nvtx;

namespace {
/// The function pointers of one NVTX module. A pointer is null unless the
/// profiler has set it.
struct ModuleTable {
  static constexpr size_t most = 16;
  std::array<FunctionPointer, most> functions = {};
  /// Pointers to the entries of `functions`, followed by a null pointer. The
  /// profiler uses this table to write its own functions into `functions`.
  std::array<FunctionPointer *, most + 1> places = {};
};
} // namespace

static std::array<ModuleTable, NumModules> modules;
static bool isAttached = false;

static int getTable(CallbackModule module, FunctionTable *table,
                    unsigned *size) {
  if (module < ModuleCore || module >= NumModules)
    return 0;
  ModuleTable &found = modules[module];
  // Entry 0 is unused.
  for (size_t i = 1; i < moduleSizes[module]; ++i)
    found.places[i] = &found.functions[i];
  if (table)
    *table = found.places.data();
  if (size)
    *size = moduleSizes[module];
  return 1;
}

static const void *getExportTable(uint32_t number) {
  static const Callbacks callbacks = {sizeof(Callbacks), getTable};
  static const VersionInfo version = {sizeof(VersionInfo), 3, 0,
                                      [](uint32_t) {}};
  if (number == CallbackTable)
    return &callbacks;
  return number == VersionTable ? &version : nullptr;
}

template <class F> static F functionOf(CoreFunction number) {
  return reinterpret_cast<F>(modules[ModuleCore].functions[number]);
}

void ProfilerRange::attach() {
  const char *path = std::getenv("NVTX_INJECTION64_PATH");
  if (isAttached || !path)
    return;
  void *library = dlopen(path, RTLD_LAZY);
  if (!library)
    return;
  auto initialize =
      reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  isAttached = initialize && initialize(getExportTable) != 0 &&
               functionOf<RangePushA>(CoreRangePushA) &&
               functionOf<RangePop>(CoreRangePop);
  if (!isAttached)
    dlclose(library);
}

ProfilerRange::ProfilerRange(const char *name) {
  if (!isAttached || !name)
    return;
  functionOf<RangePushA>(CoreRangePushA)(name);
  isOpen = true;
}

ProfilerRange::~ProfilerRange() {
  if (isOpen)
    functionOf<RangePop>(CoreRangePop)();
}
