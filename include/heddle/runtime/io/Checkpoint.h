//===- Checkpoint.h - Checkpoint directories --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a Hugging Face model directory with a folder `heddle/` beside
// the weights:
//
//   DIR/step-000200/config.json                   as the model was read
//   DIR/step-000200/model.safetensors             Hugging Face names, layouts
//   DIR/step-000200/heddle/masters.safetensors    weights that were rounded
//   DIR/step-000200/heddle/optimizer.safetensors  exp_avg.NAME, exp_avg_sq.NAME
//   DIR/step-000200/heddle/state.json             step, seed, data position ...
//   DIR/step-000200/heddle/manifest.json          size, checksum of every file
//   DIR/latest                                    "step-000200"
//
// config.json is that of the model, with the type of the weights. A weight that
// model.safetensors has in a type which rounds it is among the masters, as the
// run had it: runs that resume go on with these bits.
//
// It is there whole or not at all: written to a temporary directory, synced,
// renamed, and only then named in `latest`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CHECKPOINT_H
#define HEDDLE_RUNTIME_IO_CHECKPOINT_H

#include "heddle/runtime/io/DirectoryLock.h"
#include "heddle/runtime/io/Safetensors.h"
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace heddle::io {

/// A token file that is trained on, and how far it has been read.
struct DataSourceState {
  std::string file;   ///< As it was given.
  std::string digest; ///< Of all its tokens; "" when they were not scanned.
  int64_t tokens = 0; ///< In the file.
  double weight = 0;  ///< Of its rows among those of all; 0: not given.
  int64_t taken = 0;  ///< Rows that were taken of it.
  int64_t pass = 0;   ///< Times that it has been read to its end.
  int64_t origin = 0; ///< The token at which the first row of the pass begins.
  int64_t row = 0;    ///< The next row of the pass.
  int64_t passRows = 0; ///< The rows that --shuffle permutes in the pass.
};

/// The data of a run, and how much of it has been read.
struct DataState {
  int64_t rows = 0, tokens = 0; ///< That were trained on.
  int64_t batch = 0, seq = 0;   ///< Rows of a step, and tokens of a row.
  /// The seed of --shuffle, when it was given.
  std::optional<uint64_t> shuffle;
  std::vector<DataSourceState> sources;
};

/// The best validation so far, for --stop-when-no-better.
struct BestValidation {
  double loss = 0;
  int64_t step = 0;
  int64_t worse = 0; ///< Validations since.
};

/// A checkpoint in a --save directory, by its name there and by its content.
struct SavedStep {
  std::string name;
  std::string manifest; ///< The digest of its manifest.
};

/// What training needs besides tensors to go on.
struct CheckpointState {
  int64_t step = 0; ///< Steps done.
  /// Those of them that updated nothing: no label counted. None in the
  /// checkpoints of older versions.
  int64_t skipped = 0;
  uint64_t seed = 0;
  /// Nothing in the checkpoints of older versions: they have `dataSteps`, the
  /// steps that were read from the beginning, and whether with --shuffle.
  std::optional<DataState> data;
  int64_t dataSteps = 0;
  bool shuffled = false;
  std::optional<BestValidation> best;
  std::string planHash;
  /// The name of what keeps the states; empty in the checkpoints of older
  /// versions.
  std::string optimizer;
  /// The hyperparameters that the run was told by flags, and all that it used;
  /// none in the checkpoints of older versions.
  std::map<std::string, double> told, used;
  /// The checkpoints that this run and those that it continues have written
  /// and not removed, in this order. Unknown in those of older versions.
  std::vector<SavedStep> saved;
};

struct CheckpointContents {
  nlohmann::json config; ///< config.json
  std::vector<SharedTensor> model;
  std::vector<SharedTensor> masters; ///< Of what the model has rounded.
  std::vector<SharedTensor> optimizer;
  CheckpointState state;
  /// Files copied beside the weights when they exist (tokenizer.json ...).
  std::vector<std::string> copies;
};

/// Keeps a directory, which is made first, for the checkpoints of this process,
/// and removes what killed runs have left there. One rank of a job calls it.
/// Throws H0433 when another run has the directory.
std::unique_ptr<DirectoryLock> claimSaves(const std::string &directory);

/// How a run begins to save.
struct SaveStart {
  std::string resume;      ///< --resume; empty for a run from the beginning.
  bool overwrites = false; ///< Whether it may replace what others have saved.
  int64_t lastStep = 0;    ///< The last step of the run.
};

/// Throws H0155 where a run that saves into the directory would replace or
/// hide what is there: checkpoints that it does not continue, or something at
/// the name of a checkpoint that is none.
void requireOwnSaves(const std::string &directory, const SaveStart &start);

/// Throws H0155 where the directory has checkpoints that are not those which a
/// run has written.
void requireNoOthers(const std::string &directory,
                     const std::vector<SavedStep> &saved);

/// Adds the checkpoint at `path` to those that a run has written, and forgets
/// those that are no longer beside it.
void noteSaved(const std::string &path, std::vector<SavedStep> &saved);

/// Writes DIR/step-NNNNNN and DIR/latest; with `keepLast` > 0 then removes, of
/// those that `contents.state.saved` names, all but that many of the newest.
/// Returns the path of the checkpoint. Throws H0413 rather than replace what is
/// no checkpoint. Every rank calls it and writes its own pieces; what fails on
/// one fails on all.
std::string saveCheckpoint(const std::string &directory,
                           const CheckpointContents &contents, Peers &peers,
                           int64_t keepLast = 0);

/// The step directory that `path` means: itself, or what its `latest` names.
/// Throws H0360 when it is neither.
std::string resolveCheckpoint(const std::string &path);

/// The directory that holds the model which `path` means: where `path` is a
/// `--save` directory its latest checkpoint, else `path` itself. Throws H0365
/// when `latest` names no checkpoint.
std::string resolveModel(const std::string &path);

/// An opened checkpoint; tensors are mapped when they are read.
struct Checkpoint {
  std::string path;
  CheckpointState state;
  WeightSet model; ///< With masters in the places of what they were rounded to.
  WeightSet optimizer;
};

/// Opens a checkpoint for `--resume`, on every rank, after all its files were
/// checked against the manifest: each by one of the ranks.
Checkpoint openCheckpoint(const std::string &path, Peers &peers);

/// The masters of a checkpoint; none where its model has all bits.
std::optional<WeightSet> openMasters(const std::string &checkpoint);

/// Writes what transformers calls a type of floats into a config.json, as the
/// type of its weights: under the key of transformers 4 and that of 5.
template <typename Json>
void setConfigType(Json &config, const std::string &dtype) {
  if (!config.is_object())
    return;
  for (const char *key : {"dtype", "torch_dtype"})
    config[key] = nameInConfig(dtype);
}

/// Compares the weights that `path` means with the manifest beside them; does
/// nothing where there is none. Sizes are always compared; a file is read for
/// its checksum unless this version of it was before. Every rank calls it, each
/// looks at some files. Throws H0361, H0362 or H0363.
void requireWholeModel(const std::string &path, Peers &peers);
/// The same for all that a conversion reads: everything but what only the
/// optimizer has. Of a file of weights, the checkpoint that it is in.
void requireConvertible(const std::string &path);

/// One file of a manifest and what is wrong with it ("" when nothing is).
struct CheckpointPart {
  std::string file;
  int64_t bytes = 0;
  std::string digest;
  std::string problem;
};

/// `heddle checkpoint verify`: every file against the manifest; does not throw
/// for damaged parts.
std::vector<CheckpointPart> verifyCheckpoint(const std::string &path);

/// `heddle checkpoint inspect`: step, seed, plan, tensors and sizes, as text or
/// as one JSON object.
std::string inspectCheckpoint(const std::string &path, bool json);

/// `heddle checkpoint export`: the Hugging Face part alone, into a directory
/// that does not exist yet or is empty.
void exportCheckpoint(const std::string &path, const std::string &output);

/// `heddle checkpoint convert`. To another type it converts masters, where the
/// input is a checkpoint that has them.
struct ConvertOptions {
  std::string input;  ///< Whatever `openWeights` opens.
  std::string output; ///< A directory that does not exist yet or is empty.
  std::string dtype;  ///< F32, BF16, F16 or F64 for all floats; "": unchanged.
  /// Files are cut where they would get larger than this; 0: one file.
  int64_t maxShardBytes = 0;
};
/// Writes the weights as a Hugging Face directory with another type or division
/// into files; what else a Hugging Face directory holds is copied.
void convertWeights(const ConvertOptions &options);

/// Writes a Hugging Face directory: `tensors` in one file, `config` as
/// config.json, and copies of the tokenizer's files and the like of the
/// directory `from`. `output` does not exist yet or is empty.
void writeModel(const std::string &from, const std::string &output,
                const std::string &config, std::vector<TensorToWrite> tensors);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CHECKPOINT_H
