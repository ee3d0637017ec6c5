//===- Options.h - What the user asked a binary to do -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_OPTIONS_H
#define HEDDLE_RUNTIME_APP_OPTIONS_H

#include "heddle/runtime/app/Devices.h"
#include "heddle/runtime/app/Ranks.h"
#include "heddle/runtime/optim/Hyperparameters.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// How to load a binary; every verb has these.
struct JobOptions {
  std::string binary = "/proc/self/exe"; ///< The file that carries the plan.
  int64_t threads = 0;                   ///< 0: as many as plan and CPUs give.
  std::string weights;                   ///< Empty: those of the plan.
  std::string draftWeights;              ///< The same of a draft.
  /// auto, map, read, none: see WeightCache. With auto, few weights are not
  /// kept.
  std::string weightCache = "auto";
  std::string weightCacheDirectory; ///< Empty: as `weightsCache` says.
  /// off, beside (the weights), or a directory; empty: that of the user's
  /// cache.
  std::string weightsCache;
  DeviceOptions device;

  /// The same of the draft in the binary.
  JobOptions ofDraft() const {
    JobOptions draft = *this;
    draft.weights = draftWeights;
    return draft;
  }
};

/// How tokens are masked, for a model that predicts those.
struct MaskOptions {
  std::optional<double> probability;
  std::optional<int64_t> token; ///< Absent: what the plan says.
};

/// Hyperparameters that take the place of the binary's.
struct HyperOptions {
  std::optional<double> lr, minLr, weightDecay, clip;
  std::optional<int64_t> warmupSteps, trainSteps;

  HyperValues values() const;
};

/// `train`.
struct TrainOptions {
  JobOptions job;
  std::vector<std::string> data; ///< FILE or FILE:WEIGHT.
  std::string inputs;            ///< Batches in place of `data`.
  MaskOptions mask;
  std::string val;
  std::string dataCheck = "all";      ///< all, batch
  std::string dataPosition = "check"; ///< check, keep, start
  int64_t steps = 0;            ///< In total, those before a resume included.
  int64_t valEvery = 0;         ///< 0: only after the last step.
  int64_t valSteps = 0;         ///< Batches of a validation; 0: the whole file.
  int64_t stopWhenNoBetter = 0; ///< Validations; 0: never.
  std::string save;
  int64_t saveEvery = 0;  ///< 0: only after the last step.
  int64_t keepLast = 0;   ///< 0: keep every checkpoint.
  bool overwrite = false; ///< Where checkpoints of other runs are.
  std::string saveDtype;  ///< Of the weights; empty: that of the model's files.
  std::string resume;
  bool resetOptimizer = false;      ///< Of the checkpoint take the rest alone.
  std::string onNonfinite = "stop"; ///< stop, skip
  std::optional<uint64_t> seed;
  HyperOptions hyper;
  bool shuffle = false;
  std::string log, logCsv, logTensorBoard, trace, dump;
  std::string progress = "auto";
};

/// `eval`.
struct EvalOptions {
  JobOptions job;
  std::string data;
  std::string inputs; ///< Batches in place of `data`.
  MaskOptions mask;
  int64_t steps = 0; ///< Batches; 0: the whole file.
  std::string log;
  bool json = false;
};

/// `generate` and `chat`.
struct GenerateOptions {
  JobOptions job;
  std::string prompt;
  std::string promptIds; ///< Token ids with commas, instead of a text.
  int64_t maxNewTokens = 128;
  std::optional<double> temperature;
  std::optional<int64_t> topK;
  std::optional<double> topP;
  std::optional<double> minP;
  std::optional<double> repetitionPenalty;
  std::string system;             ///< `chat`: what the model is told first.
  std::vector<std::string> stops; ///< Texts that end the output.
  bool ids = false;               ///< Print numbers.
  bool json = false;
  uint64_t seed = 0;
};

/// What becomes of the hidden states of a text's tokens. What is not said
/// follows from the model's directory (Pooling.h).
struct PoolingOptions {
  std::string kind;               ///< As in `poolingModes`.
  std::optional<bool> normalizes; ///< Makes the vector's length 1.
};

/// `serve`.
struct ServeOptions {
  JobOptions job;
  std::string host = "127.0.0.1";
  int64_t port = 8080;                     ///< 0: one that is free.
  std::string apiKey;                      ///< Empty: everybody may ask.
  std::vector<std::string> allowedOrigins; ///< "*": all.
  std::vector<std::string> names; ///< Of the model; empty: its directory's.
  std::string accessLog;          ///< A file; "-": stderr; empty: none.
  int64_t requestTimeout = 600;   ///< Seconds.
  int64_t maxTexts = 256;
  PoolingOptions pooling; ///< Of a model that encodes.
  bool truncates = false; ///< Texts to encode that are too long.
  std::string promptName; ///< What is put before them; empty: the default.
};

/// `logits`.
struct LogitsOptions {
  JobOptions job;
  std::string prompt;
  std::string promptIds; ///< Token ids with commas, instead of a text.
  bool decode = false;   ///< Token by token, not in chunks.
  std::string output;
};

/// `encode`.
struct EncodeOptions {
  JobOptions job;
  std::vector<std::string> texts;
  std::vector<std::string> ids; ///< Texts as token ids with commas.
  PoolingOptions pooling;
  bool truncates = false; ///< Texts that are too long, in place of an error.
  std::string promptName; ///< What is put before texts; empty: the default.
  bool logits = false;    ///< Of all tokens, beside the embeddings.
  std::string output;     ///< Empty: a line on stdout.
};

/// `bench`.
struct BenchOptions {
  JobOptions job;
  int64_t steps = 10;
  int64_t warmup = 3;
  bool kernels = false; ///< Time every launch and list the kernels.
  bool json = false;
  /// Of a binary that serves: time tokens, of `batch` texts together, each
  /// after `context` tokens; `tokens` one after the other.
  bool decode = false;
  int64_t batch = 1;
  std::optional<int64_t> context; ///< None: as many as fit, at most 512.
  std::optional<int64_t> tokens;  ///< None: as many as fit, at most 64.
};

/// `info`.
struct InfoOptions {
  JobOptions job;
  bool json = false;
};

/// `check`.
struct CheckOptions {
  std::string binary = JobOptions().binary;
  DeviceOptions device;
  int64_t sampleTerms = 0; ///< That a plain launch sums at most; 0: all.
  bool json = false;
};

/// The verbs, run by every rank; each returns the exit status and throws a
/// UserError. Only rank 0 writes what people read.
int runTrain(const TrainOptions &options, Ranks &ranks);
int runEval(const EvalOptions &options, Ranks &ranks);
int runGenerate(const GenerateOptions &options, Ranks &ranks);
int runChat(const GenerateOptions &options, Ranks &ranks);
int runServe(const ServeOptions &options, Ranks &ranks);
int runLogits(const LogitsOptions &options, Ranks &ranks);
int runEncode(const EncodeOptions &options, Ranks &ranks);
int runBench(const BenchOptions &options, Ranks &ranks);
/// `bench --decode`.
int runBenchDecode(const BenchOptions &options, Ranks &ranks);
int runInfo(const InfoOptions &options, Ranks &ranks);
int runCheck(const CheckOptions &options, Ranks &ranks);

/// A compiled binary's main: reads the command line and runs the verb.
int runApp(int argc, char **argv);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_OPTIONS_H
