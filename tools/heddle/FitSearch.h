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

/// A configuration of a training, and what its plan needs. It consists of a
/// mesh, a ZeRO stage, offloading, a micro-batch and recomputation. The output
/// of `heddle fit` calls it a mixture.
struct Mixture {
  config::Settings settings;
  config::Flags flags; ///< The flags of this configuration.
  /// The bytes of each kind of memory on the rank that needs most of this kind.
  plan::PerMemory<int64_t> bytes;
  std::vector<plan::Owner> owners; ///< Owners of the largest rank's bytes.
  double stepSeconds = 0;          ///< 0: the cluster file has too few rates.
};

/// The limits of a rank's memory in bytes. A limit of 0 means no limit.
struct MemoryLimits {
  int64_t device = 0; ///< On x86-64: device, host and pinned together.
  int64_t host = 0;   ///< Host and pinned.
  int64_t file = 0;
};

/// Searches configurations that fit the memory of the cluster's ranks. Compiles
/// each to a plan, unless its parameters, gradients and optimizer states alone
/// turn out to need too much memory. All ranks of the cluster are used.
/// Settings that the user has set are kept. The search chooses these:
/// - the mesh over `data`, `tensor` and `pipe`, with each group of tensor ranks
///   on one node;
/// - the ZeRO stage;
/// - which states are offloaded: optimizer states, then also gradients or
///   parameters, then all three. They are offloaded to the kinds of memory of
///   which the cluster file or a budget states the size. Offloading is tried
///   only if the configuration would otherwise need recomputation or a smaller
///   micro-batch;
/// - whether the host's cores update states that a GPU offloads to host memory.
///   The fastest configuration with states in host memory is also tried with
///   pinned memory;
/// - the micro-batch: from one row on, doubled as long as it fits;
/// - recomputation: as little as fits, since it takes time. If some is needed,
///   less recomputation is also tried together with offloaded activations.
class FitSearch {
public:
  /// Makes a job of flags, after reading and checking them. Throws a UserError
  /// if they are impossible. It is called for each configuration, with the
  /// user's flags (`given`) and the flags that the search adds.
  using MakeJob = std::function<CompileJob(const config::Flags &flags)>;
  FitSearch(MakeJob makeJob, config::Flags given,
            const config::ResolvedSettings &base,
            const config::Cluster &cluster);

  /// Searches the configurations. Throws H0113 if neither the cluster file nor
  /// a budget states the size of the memory.
  void run();

  MemoryLimits limits;
  /// The configurations that fit, the fastest first. If their times are
  /// unknown, those that need the least memory are first.
  std::vector<Mixture> fitting;
  /// The configuration that is nearest to fitting (see needOf). Set only if no
  /// configuration fits.
  std::optional<Mixture> nearest;
  /// Flags with which the configuration `nearest` would fit, or "" if none were
  /// found.
  std::string change;
  struct Counts {
    std::atomic<int64_t> compiled = 0, fitting = 0;
    /// The number of configurations whose parameters, gradients and optimizer
    /// states alone do not fit. Their compilation was stopped early, or not
    /// started.
    std::atomic<int64_t> tooLarge = 0;
  };
  const Counts &counts() const { return *found; }
  bool isHostUnrated = false; ///< Some host updates have no time (ClusterCost).
  /// The first of several equal errors that made configurations impossible, and
  /// the number of these configurations.
  struct Refusal {
    Diagnostic first;
    int64_t times = 0;
  };
  /// The errors of impossible configurations. The key is the error's message.
  std::map<std::string, Refusal> impossible;

private:
  /// A mesh to try: its flags, and its number of data ranks.
  struct Mesh {
    config::Flags flags;
    int64_t data;
  };

  /// Kinds of memory to try for states. `places` has values of --place. All of
  /// them are tried, since the fastest is not known in advance. Each is tried
  /// with all values of --host-updates in `updates`.
  struct Placement {
    std::vector<std::string> places;
    std::vector<std::string> updates;
  };

  bool isGiven(const char *key) const;
  bool hasMesh() const;
  int64_t ranks() const;
  /// Whether the user gives the flag `name`, which the search would otherwise
  /// choose.
  bool hasFlag(const char *name) const;
  std::vector<Mesh> meshes() const;
  std::vector<std::string> choices(const char *key,
                                   std::vector<std::string> all) const;
  std::vector<std::string> stages(const Mesh &mesh) const;
  std::vector<Placement> placements() const;
  std::vector<std::string> microBatches(const Mesh &mesh) const;
  bool isPlaced() const;
  std::vector<std::string> otherMemories() const;
  /// How much memory is left for activations. None: too little, even with
  /// recomputation and offloading. Scarce: enough with recomputation or
  /// offloading. Ample: enough for all activations.
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
  /// Whether a configuration that needs at least `bytes` may still fit the
  /// limits. If `wanted` is Nearest: whether it may be nearer to fitting than
  /// the present `nearest`.
  bool mayBe(Wanted wanted, const Bytes &bytes) const;
  std::optional<Mixture> plan(const config::Flags &flags, Wanted wanted,
                              Bytes &ofModel);
  /// Compiles a configuration, and adds it to the result if it fits. Returns
  /// whether it fits. `ofModel` has the bytes of parameters, gradients and
  /// optimizer states that earlier compilations have found (0: unknown). The
  /// function updates `ofModel`.
  bool add(const config::Flags &flags, Bytes &ofModel);
  std::array<std::pair<int64_t, int64_t>, 3> boundsOf(const Bytes &bytes) const;
  /// Returns how many of the bytes are above the limits, summed over all kinds
  /// of memory.
  int64_t excess(const Bytes &bytes) const;
  /// Returns how far a configuration with these bytes is from fitting: first
  /// the bytes above the limits, then all bytes. Smaller is nearer.
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
  /// If no configuration fits, `nearest` is chosen from these. Each has the
  /// bytes of its parameters, gradients and optimizer states that earlier
  /// compilations have found (0: unknown).
  std::vector<std::pair<config::Flags, Bytes>> least;

  /// How many configurations the whole search has compiled, found to fit, or
  /// found too large. The searches of single meshes run in parallel, and add to
  /// the same counts.
  struct Shared : Counts {
    std::mutex mutex; ///< Guards `lastSaid`.
    std::chrono::steady_clock::time_point lastSaid =
        std::chrono::steady_clock::now();
  };
  std::shared_ptr<Shared> found = std::make_shared<Shared>();
};

/// Returns flags of `heddle compile` for the settings that the search chooses.
std::string flagsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_FITSEARCH_H
