//===- CommandAdvice.cpp - Advice on misplaced verbs and flags ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Advises users who give `heddle` a verb or a flag of a compiled binary or of
// another tool: says what to write instead.
//
//===----------------------------------------------------------------------===//

#include "CommandAdvice.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::driver;
namespace fs = std::filesystem;

namespace {

/// A verb of compiled binaries, with its flags. `mode` is the value of `heddle
/// compile --mode` that makes binaries with this verb. The test
/// test/Driver/words.test compares the flags with a binary's help. A flag is
/// looked up here only if the verb of `heddle` on the command line does not
/// have the same flag.
struct BinaryVerb {
  const char *name;
  const char *mode;
  std::vector<std::string> flags;
};

} // namespace

static const std::vector<BinaryVerb> &binaryVerbs() {
  static const std::vector<BinaryVerb> verbs = {
      {"train",
       "",
       {"--clip",
        "--comms-logger",
        "--data",
        "--data-check",
        "--data-position",
        "--device",
        "--dump",
        "--gemm",
        "--inputs",
        "--join-timeout",
        "--keep-last",
        "--log",
        "--log-csv",
        "--log-tensorboard",
        "--mask-probability",
        "--mask-token",
        "--memory-breakdown",
        "--min-lr",
        "--no-graph",
        "--on-nonfinite",
        "--overwrite",
        "--print-kept-layers",
        "--profile",
        "--profile-depth",
        "--profile-file",
        "--profile-flame",
        "--profile-top",
        "--progress",
        "--reset-error-feedback",
        "--reset-optimizer",
        "--resume",
        "--save",
        "--save-dtype",
        "--save-every",
        "--share-gpu",
        "--shuffle",
        "--steps",
        "--stop-when-no-better",
        "--swap-check",
        "--sync",
        "--trace",
        "--val",
        "--val-every",
        "--val-steps",
        "--wall-clock-breakdown"}},
      {"eval", "", {"--data", "--log", "--json"}},
      {"generate",
       "serve",
       {"--device-memory", "--draft-weights", "--ids", "--max-new-tokens",
        "--min-p", "--prompt", "--prompt-ids", "--repetition-penalty", "--stop",
        "--temperature", "--top-k", "--top-p", "--weight-cache",
        "--weight-cache-dir", "--weights-cache"}},
      {"chat", "serve", {"--system"}},
      {"serve",
       "serve",
       {"--access-log", "--allow-origin", "--api-key", "--host", "--max-texts",
        "--port", "--request-timeout", "--served-model-name"}},
      {"logits", "serve", {"--decode"}},
      {"encode",
       "encode",
       {"--logits", "--no-normalize", "--normalize", "--pooling",
        "--prompt-name", "--text", "--truncate"}},
      {"bench", "", {"--tokens", "--warmup"}},
      {"info", "", {}},
      {"check", "", {"--sample"}}};
  return verbs;
}

std::string driver::asCommand(const std::string &path) {
  return (path.find('/') == path.npos ? "./" : "") + io::shellWord(path);
}

bool driver::isProgram(const std::string &path) {
  std::error_code ignored;
  char magic[4] = {};
  return fs::is_regular_file(path, ignored) &&
         std::ifstream(path, std::ios::binary).read(magic, sizeof magic) &&
         std::string(magic, sizeof magic) == "\177ELF";
}

/// Returns the words of the command line after an unknown verb, without flags.
static std::vector<std::string> wordsAfter(const CLI::App &app,
                                           const std::string &verb) {
  std::vector<std::string> words = app.remaining();
  words.erase(words.begin(), std::find(words.begin(), words.end(), verb));
  if (!words.empty())
    words.erase(words.begin());
  return words;
}

/// Advises a user who gave `heddle` a verb that only compiled binaries have,
/// for example `heddle serve MODEL` or `heddle info BINARY`. If a binary was
/// named, the advice is to run it; otherwise, to compile the model first.
static io::Advice adviseOnVerb(const CLI::App &app, const BinaryVerb &verb) {
  std::string model = "MODEL", name = verb.name;
  for (const std::string &word : wordsAfter(app, name)) {
    std::error_code ignored;
    if (isProgram(word))
      return {name + " is a verb of compiled binaries",
              "write " + asCommand(word) + " " + name};
    bool isModel = fs::is_directory(word, ignored) ||
                   fs::path(word).extension() == ".json";
    if (isModel && fs::exists(word, ignored) && model == "MODEL")
      model = io::shellWord(word);
  }
  bool isConfig = fs::path(model).extension() == ".json";
  return {name + " is a verb of compiled binaries",
          "compile the model, as heddle compile " + model +
              (isConfig ? " --init random" : "") +
              (*verb.mode ? std::string(" --mode ") + verb.mode : "") +
              " -o job, then write ./job " + name};
}

