//===- CommandLine.cpp - A compiled binary's command line -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the verbs of a compiled binary and their flags, and runs the verb of
// a command line on all ranks.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "Pooling.h"
#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Process.h"

#include <functional>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// The options of all verbs, and the action of the chosen one.
struct CommandLine {
  TrainOptions train;
  EvalOptions eval;
  GenerateOptions generate;
  ServeOptions serve;
  LogitsOptions logits;
  EncodeOptions encode;
  BenchOptions bench;
  InfoOptions info;
  CheckOptions check;
  int joinSeconds = Launch().joinSeconds;
  /// The value of --local_rank, which is ignored: the launcher's environment
  /// variables say the same.
  int localRank = 0;
  std::function<int(Ranks &)> action;

  void build(CLI::App &app);

private:
  void addTrain(CLI::App &app);
  void addEval(CLI::App &app);
  void addSampling(CLI::App &verb);
  void addGenerate(CLI::App &app);
  void addChat(CLI::App &app);
  void addServe(CLI::App &app);
  void addLogits(CLI::App &app);
  void addEncode(CLI::App &app);
  void addBench(CLI::App &app);
  void addInfo(CLI::App &app);
  void addCheck(CLI::App &app);
  void addJob(CLI::App &verb, JobOptions &job);
  void addMask(CLI::App &verb, MaskOptions &mask);
  void addJoin(CLI::App &verb);
};

using io::addFlag;
using io::ValueRange;

void CommandLine::addJoin(CLI::App &verb) {
  addFlag(verb, "--join-timeout", joinSeconds, io::range::joinTimeout(),
          "Seconds in which all ranks over TCP must have come")
      ->capture_default_str();
}

/// Adds the flag that chooses whether cuBLASLt or the binary's own kernels
/// compute matrix products on a GPU.
void addGemm(CLI::App &verb, DeviceOptions &device) {
  addFlag(verb, "--gemm", device.gemm,
          ValueRange::choices({"auto", "library", "generated"}),
          "On a GPU: matrix products by cuBLASLt where it is found, by it or "
          "not at all, or by Heddle (default: as compiled)");
}

void CommandLine::addJob(CLI::App &verb, JobOptions &job) {
  addFlag(verb, "--weights", job.weights, io::range::path(),
          "Hugging Face directory or checkpoint (default: the weights the "
          "binary was compiled with)")
      ->type_name("DIR");
  addFlag(
      verb, "--threads", job.threads, io::range::threads(),
      "Threads (default: those that it was compiled with, if --threads said "
      "so; else all cores of the rank)");
  addFlag(verb, "--device", job.device.kind,
          ValueRange::choices({"cpu", "cuda"}),
          "What runs the kernels (default: what the binary is compiled for)");
  verb.add_flag("--sync", job.device.sync,
                "On a GPU: wait for each kernel, so that a fault names it");
  verb.add_flag(
      "--no-graph", job.device.noGraph,
      "On a GPU: submit each kernel by itself, not a step as a graph");
  addGemm(verb, job.device);
  verb.add_flag("--share-gpu", job.device.shared,
                "Let several ranks have the same GPU");
  addFlag(verb, "--swap-dir", job.device.swapDirectories,
          io::swapDirectoriesRange(),
          "Directory for what the plan has on file, made when it is absent; "
          "roles may have their own, as /mnt/a,parameters=/mnt/b "
          "(default: as compiled, else that of TMPDIR, or /tmp)")
      ->type_name("DIR");
  verb.add_flag("--swap-check", job.device.checksSwap,
                "Check that the disk gives back what was written to it");
  addJoin(verb);
}

/// Adds a flag for a file, or for a directory if `type` is DIR.
CLI::Option *addPath(CLI::App &verb, const char *name, std::string &value,
                     const char *help, const char *type = "FILE") {
  return addFlag(verb, name, value, io::range::path(), help)->type_name(type);
}

