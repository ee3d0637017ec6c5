//===- Checkpoint.h - Checkpoint directories --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a Hugging Face model directory with a folder `heddle/` beside
// the weights:
//
//   DIR/step-000200/config.json                   the model's
//   DIR/step-000200/model.safetensors             Hugging Face names, layouts
//   DIR/step-000200/heddle/masters.safetensors    fp32 values, if rounded
//   DIR/step-000200/heddle/optimizer.safetensors  exp_avg.NAME, exp_avg_sq.NAME
//   DIR/step-000200/heddle/state.json             step, seed, data position ...
//   DIR/step-000200/heddle/attention_layout.0.safetensors  if there are layouts
//   DIR/step-000200/heddle/manifest.json          size, checksum of every file
//   DIR/latest                                    "step-000200"
//
// config.json is the model's, with the type of the written weights. If
// model.safetensors has a weight in a type that rounds it, the masters have the
// weight as the run had it, and a run that resumes continues with these bits.
//
// A checkpoint is complete or absent: it is written to a temporary directory,
// synced, renamed, and only then named in `latest`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CHECKPOINT_H
#define HEDDLE_RUNTIME_IO_CHECKPOINT_H

#include "heddle/PlanFormat/UpdateCounts.h"
#include "heddle/runtime/io/DirectoryLock.h"
#include "heddle/runtime/io/Safetensors.h"
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace heddle::io {

/// A token file of the training data, and how far the run has read it.
struct DataSourceState {
  std::string file;   ///< The path as the user gave it.
  std::string digest; ///< XXH3 of all tokens; "" if the file was not scanned.
  int64_t tokens = 0; ///< Tokens in the file.
  /// The weight of the token file, which determines its share of the training
  /// rows; 0: the user gave none.
  double weight = 0;
  int64_t taken = 0;  ///< Rows of the file that were used so far.
  int64_t pass = 0;   ///< How often the file has been read to its end.
  int64_t origin = 0; ///< The token at which the first row of this pass begins.
  int64_t row = 0;    ///< The next row of this pass.
  int64_t passRows = 0; ///< Rows that --shuffle permutes in this pass.
};

/// The training data of a run, and how far the run has read it.
struct DataState {
  int64_t rows = 0, tokens = 0; ///< Rows and tokens that were trained on.
  int64_t batch = 0, seq = 0;   ///< Rows of a step, and tokens of a row.
  /// The seed of --shuffle, if it was given.
  std::optional<uint64_t> shuffle;
  std::vector<DataSourceState> sources;
};

/// The best validation so far, for --stop-when-no-better.
struct BestValidation {
  double loss = 0;
  int64_t step = 0;
  int64_t worse = 0; ///< Number of validations since the best one.
};

/// A checkpoint that a run has written: its name in the --save directory, and a
/// digest that tells whether the checkpoint was replaced since.
struct SavedStep {
  std::string name;
  std::string manifest; ///< Digest of the checkpoint's manifest.
};

/// What a run needs, besides the tensors, to continue from a checkpoint.
struct CheckpointState {
  int64_t step = 0; ///< Steps that are done.
  /// The updates of these steps. Some steps may have made none, for example
  /// because no label of the batch counted.
  plan::UpdateCounts updates;
  uint64_t seed = 0;
  /// How far the run has read its data. Checkpoints of older versions lack
  /// `data`. They have `dataSteps` instead, the number of steps whose data the
  /// run has read so far, and `shuffled`, whether rows were shuffled.
  std::optional<DataState> data;
  int64_t dataSteps = 0;
  bool shuffled = false;
  std::optional<BestValidation> best;
  std::string planHash;
  /// Name of the optimizer that the states belong to; empty in checkpoints of
  /// older versions.
  std::string optimizer;
  /// The hyperparameters that the user gave by flags (`told`), and the values
  /// of all hyperparameters of the run (`used`). Both are empty in checkpoints
  /// of older versions.
  std::map<std::string, double> told, used;
  /// The checkpoints that this run, or a run that it continues, has written and
  /// not removed, oldest first. Empty if an older version of Heddle wrote the
  /// checkpoint.
  std::vector<SavedStep> saved;
};

/// A file of a checkpoint with a layout of block-sparse attention.
struct LayoutFile {
  std::string file;                ///< The path in the checkpoint.
  std::vector<std::string> layers; ///< The layers with it, such as `h.0`.
};

/// A layout of block-sparse attention to save.
struct LayoutToSave : LayoutFile {
  int64_t heads = 0, blocks = 0; ///< The shape is [heads, blocks, blocks].
  int64_t block = 0;             ///< Tokens of a block.
  std::vector<uint8_t> bits;     ///< 1 for a block that is computed, else 0.
};

struct CheckpointContents {
  nlohmann::json config; ///< config.json
  std::vector<SharedTensor> model;
  /// The fp32 values of parameters whose values in model.safetensors are
  /// rounded.
  std::vector<SharedTensor> masters;
  std::vector<SharedTensor> optimizer;
  CheckpointState state;
  /// Files that are copied beside the weights if they exist, such as
  /// tokenizer.json.
  std::vector<std::string> copies;
  std::vector<LayoutToSave> layouts;
};

/// Creates a directory, locks it for the checkpoints of this process, and
/// removes what killed runs have left there. One rank of a job calls it. Throws
/// H0433 when another run has the lock.
std::unique_ptr<DirectoryLock> claimSaves(const std::string &directory);

/// The options with which a run that saves checkpoints starts.
struct SaveStart {
  std::string resume;      ///< --resume; empty for a run from the beginning.
  bool overwrites = false; ///< The run may replace checkpoints of other runs.
  int64_t lastStep = 0;    ///< Last step of the run.
};

/// Throws H0155 if the directory has checkpoints of a run that this run does
/// not continue, unless `start.overwrites`. Also throws H0155 if something that
/// is no checkpoint has the name of a checkpoint that this run may write.
void requireOwnSaves(const std::string &directory, const SaveStart &start);

/// Throws H0155 if the directory has checkpoints that `saved` does not list.
void requireNoOthers(const std::string &directory,
                     const std::vector<SavedStep> &saved);

/// Adds the checkpoint at `path` to `saved`, and drops those whose directories
/// are gone.
void noteSaved(const std::string &path, std::vector<SavedStep> &saved);

/// Writes DIR/step-NNNNNN and DIR/latest. With `keepLast` > 0 it then removes
/// all but the newest `keepLast` of `contents.state.saved`. Returns the path of
/// the checkpoint. Throws H0413 rather than replace something that is no
/// checkpoint. Every rank calls it and writes its own elements of the tensors;
/// an error on one rank is thrown on all.
std::string saveCheckpoint(const std::string &directory,
                           const CheckpointContents &contents, Peers &peers,
                           int64_t keepLast = 0);

/// Returns the directory of a checkpoint: `path` itself if it is a checkpoint,
/// else the checkpoint in `path` that the file `latest` names. Throws H0360 if
/// neither exists.
std::string resolveCheckpoint(const std::string &path);

/// Returns the layouts with which the model in a directory was trained. Returns
/// nothing for a directory that is no checkpoint.
std::vector<LayoutFile> layoutsOfModel(const std::string &directory);

/// Returns the directory of the model that `path` means: the latest checkpoint
/// if `path` is a `--save` directory, else `path` itself. Throws H0365 when
/// `latest` names no checkpoint.
std::string resolveModel(const std::string &path);

/// An open checkpoint. Tensors are mapped when they are read.
struct Checkpoint {
  std::string path;
  CheckpointState state;
  /// The weights, with fp32 masters instead of rounded values.
  WeightSet model;
  WeightSet optimizer;
};

/// Opens a checkpoint for `--resume`; every rank calls it. First compares all
/// files with the manifest; each file is checked by one of the ranks.
Checkpoint openCheckpoint(const std::string &path, Peers &peers);

/// Opens the fp32 master weights of a checkpoint; none if model.safetensors has
/// no rounded weights.
std::optional<WeightSet> openMasters(const std::string &checkpoint);

/// Writes the type of the weights into a config.json, under the keys of
/// transformers 4 and 5.
template <typename Json>
void setConfigType(Json &config, const std::string &dtype) {
  if (!config.is_object())
    return;
  for (const char *key : {"dtype", "torch_dtype"})
    config[key] = nameInConfig(dtype);
}

/// Compares the weights that `path` means with the manifest beside them; does
/// nothing without a manifest. Sizes are always compared. A file's checksum is
/// only computed if this version of the file was not verified before. Every
/// rank calls it and checks a part of the files. Throws H0361, H0362 or H0363.
void requireWholeModel(const std::string &path, Peers &peers);
/// Compares with the manifest all files that a conversion of the checkpoint
/// reads: all files except the optimizer's states. `path` may also be a file of
/// weights in a checkpoint. Throws as `requireWholeModel` does.
void requireConvertible(const std::string &path);

/// A file of a manifest, and what is wrong with it ("": nothing).
struct CheckpointPart {
  std::string file;
  int64_t bytes = 0;
  std::string digest;
  std::string problem;
};

/// `heddle checkpoint verify`: compares every file with the manifest. Does not
/// throw for damaged files: the result describes them.
std::vector<CheckpointPart> verifyCheckpoint(const std::string &path);

/// `heddle checkpoint inspect`: describes step, seed, plan, tensors and sizes,
/// as text or as one JSON object.
std::string inspectCheckpoint(const std::string &path, bool json);

/// `heddle checkpoint export`: copies the Hugging Face part of a checkpoint
/// into a directory that is empty or does not exist yet.
void exportCheckpoint(const std::string &path, const std::string &output);

/// Options of `heddle checkpoint convert`. A conversion to another type starts
/// from the fp32 masters if the input has them.
struct ConvertOptions {
  std::string input;  ///< Anything that `openWeights` opens.
  std::string output; ///< A directory that does not exist yet or is empty.
  std::string dtype;  ///< F32, BF16, F16 or F64 for all floats; "": unchanged.
  /// Largest size of a file of weights; 0: everything in one file.
  int64_t maxShardBytes = 0;
};
/// Writes weights as a Hugging Face directory, with another type or divided
/// into files. Also copies the configuration and the tokenizer that are beside
/// the weights.
void convertWeights(const ConvertOptions &options);

/// Writes a Hugging Face directory: `tensors` in one file, `config` as
/// config.json, and copies of other files of the directory `from`, such as the
/// tokenizer. `output` is empty or does not exist yet.
void writeModel(const std::string &from, const std::string &output,
                const std::string &config, std::vector<TensorToWrite> tensors);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_CHECKPOINT_H
