//===- Options.h - Options of the verbs of a binary -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of every verb of a compiled binary, as CommandLine.cpp parses
// them, and the verbs' entry points.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_OPTIONS_H
#define HEDDLE_RUNTIME_APP_OPTIONS_H

#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/app/Devices.h"
#include "heddle/runtime/app/Ranks.h"
#include "heddle/runtime/optim/Hyperparameters.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// How to load a binary. Every verb has these options.
struct JobOptions {
  std::string binary = "/proc/self/exe"; ///< File that contains the plan.
  int64_t threads = 0;                   ///< 0: chosen by plan and machine.
  std::string weights;                   ///< Empty: the plan's weights.
  std::string draftWeights;              ///< Weights of the draft model.
  /// `--weight-cache`: auto, map, read or none (see WeightCache). auto does not
  /// cache small weights.
  std::string weightCache = "auto";
  /// `--weight-cache-dir`: the directory for cached weights (WeightCache). If
  /// empty, `weightsCache` chooses the directory.
  std::string weightCacheDirectory;
  /// `--weights-cache`: where to cache weights. "off" means nowhere, and
  /// "beside" means next to the weight files; other values are a directory. If
  /// empty, the user's cache directory is used.
  std::string weightsCache;
  DeviceOptions device;

  /// Returns the options for loading the binary's draft model.
  JobOptions ofDraft() const {
    JobOptions draft = *this;
    draft.weights = draftWeights;
    return draft;
  }
};

/// Masking of tokens, for masked language models.
struct MaskOptions {
  std::optional<double> probability;
  std::optional<int64_t> token; ///< The mask token; absent: the plan's.
};

/// Hyperparameters that override the binary's.
struct HyperOptions {
  std::optional<double> lr, minLr, weightDecay, clip;
  std::optional<int64_t> warmupSteps, trainSteps;

  HyperValues values() const;
};

/// Options of the profile of a training step. What is not given is as the plan
/// says (plan::profileOf).
struct ProfileOptions {
  /// Which step to profile, counted as --steps counts. 0: the third step of the
  /// run, or its last step if it has fewer. Empty: none, unless there is a
  /// file.
  std::optional<int64_t> step;
  /// No profile, whatever the plan says: --profile=0.
  bool isOff = false;
  std::string file, flame;
  /// How many levels of modules to show below the model; empty or -1: all.
  std::optional<int64_t> depth;
  /// How many modules of each level to list by cost; empty: 1.
  std::optional<int64_t> top;

  bool isOn() const {
    return !isOff && (step || !file.empty() || !flame.empty());
  }
  /// Whether the profile is printed: a file replaces what --profile prints.
  bool prints() const { return step && file.empty(); }
  int64_t levels() const { return depth.value_or(-1) < 0 ? 64 : *depth; }
};

/// Options of the reports on a training run. What is not given is as the plan
/// says (plan::reportsOf).
struct ReportOptions {
  std::optional<bool> wallClockBreakdown, commsLogger, memoryBreakdown;

  plan::ReportChoice over(const plan::ReportChoice &choice) const {
    return {wallClockBreakdown.value_or(choice.wallClockBreakdown),
            commsLogger.value_or(choice.commsLogger),
            memoryBreakdown.value_or(choice.memoryBreakdown),
            choice.logTensorBoard, choice.logCsv};
  }
};

/// Options of `train`.
struct TrainOptions {
  JobOptions job;
  std::vector<std::string> data; ///< FILE or FILE:WEIGHT.
  std::string inputs;            ///< File of batches, instead of `data`.
  MaskOptions mask;
  std::string val;
  std::string dataCheck = "all"; ///< Which tokens to check: all, batch.
  std::string dataPosition =
      "check";          ///< How to resume in the data: check, keep, start.
  int64_t steps = 0;    ///< Total number of steps, with those before a resume.
  int64_t valEvery = 0; ///< 0: only after the last step.
  int64_t valSteps = 0; ///< Batches of a validation; 0: all.
  /// End the run after this many validations without improvement; 0: never.
  int64_t stopWhenNoBetter = 0;
  std::string save;
  int64_t saveEvery = 0;  ///< 0: only after the last step.
  int64_t keepLast = 0;   ///< 0: keep every checkpoint.
  bool overwrite = false; ///< Replace checkpoints of other runs.
  /// Element type of saved weights. If empty, each weight keeps the type that
  /// it has in the model's files.
  std::string saveDtype;
  std::string resume;
  /// Do not load optimizer states from the checkpoint.
  bool resetOptimizer = false;
  bool resetErrors = false; ///< Those of compressed averages.
  std::string onNonfinite =
      "stop"; ///< What to do with a step that is not finite: stop, skip.
  std::optional<uint64_t> seed;
  HyperOptions hyper;
  bool shuffle = false;
  std::string log, logCsv, logTensorBoard, trace, dump;
  /// For how many of the run's first steps the kept layers are printed.
  int64_t printKeptLayers = 0;
  ProfileOptions profile;
  ReportOptions reports;
  std::string progress = "auto";
};

