//===- CublasLtApiTest.cpp - Our declarations against cublasLt.h ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing runs: that it compiles is the test.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/CublasLtApi.h"
#include <cublasLt.h>

#include "test/Runtime/AreAlike.h"

#define HEDDLE_COMPARE(RETURN, NAME, SYMBOL, PARAMETERS)                       \
  static_assert(AreAlike<RETURN(*) PARAMETERS, decltype(&::SYMBOL)>::value,    \
                #SYMBOL);
namespace signatures {
using namespace heddle::rt;
using namespace heddle::rt::cublaslt;
HEDDLE_CUBLASLT_CALLS(HEDDLE_COMPARE)
} // namespace signatures

namespace lt = heddle::rt::cublaslt;

static_assert(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::HeuristicResult) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::HeuristicResult, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(lt::HeuristicResult, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

#define HEDDLE_SAME(OURS, THEIRS)                                              \
  static_assert(int(lt::OURS) == int(THEIRS), #THEIRS)
HEDDLE_SAME(Success, CUBLAS_STATUS_SUCCESS);
HEDDLE_SAME(NotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
HEDDLE_SAME(AllocFailed, CUBLAS_STATUS_ALLOC_FAILED);
HEDDLE_SAME(InvalidValue, CUBLAS_STATUS_INVALID_VALUE);
HEDDLE_SAME(ArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
HEDDLE_SAME(MappingError, CUBLAS_STATUS_MAPPING_ERROR);
HEDDLE_SAME(ExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
HEDDLE_SAME(InternalError, CUBLAS_STATUS_INTERNAL_ERROR);
HEDDLE_SAME(NotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
HEDDLE_SAME(F32, CUDA_R_32F);
HEDDLE_SAME(BF16, CUDA_R_16BF);
HEDDLE_SAME(Compute32F, CUBLAS_COMPUTE_32F);
HEDDLE_SAME(Compute32FFastTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
HEDDLE_SAME(AsIs, CUBLAS_OP_N);
HEDDLE_SAME(Transposed, CUBLAS_OP_T);
HEDDLE_SAME(TransA, CUBLASLT_MATMUL_DESC_TRANSA);
HEDDLE_SAME(TransB, CUBLASLT_MATMUL_DESC_TRANSB);
HEDDLE_SAME(EpilogueAttribute, CUBLASLT_MATMUL_DESC_EPILOGUE);
HEDDLE_SAME(BiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
HEDDLE_SAME(AuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
HEDDLE_SAME(AuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
HEDDLE_SAME(Default, CUBLASLT_EPILOGUE_DEFAULT);
HEDDLE_SAME(Bias, CUBLASLT_EPILOGUE_BIAS);
HEDDLE_SAME(Gelu, CUBLASLT_EPILOGUE_GELU);
HEDDLE_SAME(GeluBias, CUBLASLT_EPILOGUE_GELU_BIAS);
HEDDLE_SAME(GeluAux, CUBLASLT_EPILOGUE_GELU_AUX);
HEDDLE_SAME(GeluAuxBias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
HEDDLE_SAME(GeluGrad, CUBLASLT_EPILOGUE_DGELU);
HEDDLE_SAME(SumsA, CUBLASLT_EPILOGUE_BGRADA);
HEDDLE_SAME(SumsB, CUBLASLT_EPILOGUE_BGRADB);
HEDDLE_SAME(MaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
HEDDLE_SAME(ReductionSchemeMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
HEDDLE_SAME(AlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
HEDDLE_SAME(AlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
HEDDLE_SAME(AlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
HEDDLE_SAME(AlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
HEDDLE_SAME(ReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