/// Adds a flag for a count of at least 0. The help shows the flag's default.
template <typename T>
CLI::Option *addCount(CLI::App &verb, const char *name, T &value,
                      const char *help) {
  return addFlag(verb, name, value, io::range::count(0), help)
      ->capture_default_str();
}

void CommandLine::addMask(CLI::App &verb, MaskOptions &mask) {
  addFlag(verb, "--mask-probability", mask.probability,
          ValueRange::numbers(0, 1),
          "For models of masked tokens: how likely it is that a token of "
          "--data becomes a label (default: 0.15)");
  addFlag(verb, "--mask-token", mask.token, io::range::count(0),
          "For models of masked tokens: the token that stands for a masked one "
          "(default: the tokenizer's)");
}

/// Throws unless exactly one of --data and --inputs is given. Throws also if
/// masking flags are given with --inputs, because that file already has the
/// labels. `validates` allows masking flags in any case, because they apply to
/// the validation data.
void requireBatches(bool hasData, const std::string &inputs,
                    const MaskOptions &mask, bool validates = false) {
  bool masks = mask.probability || mask.token;
  if (masks && !hasData && !inputs.empty() && !validates)
    fail("H0164", "--inputs has the labels itself: no token of it is masked",
         "leave out --mask-probability and --mask-token");
  if (hasData == inputs.empty())
    return;
  fail("H0124",
       hasData ? "--data and --inputs are both given"
               : "nothing says what the batches are",
       "give --data FILE for token files, or --inputs FILE.safetensors for "
       "batches that are spelled out");
}

