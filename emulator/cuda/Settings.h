//===- Settings.h - What the emulated GPUs are like -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_SETTINGS_H
#define HEDDLE_EMULATOR_CUDA_SETTINGS_H

#include "heddle/emulator/ptx/Machine.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"

#include <string>

namespace heddle::rt::cuda {

/// A GPU's attributes, as its maker states them.
struct Chip {
  const char *target; ///< As "sm_90".
  const char *name;
  int major, minor;
  int multiprocessors;
  int sharedPerMultiprocessor, sharedPerBlock; ///< The most, when asked for.
  int64_t l2Bytes, memoryBytes;
  int clock, memoryClock; ///< In kHz.
  int busBits;
};

/// The version of PTX, times ten, that a driver for this version of CUDA (12040
/// is 12.4) compiles; 0 if there is no such version.
int newestPtx(int cuda);

/// What HEDDLE_EMULATE_CHIP, _DRIVER, _DEVICES, _CHECK, _APPROX, _FAULT,
/// _COUNTS and HEDDLE_EMULATE say.
struct Settings {
  enum class Order {
    Late,  ///< Work is done when somebody waits for it.
    Early, ///< Work is done when it is submitted.
    Seed   ///< In an order that the seed chooses, as blocks and warps are.
  };
  const Chip *chip = nullptr;
  int devices = 1;
  /// The version of CUDA that the driver is for: the lowest that will do.
  int driver = lowestCudaDriver;
  Order order = Order::Late;
  uint64_t seed = 0;
  emulator::Options machine;
  int queues = 8;     ///< From the host to the GPU, for its streams.
  std::string counts; ///< The file that gets what was counted; empty: none.

  /// What is wrong with the machine, for tests.
  int64_t freeBytes = -1;  ///< -1: what the chip has.
  int64_t faultAt = -1;    ///< The launch that loses the GPU, from 0 on.
  bool isFaultEcc = false; ///< It is an error of the GPU's memory.
  /// What befalls this process: SIGKILL or SIGSTOP, 0 for neither; at the call
  /// of that name and number, or at the "kernel" or "exchange" of that number.
  int signal = 0;
  std::string signalAt;
  int64_t signalNumber = 0;

  /// Throws a std::string that says which of them makes no sense.
  static Settings fromEnvironment();
  /// How the machine runs the launch of that number.
  emulator::Options machineOf(int64_t launch) const {
    emulator::Options options = machine;
    if (order == Order::Seed)
      options.order = (seed << 32) + uint64_t(launch);
    return options;
  }
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_SETTINGS_H
