//===- NcclApiTest.cpp - Our declarations against nccl.h ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing runs: that it compiles is the test.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/NcclApi.h"
#include "test/Runtime/AreAlike.h"

// It has bf16 where this is defined, as the headers of its types do.
#define __CUDA_BF16_TYPES_EXIST__
#include <nccl.h>

using namespace heddle::rt;

namespace signatures {
using namespace heddle::rt::nccl;
#define HEDDLE_COMPARE(RESULT, NAME, SYMBOL, PARAMETERS)                       \
  static_assert(AreAlike<RESULT(*) PARAMETERS, decltype(&::SYMBOL)>::value,    \
                #SYMBOL);
HEDDLE_NCCL_CALLS(HEDDLE_COMPARE)
} // namespace signatures

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(nccl::Comm) == sizeof(ncclComm_t));

#define SAME(OURS, THEIRS) static_assert(int(nccl::OURS) == int(THEIRS), #OURS)
SAME(Success, ncclSuccess);
SAME(UnhandledCudaError, ncclUnhandledCudaError);
SAME(SystemError, ncclSystemError);
SAME(InternalError, ncclInternalError);
SAME(InvalidArgument, ncclInvalidArgument);
SAME(InvalidUsage, ncclInvalidUsage);
SAME(RemoteError, ncclRemoteError);
SAME(InProgress, ncclInProgress);
SAME(Uint8, ncclUint8);
SAME(Int32, ncclInt32);
SAME(Int64, ncclInt64);
SAME(Float16, ncclFloat16);
SAME(Float32, ncclFloat32);
SAME(Float64, ncclFloat64);
SAME(Bfloat16, ncclBfloat16);
SAME(Sum, ncclSum);
static_assert(NCCL_MAJOR > 2 || NCCL_MINOR >= 18);