void CommandLine::addTrain(CLI::App &app) {
  CLI::App &verb = *app.add_subcommand("train", "Train on token files");
  addFlag(verb, "--data", train.data, io::range::path(),
          "Token file to train on; several, each with a --data of its own, are "
          "mixed by their weights")
      ->type_name("FILE[:TYPE][:WEIGHT]")
      ->allow_extra_args(false);
  addPath(verb, "--inputs", train.inputs,
          "Batches in place of --data: safetensors with a tensor of N rows for "
          "each input (ids, labels); step s takes the rows from s * batch on, "
          "modulo N");
  addCount(verb, "--steps", train.steps,
           "Steps in total, counted from the beginning also with --resume")
      ->required();
  CLI::Option *val =
      addPath(verb, "--val", train.val, "Token file to validate on");
  addCount(verb, "--val-every", train.valEvery,
           "Validate after every N steps, 0: only at the end")
      ->needs(val);
  addCount(verb, "--val-steps", train.valSteps,
           "Batches of a validation, 0: the whole file")
      ->needs(val);
  addCount(verb, "--stop-when-no-better", train.stopWhenNoBetter,
           "End after N validations without a better loss, 0: never");
  addFlag(verb, "--data-check", train.dataCheck,
          ValueRange::choices({"all", "batch"}),
          "all: look at every token before the first step; batch: at those of "
          "a batch when it is read")
      ->capture_default_str();
  addFlag(verb, "--data-position", train.dataPosition,
          ValueRange::choices({"check", "keep", "start"}),
          "Where --resume goes on in the data. check: at the next token, if "
          "files and order are the same; keep: at the same position of other "
          "files; start: at the first token")
      ->capture_default_str();
  CLI::Option *save = addPath(verb, "--save", train.save,
                              "Write checkpoints to this directory", "DIR");
  addCount(verb, "--save-every", train.saveEvery,
           "Save after every N steps, 0: only at the end")
      ->needs(save);
  addCount(verb, "--keep-last", train.keepLast,
           "Keep the newest N checkpoints of this run and of those that it "
           "resumes, 0: all")
      ->needs(save);
  verb.add_flag("--overwrite", train.overwrite,
                "Save also where checkpoints of another run are: `latest` and "
                "steps of the same number are replaced")
      ->needs(save);
  addFlag(
      verb, "--save-dtype", train.saveDtype,
      ValueRange::choices({"F32", "BF16", "F16"}),
      "Type of the saved weights (default: that of the model's files); what "
      "it rounds is saved exactly too, for --resume")
      ->needs(save);
  CLI::Option *resume = addPath(
      verb, "--resume", train.resume,
      "Go on from this checkpoint, or the latest of a --save directory", "DIR");
  verb.add_flag("--reset-optimizer", train.resetOptimizer,
                "With --resume: begin with the optimizer's first values, as "
                "after a change of the optimizer")
      ->needs(resume);
  verb.add_flag("--reset-error-feedback", train.resetErrors,
                "With --resume: begin with zeros as errors of what ranks send "
                "compressed, as DeepSpeed does")
      ->needs(resume);
  addFlag(
      verb, "--on-nonfinite", train.onNonfinite,
      ValueRange::choices({"stop", "skip"}),
      "What a step does whose loss or gradient norm is not finite. stop: it "
      "ends the run; skip: it updates nothing, 10 times in a row at most")
      ->capture_default_str();
  addFlag(verb, "--seed", train.seed, io::range::seed(),
          "Seed of dropout, masks and --shuffle (default: the compile seed, or "
          "the resumed run's)");
  addHyperFlags(verb, train.hyper);
  verb.add_flag("--shuffle", train.shuffle,
                "Permute the rows of every pass over the data");
  addMask(verb, train.mask);
  addPath(verb, "--log", train.log, "Write JSON lines to this file");
  addPath(verb, "--log-csv", train.logCsv,
          "Write steps and validations to this file as CSV");
  addPath(verb, "--log-tensorboard", train.logTensorBoard,
          "Write event files for TensorBoard into this directory", "DIR");
  addPath(verb, "--trace", train.trace,
          "Write a timeline of the first 8 steps for Perfetto; rank N of "
          "several ranks writes its own, with .rankN in the name");
  addProfileFlags(verb, train.profile);
  addReportFlags(verb, train.reports);
  addPath(verb, "--dump", train.dump,
          "Write the last step's values as safetensors");
  addCount(verb, "--print-kept-layers", train.printKeptLayers,
           "With --layer-drop: print for each of the first N steps which layers "
           "it computes");
  addFlag(verb, "--progress", train.progress,
          ValueRange::choices({"auto", "plain", "none"}),
          "How to show steps on stderr: auto, plain or none")
      ->capture_default_str();
  addJob(verb, train.job);
  resume->excludes(verb.get_option("--weights"));
  verb.callback([this] {
    requireBatches(!train.data.empty(), train.inputs, train.mask,
                   !train.val.empty());
    if (!train.inputs.empty() && train.shuffle)
      fail("H0125", "--shuffle: the rows of --inputs are taken in their order",
           "leave out --shuffle, or permute the rows in the file");
    if (train.stopWhenNoBetter > 0 && (train.val.empty() || !train.valEvery))
      fail("H0187",
           "--stop-when-no-better: nothing is validated while the run goes on",
           "add --val FILE and --val-every N");
    action = [this](Ranks &ranks) { return runTrain(train, ranks); };
  });
}

void CommandLine::addEval(CLI::App &app) {
  CLI::App &verb =
      *app.add_subcommand("eval", "Mean loss and perplexity on a token file");
  addPath(verb, "--data", eval.data, "Token file");
  addPath(verb, "--inputs", eval.inputs,
          "Batches in place of --data, as for train");
  addMask(verb, eval.mask);
  addCount(verb, "--steps", eval.steps, "Batches, 0: the whole file");
  addPath(verb, "--log", eval.log, "Write a JSON line to this file");
  verb.add_flag("--json", eval.json, "Print one JSON object");
  addJob(verb, eval.job);
  addWeightCache(verb, eval.job);
  addDeviceMemory(verb, eval.job);
  verb.callback([this] {
    requireBatches(!eval.data.empty(), eval.inputs, eval.mask);
    action = [this](Ranks &ranks) { return runEval(eval, ranks); };
  });
}

