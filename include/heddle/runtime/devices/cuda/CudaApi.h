//===- CudaApi.h - Functions of the CUDA driver in use ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heddle's own declarations of the CUDA driver, so that neither a build nor a
// binary needs CUDA. Names and values are those of cuda.h; a test compares them
// where cuda.h is installed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_CUDAAPI_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_CUDAAPI_H

#include <cstddef>
#include <cstdint>

namespace heddle::rt::cuda {

/// CUresult.
enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  StubLibrary = 34,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  NvlinkUncorrectable = 220,
  JitCompilerNotFound = 221,
  UnsupportedPtxVersion = 222,
  Contained = 226,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  ContextIsDestroyed = 709,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CaptureUnsupported = 900,
  CaptureUnmatched = 903,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CapturedEvent = 907,
  InvalidClusterSize = 912,
  Unknown = 999,
};

/// CUdevice_attribute.
enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxSharedPerBlock = 8,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  Multiprocessors = 16,
  MemoryClockRate = 36,
  MemoryBusWidth = 37,
  L2Bytes = 38,
  MaxThreadsPerMultiprocessor = 39,
  UnifiedAddressing = 41,
  ComputeMajor = 75,
  ComputeMinor = 76,
  MaxSharedPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  MaxSharedPerBlockOptin = 97,
  ClusterLaunch = 120,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionMaxDynamicShared = 8,
  FunctionClusterWidth = 11,
  FunctionClusterHeight = 12,
  FunctionClusterDepth = 13,
  FunctionNonPortableCluster = 14,
};

/// CUjit_option.
enum JitOption : int { JitErrorLog = 5, JitErrorLogBytes = 6 };

/// CUpointer_attribute, the attributes of a pointer, and CUmemorytype, the
/// value of the attribute PointerMemoryType.
enum PointerAttribute : int { PointerMemoryType = 2 };
enum MemoryType : int { HostMemory = 1, DeviceMemoryType = 2 };

/// CUdriverProcAddressQueryResult.
enum ProcAddressResult : int {
  ProcAddressFound = 0,
  ProcAddressNotFound = 1,
  ProcAddressTooNew = 2
};

/// CUstreamCaptureMode.
enum CaptureMode : int { CaptureRelaxed = 2 };

/// Flags of cuStreamCreate, cuEventCreate and cuMemHostAlloc.
constexpr unsigned streamNonBlocking = 1;
constexpr unsigned eventDefault = 0;
constexpr unsigned eventDisableTiming = 2;
constexpr unsigned hostAllocPortable = 1;

using DeviceNumber = int;       ///< CUdevice.
using DevicePointer = uint64_t; ///< CUdeviceptr.
using Context = struct ContextData *;
using Module = struct ModuleData *;
using Function = struct FunctionData *;
using StreamHandle = struct StreamData *;
using EventHandle = struct EventData *;
using Graph = struct GraphData *;
using GraphExec = struct GraphExecData *;
using HostFunction = void (*)(void *); ///< CUhostFn.
/// CUuuid.
struct Uuid {
  char bytes[16];
};

/// CUtensorMap, and the parameters to create one, as far as a driver of CUDA
/// 12.0 supports them.
struct alignas(64) TensorMapData {
  uint64_t opaque[16];
};
enum TensorMapType : int {
  TensorMapUint8 = 0,
  TensorMapInt32 = 3,
  TensorMapFloat32 = 7,
  TensorMapBfloat16 = 9,
  TensorMapTfloat32Ftz = 12
};
enum TensorMapInterleave : int {
  TensorMapInterleaveNone = 0,
  TensorMapInterleave32 = 2
};
enum TensorMapSwizzle : int {
  TensorMapSwizzleNone = 0,
  TensorMapSwizzle128 = 3
};
enum TensorMapPromotion : int {
  TensorMapPromotionNone = 0,
  TensorMapPromotion256 = 3
};
enum TensorMapFill : int { TensorMapFillZero = 0, TensorMapFillNaN = 1 };

/// CUlaunchAttributeID.
enum LaunchAttributeId : int {
  LaunchAttributeIgnore = 0,
  LaunchAttributeCluster = 4,
  LaunchAttributeProgrammatic = 6
};

/// CUlaunchAttribute.
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[8 - sizeof(LaunchAttributeId)];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster; ///< Number of blocks in a cluster, by dimension.
    int programmatic; ///< Whether the launch may begin before the end of the
                      ///< kernel before it.
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  StreamHandle stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};

