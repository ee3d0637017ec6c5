//===- FitSearch.h - Searches configurations that fit a cluster -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches configurations that fit the memory of a cluster, for `heddle fit`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_FITSEARCH_H
#define HEDDLE_TOOLS_HEDDLE_FITSEARCH_H

#include "CompileJob.h"
#include "heddle/Import/Parallel.h"
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace heddle::driver {

/// A configuration, which `heddle fit` calls a mixture (mesh, ZeRO stage,
/// offloading, micro-batch, recomputation), and what its plan needs.
struct Mixture {
  config::Settings settings;
  config::Flags flags; ///< The flags of this configuration.
  /// Bytes of each kind of memory, of the rank that needs most of it.
  plan::PerMemory<int64_t> bytes;
  std::vector<plan::Owner> owners; ///< Owners of the largest rank's bytes.
  double stepSeconds = 0;          ///< 0: the cluster file has too few rates.
};

/// The memory of a rank in bytes; 0: no limit.
struct MemoryLimits {
  int64_t device = 0; ///< On x86-64: device, host and pinned together.
  int64_t host = 0;   ///< Host and pinned.
  int64_t file = 0;
};

/// Compiles configurations to plans, or until their parameters, gradients and
/// optimizer are known to need too much memory. All ranks of the cluster are
/// used. Settings that the user has set are kept; the search chooses the rest:
/// - the mesh over `data`, `tensor` and `pipe`, with tensor ranks inside a
///   node;
/// - the ZeRO stage;
/// - what to offload: optimizer states; also gradients; also parameters. It
///   goes to host memory or files, as the cluster file or a budget allows, and
///   only if without it recomputation or a smaller micro-batch would be needed;
/// - whether the host's cores update states that a GPU offloads to host memory.
///   The fastest of these configurations is also tried with pinned memory;
/// - the micro-batch, from one row, doubled as long as it fits;
/// - recomputation: as little as fits, since it takes time. If some is needed,
///   less of it is tried with offloaded activations.
class FitSearch {
public:
  /// Reads and checks flags; throws a UserError if they are impossible. Called
  /// for each configuration, with `given` and more flags.
  using MakeJob = std::function<CompileJob(const config::Flags &flags)>;
  FitSearch(MakeJob makeJob, config::Flags given,
            const config::ResolvedSettings &base,
            const config::Cluster &cluster);

  /// Throws H0113 if nothing states the size of the memory.
  void run();

  MemoryLimits limits;
  /// The configurations that fit, fastest first; if times are unknown, smallest
  /// first.
  std::vector<Mixture> fitting;
  /// The configuration that needs the least memory, if none fits.
  std::optional<Mixture> nearest;
  /// Flags with which `nearest` would fit, or "".
  std::string change;
  struct Counts {
    std::atomic<int64_t> compiled = 0, fitting = 0;
    /// Configurations that do not fit because of parameters, gradients and
    /// optimizer alone. They were not compiled completely, or not at all.
    std::atomic<int64_t> tooLarge = 0;
  };
  const Counts &counts() const { return *found; }
  bool isHostUnrated = false; ///< Some host updates have no time (ClusterCost).
  /// An error of impossible configurations.
  struct Refusal {
    Diagnostic first;
    int64_t times = 0;
  };
  /// Errors of impossible configurations, by message.
  std::map<std::string, Refusal> impossible;

private:
  /// Flags for a mesh, and its number of data ranks.
  struct Mesh {
    config::Flags flags;
    int64_t data;
  };

  /// A choice of memory for the states. `places`: values of --place, any of
  /// which may be the fastest. `updates`: values of --host-updates to try with
  /// each.
  struct Placement {
    std::vector<std::string> places;
    std::vector<std::string> updates;
  };

  bool isGiven(const char *key) const;
  bool hasMesh() const;
  int64_t ranks() const;
  /// Whether the user gives a flag that the search would choose.
  bool hasFlag(const char *name) const;
  std::vector<Mesh> meshes() const;
  std::vector<std::string> choices(const char *key,
                                   std::vector<std::string> all) const;
  std::vector<std::string> stages(const Mesh &mesh) const;
  std::vector<Placement> placements() const;
  std::vector<std::string> microBatches(const Mesh &mesh) const;
  bool isPlaced() const;
  std::vector<std::string> otherMemories() const;
  /// Room for activations. None: too little; Scarce: enough with recomputation
  /// or offloading; Ample: enough for all.
  enum class Room { None, Scarce, Ample };
  /// Prints the progress of a long search to stderr.
  void sayProgress();
  void searchMeshes();
  void merge(FitSearch part);
  void searchPlaces(const Mesh &mesh);
  bool searchRows(const Mesh &mesh);
  using Bytes = plan::PerMemory<int64_t>; ///< Memory of a rank.
  Room searchActivations(const config::Flags &flags, Bytes &ofModel);
  void refuse(const Diagnostic &error);
  enum class Wanted { Fitting, Nearest };
  /// Whether a configuration that needs at least these bytes may be wanted.
  bool mayBe(Wanted wanted, const Bytes &bytes) const;
  std::optional<Mixture> plan(const config::Flags &flags, Wanted wanted,
                              Bytes &ofModel);
  /// Adds the configuration if it fits; returns whether it does. `ofModel`: see
  /// `plan`.
  bool add(const config::Flags &flags, Bytes &ofModel);
  std::array<std::pair<int64_t, int64_t>, 3> boundsOf(const Bytes &bytes) const;
  /// The bytes above the limits, summed over all kinds of memory.
  int64_t excess(const Bytes &bytes) const;
  /// Returns how far a configuration with these bytes is from fitting; smaller
  /// is nearer.
  std::pair<int64_t, int64_t> needOf(const Bytes &bytes) const {
    return {excess(bytes), bytes.total()};
  }
  void findNearest();
  void findChange();
  void addPinned();
  void sort();
  void setLimits();

  MakeJob makeJob;
  config::Flags given;
  const config::ResolvedSettings &base;
  const config::Cluster &cluster;
  int64_t batch;
  /// Configurations that may become `nearest`, with the known bytes of their
  /// parameters, gradients and optimizer.
  std::vector<std::pair<config::Flags, Bytes>> least;

  /// Counts that the searches of all meshes share.
  struct Shared : Counts {
    std::mutex mutex; ///< Guards `lastSaid`.
    std::chrono::steady_clock::time_point lastSaid =
        std::chrono::steady_clock::now();
  };
  std::shared_ptr<Shared> found = std::make_shared<Shared>();
};

/// The settings in which two configurations of a search may differ, as flags of
/// `heddle compile`.
std::string flagsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_FITSEARCH_H
