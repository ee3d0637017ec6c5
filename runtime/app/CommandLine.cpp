//===- CommandLine.cpp - A compiled binary's command line -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <CLI/CLI.hpp>
#include <functional>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// The options of every verb and what the chosen one runs.
struct CommandLine {
  TrainOptions train;
  EvalOptions eval;
  GenerateOptions generate;
  BenchOptions bench;
  InfoOptions info;
  std::function<int(Ranks &)> action;

  void build(CLI::App &app);

private:
  void addTrain(CLI::App &app);
  void addEval(CLI::App &app);
  void addGenerate(CLI::App &app);
  void addBench(CLI::App &app);
  void addInfo(CLI::App &app);
};

void addJob(CLI::App *verb, JobOptions &job) {
  verb->add_option("--weights", job.weights,
                   "Hugging Face directory or checkpoint (default: the "
                   "weights the binary was compiled with)")
      ->type_name("DIR");
  verb->add_option("--threads", job.threads,
                   "Threads, 0: all that plan and CPU set allow")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

/// A count with its default shown.
template <typename T>
CLI::Option *addCount(CLI::App *verb, const char *name, T &value,
                      const char *help) {
  return verb->add_option(name, value, help)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

void CommandLine::addTrain(CLI::App &app) {
  CLI::App *verb = app.add_subcommand("train", "Train on a token file");
  verb->add_option("--data", train.data, "Token file to train on")
      ->type_name("FILE")
      ->required();
  addCount(verb, "--steps", train.steps,
           "Steps in total; a resumed run goes on up to as many")
      ->required();
  verb->add_option("--val", train.val, "Token file to validate on")
      ->type_name("FILE");
  addCount(verb, "--val-every", train.valEvery,
           "Validate after every N steps, 0: only at the end");
  addCount(verb, "--val-steps", train.valSteps,
           "Batches of a validation, 0: the whole file");
  verb->add_option("--save", train.save, "Write checkpoints to this directory")
      ->type_name("DIR");
  addCount(verb, "--save-every", train.saveEvery,
           "Save after every N steps, 0: only at the end");
  addCount(verb, "--keep-last", train.keepLast,
           "Keep the newest N checkpoints, 0: all");
  CLI::Option *resume =
      verb->add_option("--resume", train.resume,
                       "Go on from this checkpoint, or the latest of a "
                       "--save directory")
          ->type_name("DIR");
  verb->add_option("--seed", train.seed,
                   "Seed of dropout and --shuffle (default: the compile seed, "
                   "or the resumed run's)");
  verb->add_flag("--shuffle", train.shuffle,
                 "Permute the rows of every pass over the data");
  verb->add_option("--log", train.log, "Write JSON lines to this file")
      ->type_name("FILE");
  verb->add_option(
          "--trace", train.trace,
          "Write a timeline of the first 8 steps for Perfetto; rank N of "
          "several ranks writes its own, with .rankN in the name")
      ->type_name("FILE");
  verb->add_option("--dump", train.dump,
                   "Write the last step's values as safetensors")
      ->type_name("FILE");
  verb->add_option("--progress", train.progress, "How to show steps on stderr")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "plain", "none"}));
  addJob(verb, train.job);
  resume->excludes(verb->get_option("--weights"));
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runTrain(train, ranks); };
  });
}

void CommandLine::addEval(CLI::App &app) {
  CLI::App *verb =
      app.add_subcommand("eval", "Mean loss and perplexity on a token file");
  verb->add_option("--data", eval.data, "Token file")
      ->type_name("FILE")
      ->required();
  addCount(verb, "--steps", eval.steps, "Batches, 0: the whole file");
  verb->add_option("--log", eval.log, "Write a JSON line to this file")
      ->type_name("FILE");
  verb->add_flag("--json", eval.json, "Print one JSON object");
  addJob(verb, eval.job);
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runEval(eval, ranks); };
  });
}

void CommandLine::addGenerate(CLI::App &app) {
  CLI::App *verb = app.add_subcommand("generate", "Continue a text");
  CLI::Option *text =
      verb->add_option("--prompt", generate.prompt, "The text to continue");
  verb->add_option("--prompt-ids", generate.promptIds,
                   "The tokens to continue, as 1,2,3; tokens are printed")
      ->excludes(text);
  addCount(verb, "--max-new-tokens", generate.maxNewTokens,
           "How many tokens to add at most");
  verb->add_option("--temperature", generate.temperature,
                   "Sample at this temperature; without this, --top-k and "
                   "--top-p the likeliest token is taken")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--top-k", generate.topK, "Sample from the likeliest K")
      ->check(CLI::PositiveNumber);
  verb->add_option("--top-p", generate.topP,
                   "Sample from the likeliest that make up this probability")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--seed", generate.seed, "Seed of the samples")
      ->capture_default_str();
  addJob(verb, generate.job);
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runGenerate(generate, ranks); };
  });
}

void CommandLine::addBench(CLI::App &app) {
  CLI::App *verb =
      app.add_subcommand("bench", "Time training steps on made-up tokens");
  verb->add_option("--steps", bench.steps, "Steps to measure")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  addCount(verb, "--warmup", bench.warmup, "Steps before them");
  verb->add_flag("--kernels", bench.kernels,
                 "Time every launch and list the kernels");
  verb->add_flag("--json", bench.json, "Print one JSON object");
  addJob(verb, bench.job);
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runBench(bench, ranks); };
  });
}

void CommandLine::addInfo(CLI::App &app) {
  CLI::App *verb = app.add_subcommand("info", "Show what the binary holds");
  verb->add_flag("--json", info.json, "Print one JSON object");
  verb->callback([this] {
    action = [this](Ranks &ranks) { return runInfo(info, ranks); };
  });
}

void CommandLine::build(CLI::App &app) {
  app.require_subcommand(1);
  addTrain(app);
  addEval(app);
  addGenerate(app);
  addBench(app);
  addInfo(app);
}

int report(const Diagnostic &diagnostic) {
  fputs(diagnostic.format().c_str(), stderr);
  return diagnostic.exitCode();
}

/// Runs the verb among the other ranks.
int runAction(const std::function<int(Ranks &)> &action) {
  std::unique_ptr<Ranks> ranks = Ranks::open();
  try {
    int status = action(*ranks);
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
               "verb.");
  CommandLine line;
  try {
    line.build(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success &help) {
      return app.exit(help);
    } catch (const CLI::ParseError &error) {
      fail("H0190", error.what(), "see " + std::string(argv[0]) + " --help");
    }
    return runAction(line.action);
  } catch (const UserError &error) {
    return report(error.diagnostic);
  } catch (const std::exception &error) {
    return report(io::describeUnexpected(error));
  }
}
