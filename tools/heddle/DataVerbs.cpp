//===- DataVerbs.cpp - heddle data and heddle checkpoint ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prepares token files (`heddle data`), and verifies and converts checkpoints
// (`heddle checkpoint`).
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/Import/Settings.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/TokenFile.h"
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

//===----------------------------------------------------------------------===//
// heddle data
//===----------------------------------------------------------------------===//

static int prepareData(const io::PrepareOptions &options) {
  io::PrepareResult result = io::prepareTokens(options);
  std::cout << result.trainFile << ": " << result.trainTokens << " tokens";
  if (!result.valFile.empty())
    std::cout << "\n"
              << result.valFile << ": " << result.valTokens << " tokens";
  std::cout << "\nvocabulary " << result.vocab << "\n";
  std::cout << "documents " << result.documents << ", "
            << (result.end
                    ? "each ends with token " + std::to_string(*result.end)
                : result.isDivided ? "a line end between two"
                                   : "nothing between two")
            << "\n";
  return 0;
}

static int checkData(const std::string &path, int64_t vocab) {
  io::TokenStatistics found = io::checkTokens(path, vocab);
  std::cout << path << ": " << found.format << ", " << found.tokens
            << " tokens\n  largest id " << found.maximum << ", "
            << found.distinct << " distinct\n  unigram entropy "
            << found.unigramEntropy << " nats per token\n";
  if (found.bigramEntropy > 0)
    std::cout << "  bigram entropy " << found.bigramEntropy
              << " nats per token\n";
  return 0;
}

void driver::addDataVerb(CLI::App &app, Action &action) {
  CLI::App *verb = app.add_subcommand("data", "Make and check token files");
  verb->require_subcommand(1);

  auto options = std::make_shared<io::PrepareOptions>();
  CLI::App *prepare =
      verb->add_subcommand("prepare", "Turn text into a token file");
  io::addFlag(*prepare, "TEXT", options->inputs, io::range::path(),
              "Text files, or JSON lines with a document a line")
      ->required()
      ->default_str("");
  io::addFlag(*prepare, "--tokenizer", options->tokenizer, io::range::path(),
              "bytes, or a directory with a tokenizer.json");
  io::addFlag(*prepare, "-o,--output", options->output, io::range::path(),
              "The token file to write, such as FILE.bin")
      ->required()
      ->default_str("");
  io::addFlag(*prepare, "--val-fraction", options->valFraction,
              io::ValueRange::numbers(0, 1, true),
              "Fraction of each input's tokens, from its end, that goes to "
              "FILE.val.bin");
  io::addFlag(*prepare, "--field", options->field, io::range::text(),
              "The member of a line of JSON that is its text");
  io::addFlag(*prepare, "--format", options->format,
              io::ValueRange::choices({"auto", "text", "jsonl"}),
              "text: each file is one text as it is; jsonl: a record a line; "
              "auto: what the bytes of the file say");
  prepare->callback([options, &action] {
    action = [options] { return prepareData(*options); };
  });

  struct CheckFlags {
    std::string path;
    int64_t vocab = 0;
  };
  auto flags = std::make_shared<CheckFlags>();
  CLI::App *check = verb->add_subcommand("check", "Scan a whole token file");
  io::addFlag(*check, "FILE", flags->path, io::range::path(),
              "A token file, or FILE:u32 for bare numbers of a type")
      ->required()
      ->default_str("");
  io::addFlag(*check, "--vocab", flags->vocab,
              io::ValueRange::integers(0, 1 << 30),
              "Refuse tokens that are not below N; 0: do not check");
  check->callback([flags, &action] {
    action = [flags] { return checkData(flags->path, flags->vocab); };
  });
}

//===----------------------------------------------------------------------===//
// heddle checkpoint
//===----------------------------------------------------------------------===//

/// Verifies every file of a checkpoint and prints the results. Returns 0, or
/// the exit status for the first damaged file.
static int verifyCheckpoint(const std::string &path) {
  std::string problems;
  for (const io::CheckpointPart &part : io::verifyCheckpoint(path)) {
    std::cout << (part.problem.empty() ? "good     " : "damaged  ") << part.file
              << " (" << part.bytes << " bytes)";
    if (!part.problem.empty()) {
      std::cout << ": " << part.problem;
      problems += (problems.empty() ? "" : ", ") + part.file;
    }
    std::cout << "\n";
  }
  if (problems.empty())
    return 0;
  fail("H0363", path + " is damaged: " + problems,
       "resume from another checkpoint", {path, 0, 0});
}

static int convertCheckpoint(io::ConvertOptions options,
                             const std::string &shardSize) {
  if (!shardSize.empty())
    options.maxShardBytes = *config::parseByteSize(shardSize);
  io::convertWeights(options);
  std::cout << options.output << "\n";
  return 0;
}

static void addConvertVerb(CLI::App &verb, Action &action) {
  struct Flags {
    io::ConvertOptions options;
    std::string shardSize;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *convert = verb.add_subcommand(
      "convert", "Write the weights with another type or division into files");
  io::addFlag(*convert, "PATH", flags->options.input, io::range::path(),
              "Weights to read")
      ->required()
      ->default_str("");
  io::addFlag(*convert, "-o,--output", flags->options.output, io::range::path(),
              "The directory")
      ->required()
      ->default_str("");
  io::addFlag(*convert, "--dtype", flags->options.dtype, io::range::text(),
              "F32, BF16, F16 or F64")
      ->default_str("unchanged");
  io::addFlag(*convert, "--shard-size", flags->shardSize, config::sizeRange(),
              "Largest file, as 2GiB")
      ->default_str("one file");
  convert->callback([flags, &action] {
    action = [flags] {
      return convertCheckpoint(flags->options, flags->shardSize);
    };
  });
}

void driver::addCheckpointVerb(CLI::App &app, Action &action) {
  struct Flags {
    std::string path, output;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *verb = app.add_subcommand("checkpoint", "Look into checkpoints");
  verb->require_subcommand(1);
  auto add = [&](const char *name, const char *what) {
    CLI::App *inner = verb->add_subcommand(name, what);
    io::addFlag(*inner, "PATH", flags->path, io::range::path(),
                "A checkpoint, or a --save directory")
        ->required()
        ->default_str("");
    return inner;
  };
  CLI::App *inspect = add("inspect", "Step, seed, plan, tensors and sizes");
  inspect->add_flag("--json", flags->json, "One JSON object");
  inspect->callback([flags, &action] {
    action = [flags] {
      std::cout << io::inspectCheckpoint(flags->path, flags->json);
      return 0;
    };
  });
  CLI::App *verify = add("verify", "Check every file against the manifest");
  verify->callback([flags, &action] {
    action = [flags] { return verifyCheckpoint(flags->path); };
  });
  CLI::App *exported =
      add("export", "Copy the Hugging Face part into a new directory");
  io::addFlag(*exported, "-o,--output", flags->output, io::range::path(),
              "The directory")
      ->required()
      ->default_str("");
  exported->callback([flags, &action] {
    action = [flags] {
      io::exportCheckpoint(flags->path, flags->output);
      std::cout << flags->output << "\n";
      return 0;
    };
  });
  addConvertVerb(*verb, action);
}
