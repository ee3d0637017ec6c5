//===- Settings.h - Settings of the emulated GPUs ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the environment variables HEDDLE_EMULATE and HEDDLE_EMULATE_*, which
// docs/emulator.md describes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_SETTINGS_H
#define HEDDLE_EMULATOR_CUDA_SETTINGS_H

#include "heddle/emulator/ptx/Machine.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"

#include <string>

namespace heddle::rt::cuda {

/// Attributes of a GPU model, from NVIDIA's documentation.
struct Chip {
  const char *target; ///< The name of its target in PTX, such as "sm_90".
  const char *name;
  int major, minor;
  int multiprocessors;
  /// Sizes of shared memory in bytes. `sharedPerBlock` is the limit for kernels
  /// that ask for more than the default.
  int sharedPerMultiprocessor, sharedPerBlock;
  int64_t l2Bytes, memoryBytes;
  int clock, memoryClock; ///< Clock rates of processors and memory, in kHz.
  int busBits;
};

/// Returns the newest PTX version, times ten, that a driver for the CUDA
/// version `cuda` accepts. `cuda` is 12040 for 12.4. Returns 0 if there is no
/// such version.
int newestPtx(int cuda);

/// The values of HEDDLE_EMULATE and HEDDLE_EMULATE_CHIP, _MULTIPROCESSORS,
/// _DRIVER, _DEVICES, _CHECK, _APPROX, _FAULT and _COUNTS.
struct Settings {
  enum class Order {
    Late,  ///< Commands run when the host waits for them.
    Early, ///< Commands run when they are submitted.
    Seed   ///< Commands run in a random order, and so do blocks and warps.
  };
  const Chip *chip = nullptr;
  int multiprocessors = 0; ///< By default those of the chip.
  int devices = 1;
  /// The CUDA version of the emulated driver. By default it is the lowest that
  /// Heddle supports.
  int driver = lowestCudaDriver;
  Order order = Order::Late;
  uint64_t seed = 0;
  emulator::Options machine;
  int queues = 8; ///< Number of hardware queues for the GPU's streams.
  /// The file to which the numbers of driver calls and launches are written;
  /// empty if they are not written.
  std::string counts;

  /// The fields from here on describe faults for tests. `freeBytes` is how many
  /// bytes of GPU memory are free; -1 means all of the GPU's memory.
  int64_t freeBytes = -1;
  /// Index of the launch at which the GPU fails; -1 if it does not.
  int64_t faultAt = -1;
  bool isFaultEcc = false; ///< Whether the failure is an ECC error.
  /// A signal for this process: SIGKILL, SIGSTOP, or 0 for none. It is sent at
  /// event number `signalNumber` of the kind `signalAt`: the name of a driver
  /// function, "kernel" or "exchange".
  int signal = 0;
  std::string signalAt;
  int64_t signalNumber = 0;

  /// Reads the settings from the environment. If a variable has a wrong value,
  /// throws an error message as a std::string.
  static Settings fromEnvironment();
  /// Returns the options of the PTX interpreter for the launch with this index.
  emulator::Options machineOf(int64_t launch) const {
    emulator::Options options = machine;
    if (order == Order::Seed)
      options.order = (seed << 32) + uint64_t(launch);
    return options;
  }
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_SETTINGS_H
