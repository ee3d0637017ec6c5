//===- Driver.cpp - The CUDA driver, loaded at run time -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads libcuda.so.1, finds its functions by dlsym, and turns its error codes
// into Heddle's errors.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/Driver.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

static const char *const emulateHelp =
    "or run it without a GPU: heddle emulate -- COMMAND";

[[noreturn]] static void failTooOld(const std::string &what) {
  fail("H0281", "NVIDIA's driver is too old: " + what,
       "install a driver for CUDA " + versionText(lowestCudaDriver) +
           " or newer, " + emulateHelp);
}

std::string Driver::describe(Result error) const {
  const char *name = nullptr, *text = nullptr;
  if (errorName(error, &name) != Success || errorText(error, &text) != Success)
    return "error " + std::to_string(error);
  return std::string(name) + " (" + std::to_string(error) + ", " + text + ")";
}

std::string Driver::version() const {
  int version = 0;
  return driverVersion(&version) == Success ? versionText(version) : "?";
}

std::string cuda::pathOfLibrary(const void *function) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "?";
}

std::string Driver::path() const {
  return pathOfLibrary(reinterpret_cast<void *>(init));
}

static Driver loadDriver() {
  // Streams that share a hardware queue block each other. This must not happen
  // to streams that communicate with other ranks. So the number of queues is
  // set to the maximum, 32; the default is 8, and some environments set 1.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/1);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    fail("H0280",
         std::string("there is no driver for NVIDIA's GPUs: ") +
             (reason ? reason : "libcuda.so.1 is not there"),
         std::string("install NVIDIA's driver, ") + emulateHelp);
  }
  Driver driver;
#define HEDDLE_FIND(NAME, SYMBOL, PARAMETERS)                                  \
  driver.NAME =                                                                \
      reinterpret_cast<decltype(driver.NAME)>(dlsym(library, #SYMBOL));        \
  if (!driver.NAME)                                                            \
    failTooOld("it has no " #SYMBOL);
  HEDDLE_CUDA_CALLS(HEDDLE_FIND)
#undef HEDDLE_FIND
  return driver;
}

const Driver &Driver::get() {
  // The driver is never unloaded, since its state in this process could not be
  // restored.
  static const Driver driver = loadDriver();
  int version = 0;
  if (driver.driverVersion(&version) == Success && version < lowestCudaDriver)
    failTooOld("it is for CUDA " + versionText(version));
  Result started = driver.init(0);
  int count = 0;
  if (started == Success)
    started = driver.deviceCount(&count);
  if (started == Success && count == 0)
    started = NoDevice;
  if (started != Success)
    fail("H0282",
         "this binary computes on an NVIDIA GPU, and the driver finds none: " +
             driver.describe(started),
         std::string("see what nvidia-smi says and CUDA_VISIBLE_DEVICES, ") +
             emulateHelp);
  return driver;
}

void cuda::check(Result result, const std::string &doing) {
  std::string what = doing + ": ";
  switch (result) {
  case Success:
    return;
  case IllegalAddress:
  case LaunchTimeout:
  case Assert:
  case HardwareStackError:
  case IllegalInstruction:
  case MisalignedAddress:
  case InvalidAddressSpace:
  case InvalidPc:
  case LaunchFailed:
    fail("H0434",
         "a kernel failed on the GPU, as seen in " + what +
             Driver::get().describe(result),
         "run it again with --sync, which names the kernel and its module, "
         "and report both as a bug");
  case EccUncorrectable:
  case NvlinkUncorrectable:
  case Contained:
  case DeviceUnavailable:
  case NoDevice:
  case SystemNotReady:
  case Unknown:
    fail("H0435",
         "the GPU is lost, as seen in " + what + Driver::get().describe(result),
         "see what nvidia-smi and dmesg say of it, then go on from the last "
         "checkpoint with --resume");
  default:
    fail("H0436",
         "the GPU's driver refused " + what + Driver::get().describe(result),
         "report this as a bug");
  }
}