/// Options of `eval`.
struct EvalOptions {
  JobOptions job;
  std::string data;
  std::string inputs; ///< File of batches, instead of `data`.
  MaskOptions mask;
  int64_t steps = 0; ///< Number of batches; 0: all.
  std::string log;
  bool json = false;
};

/// Options of `generate` and `chat`.
struct GenerateOptions {
  JobOptions job;
  std::string prompt;
  /// Token ids separated by commas, instead of a prompt text.
  std::string promptIds;
  int64_t maxNewTokens = 128;
  std::optional<double> temperature;
  std::optional<int64_t> topK;
  std::optional<double> topP;
  std::optional<double> minP;
  std::optional<double> repetitionPenalty;
  std::string system;             ///< `chat`: the system message.
  std::vector<std::string> stops; ///< Stop strings.
  bool ids = false;               ///< Print token ids.
  bool json = false;
  uint64_t seed = 0;
};

/// How hidden states become an embedding. Defaults come from the model's
/// directory (Pooling.h).
struct PoolingOptions {
  std::string kind;               ///< A name in `poolingModes`.
  std::optional<bool> normalizes; ///< Scale the embedding to length 1.
};

/// Options of `serve`.
struct ServeOptions {
  JobOptions job;
  std::string host = "127.0.0.1";
  int64_t port = 8080;                     ///< 0: any free port.
  std::string apiKey;                      ///< Empty: no authorization.
  std::vector<std::string> allowedOrigins; ///< Origins for CORS; "*": all.
  /// Names by which clients may call the model. If empty, the model's name is
  /// that of its directory.
  std::vector<std::string> names;
  std::string accessLog;        ///< Path; "-": stderr; empty: none.
  int64_t requestTimeout = 600; ///< Seconds.
  int64_t maxTexts = 256;
  PoolingOptions pooling; ///< For models that encode.
  bool truncates = false; ///< Truncate texts that are too long to encode.
  std::string promptName; ///< Prompt before texts to encode; empty: default.
};

/// Options of `logits`.
struct LogitsOptions {
  JobOptions job;
  std::string prompt;
  /// Token ids separated by commas, instead of a prompt text.
  std::string promptIds;
  bool decode = false; ///< Compute token by token, not in chunks.
  std::string output;
};

/// Options of `encode`.
struct EncodeOptions {
  JobOptions job;
  std::vector<std::string> texts;
  std::vector<std::string> ids; ///< Texts as token ids separated by commas.
  PoolingOptions pooling;
  /// Truncate texts that are too long instead of failing.
  bool truncates = false;
  std::string promptName; ///< Prompt before texts; empty: default.
  bool logits = false;    ///< Also write the logits of all tokens.
  std::string output;     ///< Output file; empty: one line on stdout.
};

/// Whole numbers above 0 that a flag lists, separated by commas.
struct CountList {
  std::vector<int64_t> counts;
};

/// Options of `bench`.
struct BenchOptions {
  JobOptions job;
  int64_t steps = 10;
  int64_t warmup = 3;
  bool kernels = false; ///< Time every launch and list the kernels.
  bool json = false;
  /// `--decode`: measure generation instead of training steps: `tokens` tokens
  /// after each number of tokens in `contexts`, for each number of sequences in
  /// `batches`. Only for binaries that serve.
  bool decode = false;
  CountList batches = {{1}};
  CountList contexts;            ///< Empty: as many as fit, at most 512.
  std::optional<int64_t> tokens; ///< None: as many as fit, at most 64.
  std::string trace; ///< The file for a trace of generation; empty: none.
};

/// Options of `info`.
struct InfoOptions {
  JobOptions job;
  bool json = false;
};

/// Options of `check`.
struct CheckOptions {
  std::string binary = JobOptions().binary;
  DeviceOptions device;
  /// Largest number of terms that a launch of an unoptimized reference kernel
  /// may sum; 0: no limit.
  int64_t sampleTerms = 0;
  bool json = false;
};

/// Each of these functions runs one verb. Every rank must call the function,
/// but only rank 0 prints. Returns the exit status; throws a UserError.
int runTrain(const TrainOptions &options, Ranks &ranks);
int runEval(const EvalOptions &options, Ranks &ranks);
int runGenerate(const GenerateOptions &options, Ranks &ranks);
int runChat(const GenerateOptions &options, Ranks &ranks);
int runServe(const ServeOptions &options, Ranks &ranks);
int runLogits(const LogitsOptions &options, Ranks &ranks);
int runEncode(const EncodeOptions &options, Ranks &ranks);
int runBench(const BenchOptions &options, Ranks &ranks);
/// Runs `bench --decode`.
int runBenchDecode(const BenchOptions &options, Ranks &ranks);
int runInfo(const InfoOptions &options, Ranks &ranks);
int runCheck(const CheckOptions &options, Ranks &ranks);

/// The main function of a compiled binary: parses the command line and runs the
/// verb.
int runApp(int argc, char **argv);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_OPTIONS_H
