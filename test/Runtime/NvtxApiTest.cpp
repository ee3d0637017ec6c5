//===- NvtxApiTest.cpp - Our declarations against NVTX's headers ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing runs: that it compiles is the test.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/NvtxApi.h"
#include "test/Runtime/AreAlike.h"
#include <nvtx3/nvToolsExt.h>

using namespace heddle::rt;

#define SAME(OURS, THEIRS) static_assert(int(nvtx::OURS) == int(THEIRS), #OURS)
SAME(CallbackTable, NVTX_ETID_CALLBACKS);
SAME(VersionTable, NVTX_ETID_VERSIONINFO);
SAME(ModuleCore, NVTX_CB_MODULE_CORE);
SAME(NumModules, NVTX_CB_MODULE_SIZE);
SAME(CoreRangePushA, NVTX_CBID_CORE_RangePushA);
SAME(CoreRangePop, NVTX_CBID_CORE_RangePop);
SAME(moduleSizes[NVTX_CB_MODULE_CORE], NVTX_CBID_CORE_SIZE);
SAME(moduleSizes[NVTX_CB_MODULE_CUDA], NVTX_CBID_CUDA_SIZE);
SAME(moduleSizes[NVTX_CB_MODULE_OPENCL], NVTX_CBID_OPENCL_SIZE);
SAME(moduleSizes[NVTX_CB_MODULE_CUDART], NVTX_CBID_CUDART_SIZE);
SAME(moduleSizes[NVTX_CB_MODULE_CORE2], NVTX_CBID_CORE2_SIZE);
SAME(moduleSizes[NVTX_CB_MODULE_SYNC], NVTX_CBID_SYNC_SIZE);

static_assert(sizeof(nvtx::Callbacks) == sizeof(NvtxExportTableCallbacks));
static_assert(offsetof(nvtx::Callbacks, getTable) ==
              offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(
    AreAlike<
        decltype(nvtx::Callbacks::getTable),
        decltype(NvtxExportTableCallbacks::GetModuleFunctionTable)>::value);
static_assert(sizeof(nvtx::VersionInfo) == sizeof(NvtxExportTableVersionInfo));
static_assert(offsetof(nvtx::VersionInfo, version) ==
              offsetof(NvtxExportTableVersionInfo, version));
static_assert(offsetof(nvtx::VersionInfo, setInjectionVersion) ==
              offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(std::is_same_v<nvtx::FunctionTable, NvtxFunctionTable>);
static_assert(
    std::is_same_v<nvtx::Initialize, NvtxInitializeInjectionNvtxFunc_t>);
static_assert(AreAlike<nvtx::RangePushA, nvtxRangePushA_impl_fntype>::value);
static_assert(AreAlike<nvtx::RangePop, nvtxRangePop_impl_fntype>::value);
