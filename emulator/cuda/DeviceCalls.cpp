//===- DeviceCalls.cpp - Driver calls: devices and errors -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the driver's functions about devices, contexts, versions and
// errors.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"
#include "heddle/emulator/cuda/Calls.h"

#include <cstring>

using namespace heddle::rt;
using namespace heddle::rt::cuda;

namespace {
struct ErrorText {
  Result code;
  const char *name, *text;
};
} // namespace

static const ErrorText errors[] = {
    {Success, "CUDA_SUCCESS", "no error"},
    {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {EccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "uncorrectable ECC error encountered"},
    {InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {ContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
     "context is destroyed"},
    {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the capture was not initiated in this stream"},
    {CaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {InvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
     "misconfigured cluster"},
    {Unknown, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static const ErrorText *findError(Result code) {
  for (const ErrorText &error : errors)
    if (error.code == code)
      return &error;
  return nullptr;
}

Result cuda::cuGetErrorName(Result error, const char **name) {
  const ErrorText *found = findError(error);
  *name = found ? found->name : nullptr;
  return found ? Success : InvalidValue;
}

Result cuda::cuGetErrorString(Result error, const char **text) {
  const ErrorText *found = findError(error);
  *text = found ? found->text : nullptr;
  return found ? Success : InvalidValue;
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

/// Reads the settings from the environment. Prints an error message and returns
/// Unknown if they are wrong.
static Result readSettings(Settings &settings) {
  try {
    settings = Settings::fromEnvironment();
    return Success;
  } catch (const std::string &wrong) {
    complain(wrong);
    return Unknown;
  }
}

Result cuda::cuInit(unsigned flags) {
  DriverState &state = DriverState::get();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (flags != 0)
    return InvalidValue;
  state.isReady = false;
  if (Result wrong = readSettings(state.settings); wrong != Success)
    return wrong;
  if (state.settings.devices == 0)
    return NoDevice;
  state.isReady = true;
  return Success;
}

Result cuda::cuDriverGetVersion(int *version) {
  Settings settings;
  Result read = readSettings(settings);
  *version = read == Success ? settings.driver : 0;
  return read;
}

/// Looks up a function of the driver by its name without a version suffix, as
/// cuGetProcAddress of the real driver does.
Result cuda::cuGetProcAddress_v2(const char *name, void **address, int version,
                                 uint64_t, ProcAddressResult *found) {
  std::string_view wanted = name;
  *address = nullptr;
#define HEDDLE_ENTRY(NAME, SYMBOL, PARAMETERS)                                 \
  if (wanted == std::string_view(#SYMBOL).substr(0, wanted.size()) &&          \
      (sizeof(#SYMBOL) - 1 == wanted.size() ||                                 \
       std::string_view(#SYMBOL).substr(wanted.size()) == "_v2"))              \
    *address = reinterpret_cast<void *>(&SYMBOL);
  HEDDLE_CUDA_CALLS(HEDDLE_ENTRY)
  HEDDLE_CUDA_MORE_CALLS(HEDDLE_ENTRY)
#undef HEDDLE_ENTRY
  bool isThere = *address && version <= DriverState::get().settings.driver;
  if (found)
    *found = isThere    ? ProcAddressFound
             : *address ? ProcAddressTooNew
                        : ProcAddressNotFound;
  if (!isThere)
    *address = nullptr;
  return isThere ? Success : NotFound;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

Result cuda::cuDeviceGetCount(int *count) {
  return inDriver([&](DriverState &state) {
    *count = state.settings.devices;
    return Success;
  });
}

Result cuda::cuDeviceGet(DeviceNumber *device, int ordinal) {
  return inDriver([&](DriverState &state) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < state.settings.devices ? Success
                                                            : InvalidDevice;
  });
}

/// Runs `work` for a call about the device with this number. Returns
/// InvalidDevice if there is no such device.
static Result onDevice(DeviceNumber device,
                       const std::function<Result(DriverState &)> &work) {
  return inDriver([&](DriverState &state) {
    return device >= 0 && device < state.settings.devices ? work(state)
                                                          : InvalidDevice;
  });
}

Result cuda::cuDeviceGetName(char *name, int bytes, DeviceNumber device) {
  return onDevice(device, [&](DriverState &state) {
    std::snprintf(name, bytes, "%s", state.settings.chip->name);
    return Success;
  });
}

Result cuda::cuDeviceGetUuid_v2(Uuid *uuid, DeviceNumber device) {
  return onDevice(device, [&](DriverState &) {
    std::memset(uuid, 0, sizeof *uuid);
    std::snprintf(uuid->bytes, sizeof uuid->bytes, "emulated %d", device);
    return Success;
  });
}

Result cuda::cuDeviceTotalMem_v2(size_t *bytes, DeviceNumber device) {
  return onDevice(device, [&](DriverState &state) {
    *bytes = state.settings.chip->memoryBytes;
    return Success;
  });
}

Result cuda::cuDeviceGetAttribute(int *value, DeviceAttribute attribute,
                                  DeviceNumber device) {
  return onDevice(device, [&](DriverState &state) {
    const Chip &chip = *state.settings.chip;
    const std::pair<DeviceAttribute, int64_t> values[] = {
        {MaxThreadsPerBlock, 1024},
        {MaxSharedPerBlock, 48 * 1024},
        {WarpSize, 32},
        {MaxRegistersPerBlock, 65536},
        {ClockRate, chip.clock},
        {Multiprocessors, state.settings.multiprocessors},
        {MemoryClockRate, chip.memoryClock},
        {MemoryBusWidth, chip.busBits},
        {L2Bytes, chip.l2Bytes},
        {MaxThreadsPerMultiprocessor, 2048},
        {UnifiedAddressing, 1},
        {ComputeMajor, chip.major},
        {ComputeMinor, chip.minor},
        {MaxSharedPerMultiprocessor, chip.sharedPerMultiprocessor},
        {MaxRegistersPerMultiprocessor, 65536},
        {MaxSharedPerBlockOptin, chip.sharedPerBlock},
        {ClusterLaunch, chip.major >= 9}};
    for (auto [known, number] : values)
      if (known == attribute) {
        *value = int(number);
        return Success;
      }
    complain("the emulated GPU has no attribute " + std::to_string(attribute));
    return InvalidValue;
  });
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

Result cuda::cuDevicePrimaryCtxRetain(Context *context, DeviceNumber device) {
  return onDevice(device, [&](DriverState &state) {
    std::unique_ptr<ContextData> &primary = state.contexts[device];
    if (!primary)
      primary = std::make_unique<ContextData>(device, state.settings);
    ++primary->users;
    *context = primary.get();
    return Success;
  });
}

Result cuda::cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  return onDevice(device, [&](DriverState &state) {
    auto found = state.contexts.find(device);
    if (found == state.contexts.end())
      return InvalidContext;
    if (--found->second->users == 0) {
      found->second->writeCounts();
      state.contexts.erase(found);
    }
    return Success;
  });
}

Result cuda::cuCtxSetCurrent(Context context) {
  return inDriver([&](DriverState &) {
    current = context;
    return Success;
  });
}

Result cuda::cuCtxGetCurrent(Context *context) {
  return inDriver([&](DriverState &) {
    *context = current;
    return Success;
  });
}

Result cuda::cuCtxSynchronize() {
  return inContext([](ContextData &context) {
    context.countWait(context.graphLaunches);
    context.timeline.finish();
    return Success;
  });
}
