//===- CublasLtApi.h - The functions of cuBLASLt in use ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heddle's own declarations of cuBLASLt, so that building needs no CUDA (see
// CudaApi.h). Names and values are those of cublasLt.h, which are the same in
// versions 12 and 13.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CUBLASLTAPI_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CUBLASLTAPI_H

#include "heddle/runtime/devices/cuda/CudaApi.h"

namespace heddle::rt::cublaslt {

/// cublasStatus_t.
enum Status : int {
  Success = 0,
  NotInitialized = 1,
  AllocFailed = 3,
  InvalidValue = 7,
  ArchMismatch = 8,
  MappingError = 11,
  ExecutionFailed = 13,
  InternalError = 14,
  NotSupported = 15,
};

/// cudaDataType_t.
enum DataType : int { F32 = 0, F16 = 2, BF16 = 14 };
/// cublasComputeType_t.
enum ComputeType : int { Compute32F = 68, Compute32FFastTf32 = 77 };
/// cublasOperation_t.
enum Operation : int { AsIs = 0, Transposed = 1 };

/// cublasLtMatmulDescAttributes_t.
enum DescAttribute : int {
  TransA = 3,
  TransB = 4,
  EpilogueAttribute = 7,
  BiasPointer = 8,
  AuxPointer = 11,
  AuxLeading = 12,
};
/// cublasLtEpilogue_t.
enum Epilogue : int {
  Default = 1,
  Bias = 4,
  Gelu = 32,
  GeluBias = 36,
  GeluAux = 160,
  GeluAuxBias = 164,
  GeluGrad = 192,
  SumsA = 256,
  SumsB = 512,
};
/// cublasLtMatmulPreferenceAttributes_t.
enum PreferenceAttribute : int {
  MaxWorkspaceBytes = 1,
  ReductionSchemeMask = 3,
  AlignmentA = 5,
  AlignmentB = 6,
  AlignmentC = 7,
  AlignmentD = 8,
};
/// cublasLtReductionScheme_t: how the library adds the partial sums of split-K.
/// This one adds them in f32, in the workspace.
enum ReductionScheme : unsigned { ReduceInComputeType = 2 };

using Handle = struct HandleData *;         ///< cublasLtHandle_t.
using Desc = struct DescData *;             ///< cublasLtMatmulDesc_t.
using Layout = struct LayoutData *;         ///< cublasLtMatrixLayout_t.
using Preference = struct PreferenceData *; ///< cublasLtMatmulPreference_t.
/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};

// clang-format off
/// The functions that the runtime calls, as CALL(return type, name in
/// `Functions`, symbol in the library, parameters).
#define HEDDLE_CUBLASLT_CALLS(CALL)                                            \
  CALL(size_t, version, cublasLtGetVersion, ())                                \
  CALL(Status, create, cublasLtCreate, (Handle *handle))                       \
  CALL(Status, destroy, cublasLtDestroy, (Handle handle))                      \
  CALL(Status, makeDesc, cublasLtMatmulDescCreate, (Desc *desc, ComputeType compute, DataType scale)) \
  CALL(Status, destroyDesc, cublasLtMatmulDescDestroy, (Desc desc))            \
  CALL(Status, setDesc, cublasLtMatmulDescSetAttribute, (Desc desc, DescAttribute attribute, const void *value, size_t bytes)) \
  CALL(Status, makeLayout, cublasLtMatrixLayoutCreate, (Layout *layout, DataType type, uint64_t rows, uint64_t columns, int64_t leading)) \
  CALL(Status, destroyLayout, cublasLtMatrixLayoutDestroy, (Layout layout))    \
  CALL(Status, makePreference, cublasLtMatmulPreferenceCreate, (Preference *preference)) \
  CALL(Status, destroyPreference, cublasLtMatmulPreferenceDestroy, (Preference preference)) \
  CALL(Status, setPreference, cublasLtMatmulPreferenceSetAttribute, (Preference preference, PreferenceAttribute attribute, const void *value, size_t bytes)) \
  CALL(Status, askHeuristic, cublasLtMatmulAlgoGetHeuristic, (Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d, Preference preference, int wanted, HeuristicResult *results, int *found)) \
  CALL(Status, checkAlgorithm, cublasLtMatmulAlgoCheck, (Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d, const Algorithm *algorithm, HeuristicResult *result)) \
  CALL(Status, multiply, cublasLtMatmul, (Handle handle, Desc desc, const void *alpha, const void *a, Layout aLayout, const void *b, Layout bLayout, const void *beta, const void *c, Layout cLayout, void *d, Layout dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes, cuda::StreamHandle stream))
// clang-format on

} // namespace heddle::rt::cublaslt

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CUBLASLTAPI_H