/// Adds the flags of sampling and stop strings.
void CommandLine::addSampling(CLI::App &verb) {
  addCount(verb, "--max-new-tokens", generate.maxNewTokens,
           "How many tokens to add at most");
  addFlag(verb, "--temperature", generate.temperature,
          ValueRange::numbersFrom(0),
          "Sample at this temperature; without this, --top-k and --top-p the "
          "likeliest token is taken");
  addFlag(verb, "--top-k", generate.topK, io::range::count(1),
          "Sample from the likeliest K");
  addFlag(verb, "--top-p", generate.topP, ValueRange::numbers(0, 1),
          "Sample from the likeliest that make up this probability");
  addFlag(verb, "--min-p", generate.minP, ValueRange::numbers(0, 1),
          "Sample from those with this share of the likeliest's probability");
  addFlag(verb, "--repetition-penalty", generate.repetitionPenalty,
          ValueRange::numbers(0.001, 100),
          "Make tokens that are there already less likely: 1.1, for example");
  addFlag(verb, "--seed", generate.seed, io::range::seed(),
          "Seed of the samples")
      ->capture_default_str();
  addFlag(verb, "--stop", generate.stops, io::range::text(),
          "A text that ends the output; may be given again")
      ->allow_extra_args(false);
}

void CommandLine::addGenerate(CLI::App &app) {
  CLI::App &verb = *app.add_subcommand("generate", "Continue a text");
  CLI::Option *text = addFlag(verb, "--prompt", generate.prompt,
                              io::range::text(), "The text to continue");
  addFlag(verb, "--prompt-ids", generate.promptIds, io::range::text(),
          "The tokens to continue, as 1,2,3; prints numbers, as --ids does")
      ->excludes(text);
  addSampling(verb);
  verb.add_flag("--ids", generate.ids,
                "Print tokens as numbers, with blanks between");
  verb.add_flag("--json", generate.json, "Print one JSON object at the end");
  addJob(verb, generate.job);
  addDraft(verb, generate.job);
  addWeightCache(verb, generate.job);
  addDeviceMemory(verb, generate.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runGenerate(generate, ranks); };
  });
}

void CommandLine::addChat(CLI::App &app) {
  CLI::App &verb = *app.add_subcommand(
      "chat", "Answer the lines of stdin, by the model's chat template");
  addFlag(verb, "--system", generate.system, io::range::text(),
          "What the model is told before the first line");
  addSampling(verb);
  addJob(verb, generate.job);
  addDraft(verb, generate.job);
  addWeightCache(verb, generate.job);
  addDeviceMemory(verb, generate.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runChat(generate, ranks); };
  });
}

/// Adds the flags that say how hidden states become an embedding.
void addPooling(CLI::App &verb, PoolingOptions &pooling, const char *whose) {
  std::vector<std::string> modes;
  for (const auto &[name, mode] : poolingModes)
    modes.push_back(name);
  addFlag(verb, "--pooling", pooling.kind, ValueRange::choices(modes),
          std::string("How the vectors of the tokens of a text") + whose +
              " become one (default: what sentence-transformers saved beside "
              "the weights, or mean)");
  verb.add_flag_function(
      "--normalize,!--no-normalize",
      [&pooling](int64_t times) { pooling.normalizes = times > 0; },
      std::string("Make the length of vectors") + whose +
          " 1, or leave it (default: as for --pooling, or leave it)");
}

void addPromptName(CLI::App &verb, std::string &name) {
  addFlag(verb, "--prompt-name", name, io::range::text(),
          "What is put before texts to encode: a name in `prompts` of "
          "config_sentence_transformers.json (default: its "
          "default_prompt_name)");
}