// clang-format off
/// The functions that the runtime calls, as CALL(name in `Driver`, symbol in
/// the library with its version suffix, parameters).
#define HEDDLE_CUDA_CALLS(CALL)                                                \
  CALL(init, cuInit, (unsigned flags))                                         \
  CALL(driverVersion, cuDriverGetVersion, (int *version))                      \
  CALL(deviceCount, cuDeviceGetCount, (int *count))                            \
  CALL(device, cuDeviceGet, (DeviceNumber *device, int ordinal))               \
  CALL(deviceName, cuDeviceGetName, (char *name, int bytes, DeviceNumber device)) \
  CALL(uuid, cuDeviceGetUuid_v2, (Uuid *uuid, DeviceNumber device))            \
  CALL(deviceAttribute, cuDeviceGetAttribute, (int *value, DeviceAttribute attribute, DeviceNumber device)) \
  CALL(retainContext, cuDevicePrimaryCtxRetain, (Context *context, DeviceNumber device)) \
  CALL(releaseContext, cuDevicePrimaryCtxRelease_v2, (DeviceNumber device))    \
  CALL(setContext, cuCtxSetCurrent, (Context context))                         \
  CALL(memoryInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))             \
  CALL(allocate, cuMemAlloc_v2, (DevicePointer *address, size_t bytes))        \
  CALL(release, cuMemFree_v2, (DevicePointer address))                         \
  CALL(allocateHost, cuMemHostAlloc, (void **place, size_t bytes, unsigned flags)) \
  CALL(releaseHost, cuMemFreeHost, (void *place))                              \
  CALL(copyIn, cuMemcpyHtoDAsync_v2, (DevicePointer target, const void *source, size_t bytes, StreamHandle stream)) \
  CALL(copyOut, cuMemcpyDtoHAsync_v2, (void *target, DevicePointer source, size_t bytes, StreamHandle stream)) \
  CALL(copy, cuMemcpyDtoDAsync_v2, (DevicePointer target, DevicePointer source, size_t bytes, StreamHandle stream)) \
  CALL(fill, cuMemsetD8Async, (DevicePointer target, unsigned char value, size_t bytes, StreamHandle stream)) \
  CALL(makeStream, cuStreamCreate, (StreamHandle *stream, unsigned flags))     \
  CALL(destroyStream, cuStreamDestroy_v2, (StreamHandle stream))               \
  CALL(finishStream, cuStreamSynchronize, (StreamHandle stream))               \
  CALL(streamWait, cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags)) \
  CALL(makeEvent, cuEventCreate, (EventHandle *event, unsigned flags))         \
  CALL(destroyEvent, cuEventDestroy_v2, (EventHandle event))                   \
  CALL(finishEvent, cuEventSynchronize, (EventHandle event))                   \
  CALL(elapsedTime, cuEventElapsedTime, (float *milliseconds, EventHandle from, EventHandle to)) \
  CALL(record, cuEventRecord, (EventHandle event, StreamHandle stream))        \
  CALL(loadModule, cuModuleLoadDataEx, (Module *module, const void *image, unsigned options, JitOption *names, void **values)) \
  CALL(unloadModule, cuModuleUnload, (Module module))                          \
  CALL(findFunction, cuModuleGetFunction, (Function *function, Module module, const char *name)) \
  CALL(setFunction, cuFuncSetAttribute, (Function function, FunctionAttribute attribute, int value)) \
  CALL(functionAttribute, cuFuncGetAttribute, (int *value, FunctionAttribute attribute, Function function)) \
  CALL(launch, cuLaunchKernelEx, (const LaunchConfig *config, Function function, void **arguments, void **extra)) \
  CALL(launchHost, cuLaunchHostFunc, (StreamHandle stream, HostFunction function, void *data)) \
  CALL(beginCapture, cuStreamBeginCapture_v2, (StreamHandle stream, CaptureMode mode)) \
  CALL(endCapture, cuStreamEndCapture, (StreamHandle stream, Graph *graph))    \
  CALL(instantiate, cuGraphInstantiateWithFlags, (GraphExec *exec, Graph graph, uint64_t flags)) \
  CALL(launchGraph, cuGraphLaunch, (GraphExec exec, StreamHandle stream))      \
  CALL(destroyGraph, cuGraphDestroy, (Graph graph))                            \
  CALL(destroyExec, cuGraphExecDestroy, (GraphExec exec))                      \
  CALL(errorName, cuGetErrorName, (Result error, const char **name))           \
  CALL(errorText, cuGetErrorString, (Result error, const char **text))

/// Further functions of the driver. The runtime does not call them, but the
/// emulated driver implements them for its other callers, such as tests.
#define HEDDLE_CUDA_MORE_CALLS(CALL)                                           \
  CALL(totalMemory, cuDeviceTotalMem_v2, (size_t *bytes, DeviceNumber device)) \
  CALL(currentContext, cuCtxGetCurrent, (Context *context))                    \
  CALL(finishContext, cuCtxSynchronize, ())                                    \
  CALL(copyAny, cuMemcpyAsync, (DevicePointer target, DevicePointer source, size_t bytes, StreamHandle stream)) \
  CALL(pointerAttribute, cuPointerGetAttribute, (void *data, PointerAttribute attribute, DevicePointer pointer)) \
  CALL(queryStream, cuStreamQuery, (StreamHandle stream))                      \
  CALL(queryEvent, cuEventQuery, (EventHandle event))                          \
  CALL(launchPlainly, cuLaunchKernel, (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes, StreamHandle stream, void **arguments, void **extra)) \
  CALL(loadData, cuModuleLoadData, (Module *module, const void *image))        \
  CALL(encodeTiled, cuTensorMapEncodeTiled, (TensorMapData *map, TensorMapType type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides, const unsigned *box, const unsigned *steps, TensorMapInterleave interleave, TensorMapSwizzle swizzle, TensorMapPromotion promotion, TensorMapFill fill)) \
  CALL(address, cuGetProcAddress_v2, (const char *name, void **address, int version, uint64_t flags, ProcAddressResult *found))
// clang-format on

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_CUDAAPI_H
