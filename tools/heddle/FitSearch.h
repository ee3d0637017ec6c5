//===- FitSearch.h - Which mixtures fit a cluster's memory ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// A mixture of mesh, ZeRO, placement, micro-batch and recomputation, and what
/// its plan needs.
struct Mixture {
  config::Settings settings;
  config::Flags flags; ///< That ask for it.
  /// Of the rank that needs most of each kind, in bytes.
  plan::PerMemory<int64_t> bytes;
  std::vector<plan::Owner> owners; ///< Of the rank that needs most.
  double stepSeconds = 0;          ///< 0: the cluster says too little.
};

/// The bytes that a rank may have; 0: no limit.
struct MemoryLimits {
  int64_t device = 0; ///< On x86-64 of device, host and pinned together.
  int64_t host = 0;   ///< Of host and pinned.
  int64_t file = 0;
};

/// Compiles mixtures up to their plans, or until their parameters, gradients
/// and optimizer are known to need more than there is. Ranks are those of the
/// cluster, all of them. What the user's settings say is kept; the rest is
/// searched:
///
/// - the mesh over `data`, `tensor` and `pipe`, tensor ranks inside a node;
/// - the ZeRO stage;
/// - states of the optimizer, and with them gradients, and with these
///   parameters, in the device's memory, the host's or on file, where the
///   cluster or a budget has such and what is tried before needs recomputation
///   or fewer rows at a time;
/// - for states in the memory beside a GPU, whether its cores update them; and
///   of what fits so, the fastest with these states in pinned memory;
/// - the micro-batch, from one row, doubled as long as it fits;
/// - recomputation: the least that fits, since more takes longer;
/// - where some is needed, less of it with activations in other memory.
class FitSearch {
public:
  /// Reads and checks what flags say; throws a UserError where that is not
  /// possible. Called for each mixture, with `given` and more.
  using MakeJob = std::function<CompileJob(const config::Flags &flags)>;
  FitSearch(MakeJob makeJob, config::Flags given,
            const config::ResolvedSettings &base,
            const config::Cluster &cluster);

  /// Throws H0113 where nothing says how much memory there is.
  void run();

  MemoryLimits limits;
  std::vector<Mixture> fitting; ///< The fastest first; else the smallest.
  /// The least that any mixture needs, where none fits.
  std::optional<Mixture> nearest;
  /// Flags with which `nearest` fits; or "".
  std::string change;
  struct Counts {
    std::atomic<int64_t> compiled = 0, fitting = 0;
    /// Mixtures whose parameters, gradients and optimizer alone do not fit:
    /// they were not compiled to the end, or not at all.
    std::atomic<int64_t> tooLarge = 0;
  };
  const Counts &counts() const { return *found; }
  bool isHostUnrated = false; ///< See ClusterCost, of any mixture.
  /// An error of mixtures that are not possible.
  struct Refusal {
    Diagnostic first;
    int64_t times = 0;
  };
  /// Why mixtures are not possible, by what is said.
  std::map<std::string, Refusal> impossible;

private:
  /// Flags that say a mesh, and its ranks along `data`.
  struct Mesh {
    config::Flags flags;
    int64_t data;
  };

  /// Flags that say where states are, of which each may be the fastest, and
  /// which part of them the host updates.
  struct Placement {
    std::vector<std::string> places;
    std::vector<std::string> updates;
  };

  bool isGiven(const char *key) const;
  bool hasMesh() const;
  int64_t ranks() const;
  /// Whether the user gives a flag of which a search makes its own.
  bool hasFlag(const char *name) const;
  std::vector<Mesh> meshes() const;
  std::vector<std::string> choices(const char *key,
                                   std::vector<std::string> all) const;
  std::vector<std::string> stages(const Mesh &mesh) const;
  std::vector<Placement> placements() const;
  std::vector<std::string> microBatches(const Mesh &mesh) const;
  bool isPlaced() const;
  std::vector<std::string> otherMemories() const;
  /// What there is for activations: enough to keep all of them, only if some
  /// are computed again or are elsewhere, or too little.
  enum class Room { None, Scarce, Ample };
  /// Says on stderr how far a search is that takes long.
  void sayProgress();
  void searchMeshes();
  void merge(FitSearch part);
  void searchPlaces(const Mesh &mesh);
  bool searchRows(const Mesh &mesh);
  using Bytes = plan::PerMemory<int64_t>; ///< Of a rank.
  Room searchActivations(const config::Flags &flags, Bytes &ofModel);
  void refuse(const Diagnostic &error);
  enum class Wanted { Fitting, Nearest };
  /// Whether a mixture may be what is wanted that has so many bytes, or more.
  bool mayBe(Wanted wanted, const Bytes &bytes) const;
  std::optional<Mixture> plan(const config::Flags &flags, Wanted wanted,
                              Bytes &ofModel);
  /// Adds the mixture if it fits; whether it does. `ofModel`: as `plan`.
  bool add(const config::Flags &flags, Bytes &ofModel);
  std::array<std::pair<int64_t, int64_t>, 3> boundsOf(const Bytes &bytes) const;
  /// The bytes that are more than the limits, of all kinds of memory together.
  int64_t excess(const Bytes &bytes) const;
  /// The smaller, the nearer it is to what there is.
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
  /// Mixtures that may be `nearest`, and what their models need.
  std::vector<std::pair<config::Flags, Bytes>> least;

  /// What the searches of all meshes share.
  struct Shared : Counts {
    std::mutex mutex; ///< Of `lastSaid`.
    std::chrono::steady_clock::time_point lastSaid =
        std::chrono::steady_clock::now();
  };
  std::shared_ptr<Shared> found = std::make_shared<Shared>();
};

/// What two mixtures of one search differ in, as flags of `heddle compile`.
std::string flagsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_FITSEARCH_H