void CommandLine::addServe(CLI::App &app) {
  CLI::App &verb =
      *app.add_subcommand("serve", "Answer requests in OpenAI's format");
  addFlag(verb, "--host", serve.host, io::range::text(),
          "Address to listen at; 0.0.0.0: all of this machine")
      ->capture_default_str();
  addFlag(verb, "--port", serve.port, ValueRange::integers(0, 65535),
          "Port to listen at, 0: one that is free")
      ->capture_default_str();
  addFlag(verb, "--api-key", serve.apiKey, io::range::text(),
          "Answer only those who send this key");
  addFlag(verb, "--allow-origin", serve.allowedOrigins, io::range::text(),
          "Let pages of this origin ask from a browser, as "
          "http://localhost:3000; may be given again; *: all (default: none)")
      ->allow_extra_args(false);
  addFlag(verb, "--served-model-name", serve.names, io::range::text(),
          "What clients call the model; may be given again, answers have the "
          "first (default: the name of its directory)");
  verb.add_flag("--access-log{-}", serve.accessLog,
                "Write a line for each request to stderr, or with "
                "--access-log=FILE to the end of this file");
  addFlag(verb, "--request-timeout", serve.requestTimeout,
          ValueRange::integers(1, 86400),
          "Seconds that a request may take, waiting included")
      ->capture_default_str();
  addFlag(verb, "--max-texts", serve.maxTexts, io::range::count(1),
          "Texts at a time, those that wait included; more are refused")
      ->capture_default_str();
  addPooling(verb, serve.pooling, " that a model which encodes is asked for");
  verb.add_flag("--truncate", serve.truncates,
                "Cut texts to encode that are too long, in place of an error");
  addPromptName(verb, serve.promptName);
  addJob(verb, serve.job);
  addDraft(verb, serve.job);
  addWeightCache(verb, serve.job);
  addDeviceMemory(verb, serve.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runServe(serve, ranks); };
  });
}

void CommandLine::addLogits(CLI::App &app) {
  CLI::App &verb = *app.add_subcommand(
      "logits", "Write the logits after each token of a prompt");
  CLI::Option *text = addFlag(verb, "--prompt", logits.prompt,
                              io::range::text(), "The text");
  addFlag(verb, "--prompt-ids", logits.promptIds, io::range::text(),
          "The tokens, as 1,2,3")
      ->excludes(text);
  verb.add_flag("--decode", logits.decode,
                "Compute them token by token, as generate does");
  addPath(verb, "-o,--output", logits.output,
          "The safetensors file to write: key logits, [tokens, vocabulary]")
      ->required();
  addJob(verb, logits.job);
  addWeightCache(verb, logits.job);
  addDeviceMemory(verb, logits.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runLogits(logits, ranks); };
  });
}

void CommandLine::addEncode(CLI::App &app) {
  CLI::App &verb = *app.add_subcommand(
      "encode", "Make a vector of each text, with a model that encodes");
  CLI::Option *text = addFlag(verb, "--text", encode.texts, io::range::text(),
                              "Texts; may be given again");
  addFlag(verb, "--ids", encode.ids, io::range::text(),
          "Texts as their tokens, as 1,2,3; may be given again")
      ->excludes(text);
  addPooling(verb, encode.pooling, "");
  verb.add_flag("--truncate", encode.truncates,
                "Leave out the end of a text that is too long");
  addPromptName(verb, encode.promptName);
  CLI::Option *logits =
      verb.add_flag("--logits", encode.logits,
                    "Write the logits of each token, too: key logits, [texts, "
                    "longest text, vocabulary], and key lengths");
  logits->needs(addPath(verb, "-o,--output", encode.output,
                        "The safetensors file to write: key embeddings, "
                        "[texts, features] (default: a line on stdout)"));
  addJob(verb, encode.job);
  addWeightCache(verb, encode.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runEncode(encode, ranks); };
  });
}

