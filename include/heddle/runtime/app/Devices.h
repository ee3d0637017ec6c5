//===- Devices.h - Choose and open the device of a rank ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses which of a binary's targets (CPU or GPU code) this rank runs, and
// opens its device and offload files. Flags, the plan and the machine's
// hardware decide.
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

/// The flags of a binary that choose and configure its device.
struct DeviceOptions {
  std::string kind;     ///< The device: cpu or cuda; empty: the binary chooses.
  bool sync = false;    ///< Wait for each launch, so that a fault names it.
  bool noGraph = false; ///< Submit each launch alone instead of a CUDA graph.
  bool shared = false;  ///< Several ranks may share a GPU.
  /// The part of the GPU's free memory that a plan may use whose cache of keys
  /// and values is as large as the GPU allows.
  double memoryShare = 0.9;
  /// Which kernels compute matrix products on a GPU: auto, library (cuBLASLt)
  /// or generated. If empty, the value given to the compiler is used.
  std::string gemm;
  /// Directories of offload files, in the syntax of io::OffloadDirectories. If
  /// empty, those given to the compiler are used.
  std::string swapDirectories;
  bool checksSwap = false; ///< Verify offload files (OffloadFile::verify).
};

/// Returns the index of the target in `targets` that this rank runs: the newest
/// GPU target that its GPU supports, or the CPU target if it has no GPU. Throws
/// H0172 when the binary has no code for the kind of device that was requested.
size_t chooseTarget(const std::vector<Binary> &targets,
                    const DeviceOptions &options, int64_t localRank);

/// Warns if the CPU was chosen because the binary's GPU code cannot run on this
/// machine's GPU. The warning gives the error that `--device cuda` would
/// report. Does not warn if no GPU driver is installed.
void warnOfIdleGpu(const std::vector<Binary> &targets, size_t chosen,
                   const DeviceOptions &options, int64_t localRank);

/// Returns the directories that have the plan's offload files, and for each
/// directory what its files hold: optimizer states, parameters, gradients or
/// activations.
std::map<std::string, std::vector<plan::FileRole>>
usedDirectories(const plan::Plan &plan, const OffloadOptions &swap);

/// Warns (H0463) if offload files would occupy main memory (see
/// io::fillsMemory).
void warnOfOffloadInMemory(const plan::Plan &plan,
                           const DeviceOptions &options);

/// Opens the device for the plan's kernels. Throws H0190 when the environment
/// variable HEDDLE_DEVICE (for tests) or HEDDLE_SWAP_IO has an unknown value.
/// Throws H0177 when cuBLASLt is requested but the plan has no products that
/// cuBLASLt can compute. Throws also the errors of the device.
std::unique_ptr<Device> openDevice(const plan::Plan &plan,
                                   const DeviceOptions &options,
                                   int64_t localRank, ThreadPool &pool);

/// Reduces the cache of keys and values of `plan` to what this rank's GPU has
/// free, if the plan leaves the size of its cache to the GPU. All ranks choose
/// the same number of pages. `draft` is the plan of the draft model, whose
/// cache has as many pages, or null. Throws H0284 if not even one sequence
/// fits. Collective.
void fitCache(plan::Plan &plan, const plan::Plan *draft, const Device &device,
              const DeviceOptions &options, io::Peers &ranks);

/// Throws H0285 on all ranks when two ranks use the same GPU. Collective.
void requireOwnGpu(const Device &device, io::Peers &ranks);

/// Whether NCCL accepts these ranks: it refuses two ranks of one machine (or of
/// one value of NCCL_HOSTID) on the same GPU. Collective; all ranks get the
/// same answer.
bool mayUseNccl(const Device &device, io::Peers &ranks);

/// Creates a CPU device for tests. `name` is `cpu` (or null), or
/// `separate:SEED` for a device that keeps its memory apart from the host's.
/// Throws H0190 for another name.
std::unique_ptr<Device> makeDevice(const char *name, ThreadPool &pool,
                                   const OffloadOptions &swap = {});

/// Returns the settings of offload files (directories, request size, I/O
/// method). Values that the user gives override those of the plan.
OffloadOptions chooseOffload(const plan::Plan &plan,
                             const DeviceOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DEVICES_H
