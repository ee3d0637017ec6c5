//===- CudaApiTest.cpp - Our declarations against cuda.h ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing runs: that it compiles is the test.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/CudaApi.h"
#include "test/Runtime/AreAlike.h"
// cuda.h renames functions to their newest versions by macros; what we name
// with a version is what it declares under that name.
#include <cuda.h>

using namespace heddle::rt;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
#define HEDDLE_COMPARE(NAME, SYMBOL, PARAMETERS)                               \
  static_assert(                                                               \
      AreAlike<cuda::Result(*) PARAMETERS, decltype(&::SYMBOL)>::value,        \
      #SYMBOL);
namespace signatures {
using namespace heddle::rt::cuda;
HEDDLE_CUDA_CALLS(HEDDLE_COMPARE)
HEDDLE_CUDA_MORE_CALLS(HEDDLE_COMPARE)
} // namespace signatures

static_assert(sizeof(cuda::Uuid) == sizeof(CUuuid));
static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(cuda::LaunchConfig, blockX) ==
              offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(cuda::LaunchConfig, sharedBytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cuda::LaunchConfig, stream) ==
              offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cuda::LaunchConfig, numAttributes) ==
              offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cuda::LaunchAttribute, value) ==
              offsetof(CUlaunchAttribute, value));
static_assert(offsetof(cuda::LaunchAttribute, value.cluster.y) ==
              offsetof(CUlaunchAttribute, value.clusterDim.y));
static_assert(sizeof(cuda::TensorMapData) == sizeof(CUtensorMap));
// CUDA 13 aligns it to 128 bytes, and asks for 64.
static_assert(alignof(cuda::TensorMapData) <= alignof(CUtensorMap));
static_assert(isAlike<cuda::DevicePointer, CUdeviceptr>());
static_assert(isAlike<cuda::DeviceNumber, CUdevice>());
static_assert(AreAlike<cuda::HostFunction, CUhostFn>::value ||
              std::is_same_v<cuda::HostFunction, CUhostFn>);
} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

#define SAME(OURS, THEIRS) static_assert(int(cuda::OURS) == int(THEIRS), #OURS)
SAME(Success, CUDA_SUCCESS);
SAME(InvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(NotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(StubLibrary, CUDA_ERROR_STUB_LIBRARY);
SAME(DeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(NoDevice, CUDA_ERROR_NO_DEVICE);
SAME(InvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME(InvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(EccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(InvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME(NvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(JitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME(UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(InvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME(NotFound, CUDA_ERROR_NOT_FOUND);
SAME(NotReady, CUDA_ERROR_NOT_READY);
SAME(IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(LaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(ContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(Assert, CUDA_ERROR_ASSERT);
SAME(HardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(IllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(MisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(InvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(InvalidPc, CUDA_ERROR_INVALID_PC);
SAME(LaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(NotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME(SystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(SystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(CaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(CaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(CapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
SAME(InvalidClusterSize, CUDA_ERROR_INVALID_CLUSTER_SIZE);
SAME(Unknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 12060
SAME(Contained, CUDA_ERROR_CONTAINED);
#endif

SAME(MaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(MaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(WarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(MaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
SAME(ClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(Multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(MemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(MemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(L2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(MaxThreadsPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(UnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(ComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(ComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(MaxSharedPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(MaxRegistersPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME(MaxSharedPerBlockOptin,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(FunctionMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(FunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(FunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(FunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(FunctionMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FunctionClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
SAME(FunctionClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
SAME(FunctionClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
SAME(FunctionNonPortableCluster,
     CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(LaunchAttributeIgnore, CU_LAUNCH_ATTRIBUTE_IGNORE);
SAME(LaunchAttributeCluster, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(ClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
SAME(JitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
SAME(JitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(PointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(HostMemory, CU_MEMORYTYPE_HOST);
SAME(DeviceMemoryType, CU_MEMORYTYPE_DEVICE);
SAME(TensorMapUint8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(TensorMapInt32, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME(TensorMapFloat32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(TensorMapBfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(TensorMapTfloat32Ftz, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
SAME(TensorMapInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(TensorMapInterleave32, CU_TENSOR_MAP_INTERLEAVE_32B);
SAME(TensorMapSwizzleNone, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(TensorMapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(TensorMapPromotionNone, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(TensorMapPromotion256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(TensorMapFillZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
SAME(TensorMapFillNaN, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
SAME(ProcAddressFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(ProcAddressNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(ProcAddressTooNew, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME(streamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(eventDefault, CU_EVENT_DEFAULT);
SAME(eventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(CaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(hostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