void CommandLine::addBench(CLI::App &app) {
  CLI::App &verb =
      *app.add_subcommand("bench", "Time training steps on made-up tokens, or "
                                   "tokens of a binary that serves");
  addFlag(verb, "--steps", bench.steps, io::range::count(1), "Steps to measure")
      ->capture_default_str();
  addCount(verb, "--warmup", bench.warmup, "Steps to run before measuring");
  verb.add_flag("--kernels", bench.kernels,
                "Time every launch and list the kernels");
  verb.add_flag("--json", bench.json,
                "Print a JSON object for each measurement");
  addDecodeFlags(verb, bench);
  addJob(verb, bench.job);
  addDraft(verb, bench.job);
  addWeightCache(verb, bench.job);
  addDeviceMemory(verb, bench.job);
  verb.callback([this] {
    action = [this](Ranks &ranks) { return runBench(bench, ranks); };
  });
}

void CommandLine::addInfo(CLI::App &app) {
  CLI::App *verb = app.add_subcommand("info", "Show what the binary holds");
  verb->add_flag("--json", info.json, "Print one JSON object");
  addJoin(*verb);
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runInfo(info, ranks); };
  });
}

void CommandLine::addCheck(CLI::App &app) {
  CLI::App *verb = app.add_subcommand(
      "check", "Run each kernel on the GPU beside a plain one of the same "
               "meaning");
  verb->add_flag("--json", check.json, "Print one JSON object");
  addCount(*verb, "--sample", check.sampleTerms,
           "Where a plain kernel would sum more terms than these in a launch, "
           "compare the first and the last elements alone; 0: all");
  addGemm(*verb, check.device);
  addJoin(*verb);
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runCheck(check, ranks); };
  });
}

void CommandLine::build(CLI::App &app) {
  app.require_subcommand(1);
  // DeepSpeed's launcher passes --local_rank before the verb.
  app.fallthrough();
  addFlag(app, "--local_rank,--local-rank", localRank,
          ValueRange::integers(-1, (1 << 20) - 1),
          "Taken from DeepSpeed's launcher, and not used: its variables RANK "
          "and WORLD_SIZE count");
  addTrain(app);
  addEval(app);
  addGenerate(app);
  addChat(app);
  addServe(app);
  addLogits(app);
  addEncode(app);
  addBench(app);
  addInfo(app);
  addCheck(app);
}

int report(const Diagnostic &diagnostic) {
  fputs(diagnostic.format().c_str(), stderr);
  return diagnostic.exitCode();
}

/// Connects the ranks and runs the verb.
int runAction(const std::function<int(Ranks &)> &action, int joinSeconds) {
  std::unique_ptr<Ranks> ranks = Ranks::open(joinSeconds);
  try {
    int status = action(*ranks);
    ranks->together([] { io::flushStandardOutput(); });
    ranks->finish();
    return status;
  } catch (const UserError &error) {
    return ranks->end(error.diagnostic);
  } catch (const std::exception &error) {
    return ranks->end(io::describeUnexpected(error));
  }
}

} // namespace

int heddle::rt::runApp(int argc, char **argv) {
  CLI::App app("A model compiled by Heddle. `VERB --help` shows the flags of a "
               "verb.",
               argv[0]);
  CommandLine line;
  try {
    line.build(app);
    try {
      std::vector<std::string> words(argv + 1, argv + argc);
      app.parse(io::wordsForParser(words, words.size()));
    } catch (const CLI::Success &help) {
      int status = app.exit(help);
      io::flushStandardOutput();
      return status;
    } catch (const CLI::ParseError &error) {
      throw UserError(io::describeUsage(app, error, "H0190", "H0190",
                                        adviseOnBinary));
    }
    return runAction(line.action, line.joinSeconds);
  } catch (const UserError &error) {
    return report(error.diagnostic);
  } catch (const std::exception &error) {
    return report(io::describeUnexpected(error));
  }
}