/// Returns the value that the user gave an option, for example the binary of
/// `heddle compile -o BINARY`.
static std::string given(const CLI::App &verb, const char *option,
                         const std::string &fallback) {
  const CLI::Option *found = verb.get_option_no_throw(option);
  return found && found->count() > 0 ? found->results().front() : fallback;
}

/// Advises a user who gave `heddle` a flag that only compiled binaries have,
/// for example `heddle compile MODEL --data tokens.bin`.
static std::optional<io::Advice> adviseOnFlag(const CLI::App &verb,
                                              const std::string &word,
                                              const std::string &value) {
  const BinaryVerb *found = nullptr;
  for (const BinaryVerb &each : binaryVerbs()) {
    bool has = std::find(each.flags.begin(), each.flags.end(), word) !=
               each.flags.end();
    if (has && (!found || verb.get_name() == each.name))
      found = &each;
  }
  if (!found)
    return std::nullopt;
  std::string binary = "BINARY";
  for (const char *option : {"--output", "BINARY", "FILE"})
    if (std::string path = given(verb, option, ""); !path.empty())
      binary = asCommand(path);
  return io::Advice{word + " is a flag of compiled binaries",
                    "give it to the binary: " + binary + " " + found->name +
                        " " + word +
                        (value.empty() ? "" : " " + io::shellWord(value))};
}

/// Advises a user who wrote a flag such as `-n` in `heddle run -n 2 ./job
/// train`. With other launchers, such as mpirun, this flag gives the number of
/// ranks.
static std::optional<io::Advice> adviseOnRanks(const CLI::App &verb,
                                               const std::string &word) {
  static const std::set<std::string> counts = {"-n",
                                               "-np",
                                               "--np",
                                               "--num-procs",
                                               "--num-gpus",
                                               "--num_gpus",
                                               "--num-nodes",
                                               "--num_nodes",
                                               "--nnodes",
                                               "--nproc-per-node",
                                               "--nproc_per_node"};
  if (verb.get_name() != "run" || !counts.count(word))
    return std::nullopt;
  return io::Advice{"there is no flag " + word +
                        ": a binary says itself how many ranks it has",
                    "leave it out, and say where they are with --hostfile "
                    "FILE; for other ranks compile with another --mesh"};
}

/// Returns the verb of Heddle that does what a verb of other tools does, or "".
static std::string verbFor(const std::string &word) {
  static const std::map<std::string, std::string> verbs = {
      {"build", "compile"},
      {"convert", "checkpoint convert"},
      {"export", "checkpoint export"},
      {"inspect", "checkpoint inspect"},
      {"verify", "checkpoint verify"},
      {"prepare", "data prepare"},
      {"tokenize", "data prepare"},
      {"preprocess", "data prepare"},
      {"plan", "fit"},
      {"estimate", "fit"},
      {"launch", "run"},
      {"help", "--help"},
      {"version", "--version"}};
  auto found = verbs.find(word);
  return found == verbs.end() ? "" : found->second;
}

std::optional<io::Advice> driver::adviseOnDriver(const CLI::App &verb,
                                                 const std::string &word,
                                                 const std::string &value) {
  if (auto advice = adviseOnRanks(verb, word))
    return advice;
  if (word.rfind("--", 0) == 0) {
    for (const char *model : {"--model", "--model-path", "--model_path",
                              "--model-name-or-path", "--model_name_or_path"})
      if (word == model && verb.get_option_no_throw("MODEL"))
        return io::Advice{"the model has no flag: it is a word by itself",
                          "write " + io::nameOf(verb) + " " +
                              io::shellWord(given(verb, "MODEL", "MODEL"))};
    return adviseOnFlag(verb, word, value);
  }
  if (verb.get_parent()) {
    if (verb.get_name() == "compile" && given(verb, "--output", "").empty())
      return io::Advice{"", "write -o " + io::shellWord(word)};
    return std::nullopt;
  }
  for (const BinaryVerb &each : binaryVerbs())
    if (word == each.name)
      return adviseOnVerb(verb, each);
  if (std::string ours = verbFor(word); !ours.empty())
    return io::Advice{"", "write heddle " + ours};
  if (word == "finetune" || word == "fine-tune")
    return adviseOnVerb(verb, binaryVerbs().front());
  return std::nullopt;
}
