//===- NcclApi.h - The functions of NCCL that Heddle uses -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heddle's own declarations of NCCL, so that building needs no NCCL (see
// CudaApi.h). Names and values are those of nccl.h; a test compares them where
// it is installed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_NCCLAPI_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_NCCLAPI_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::nccl {

/// ncclResult_t.
enum Result : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

/// ncclDataType_t.
enum DataType : int {
  Uint8 = 1,
  Int32 = 2,
  Int64 = 4,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9,
};

/// ncclRedOp_t.
enum Reduction : int { Sum = 0 };

/// ncclUniqueId.
struct UniqueId {
  char internal[128];
};

using Comm = struct CommData *; ///< ncclComm_t.
using cuda::StreamHandle;

// clang-format off
/// The functions that the runtime calls, as CALL(return type, name in
/// `Library`, symbol in the library, parameters).
#define HEDDLE_NCCL_CALLS(CALL)                                                \
  CALL(Result, version, ncclGetVersion, (int *version))                        \
  CALL(const char *, errorText, ncclGetErrorString, (Result error))            \
  CALL(Result, newId, ncclGetUniqueId, (UniqueId *id))                         \
  CALL(Result, initRank, ncclCommInitRank, (Comm *comm, int ranks, UniqueId id, int rank)) \
  CALL(Result, destroy, ncclCommDestroy, (Comm comm))                          \
  CALL(Result, abort, ncclCommAbort, (Comm comm))                              \
  CALL(Result, asyncError, ncclCommGetAsyncError, (Comm comm, Result *error))  \
  CALL(Result, groupStart, ncclGroupStart, ())                                 \
  CALL(Result, groupEnd, ncclGroupEnd, ())                                     \
  CALL(Result, allReduce, ncclAllReduce, (const void *source, void *target, size_t count, DataType type, Reduction reduction, Comm comm, StreamHandle stream)) \
  CALL(Result, reduceScatter, ncclReduceScatter, (const void *source, void *target, size_t countOfPart, DataType type, Reduction reduction, Comm comm, StreamHandle stream)) \
  CALL(Result, allGather, ncclAllGather, (const void *source, void *target, size_t countOfPart, DataType type, Comm comm, StreamHandle stream)) \
  CALL(Result, send, ncclSend, (const void *source, size_t count, DataType type, int peer, Comm comm, StreamHandle stream)) \
  CALL(Result, receive, ncclRecv, (void *target, size_t count, DataType type, int peer, Comm comm, StreamHandle stream))
// clang-format on

} // namespace heddle::rt::nccl

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_NCCLAPI_H
