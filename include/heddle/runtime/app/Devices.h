//===- Devices.h - Which device runs a binary -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DEVICES_H
#define HEDDLE_RUNTIME_APP_DEVICES_H

#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/core/OffloadMemory.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/io/Peers.h"

#include <map>
#include <memory>
#include <string>

namespace heddle::rt {

/// What the user says of the device.
struct DeviceOptions {
  std::string kind;     ///< cpu, cuda; empty: what the binary is for.
  bool sync = false;    ///< Wait for each launch, so that a fault names it.
  bool noGraph = false; ///< Submit each launch by itself.
  bool shared = false;  ///< Several ranks may have one GPU.
  /// auto, library, generated; empty: as the binary was compiled.
  std::string gemm;
  std::string swapDirectories; ///< See io::OffloadDirectories; as compiled.
  bool checksSwap = false;     ///< See io::OffloadFile::verify.
};

/// Which of the targets that a binary holds runs here: of those for GPUs the
/// newest that this rank's GPU runs; where there is no GPU, that for CPUs.
/// Throws H0172 when the binary holds no code for the kind that is asked for.
size_t chooseTarget(const std::vector<Binary> &targets,
                    const DeviceOptions &options, int64_t localRank);

/// Warns of a GPU that the binary holds code for and that cannot run it, with
/// the error of `--device cuda`, when the CPU was chosen in its place. Without
/// a driver there is none, and nothing is said.
void warnOfIdleGpu(const std::vector<Binary> &targets, size_t chosen,
                   const DeviceOptions &options, int64_t localRank);

/// The directories of the plan's files, each with the roles of those in it.
std::map<std::string, std::vector<plan::FileRole>>
usedDirectories(const plan::Plan &plan, const OffloadOptions &swap);

/// Warns (H0463) where what the plan has on file would be in memory all the
/// same (see io::fillsMemory).
void warnOfCachedSwap(const plan::Plan &plan, const DeviceOptions &options);

/// Opens the device that the plan's kernels are for. Throws H0190 when the
/// variable HEDDLE_DEVICE (for tests) names no device or HEDDLE_SWAP_IO no way
/// to move bytes, H0177 when cuBLASLt is asked for and the plan has no products
/// for it, and what the device throws.
std::unique_ptr<Device> openDevice(const plan::Plan &plan,
                                   const DeviceOptions &options,
                                   int64_t localRank, ThreadPool &pool);

/// Throws H0285 when two ranks have the same GPU, on all; every rank calls it.
void requireOwnGpu(const Device &device, io::Peers &ranks);

/// Whether NCCL would take these ranks: it refuses two that are on one machine
/// and have the same GPU. What a machine is to it, the variable NCCL_HOSTID may
/// say. Every rank calls this, and hears the same.
bool mayUseNccl(const Device &device, io::Peers &ranks);

/// The device of a CPU that `name` (null: unsaid) means, as tests choose it:
/// `cpu`, or `separate` with a seed behind a colon. Throws H0190 for anything
/// else.
std::unique_ptr<Device> makeDevice(const char *name, ThreadPool &pool,
                                   const OffloadOptions &swap = {});

/// How a device swaps: as the user says, else as the plan does, and by what
/// HEDDLE_SWAP_IO names.
OffloadOptions chooseSwap(const plan::Plan &plan, const DeviceOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DEVICES_H
