//===- LayoutVerb.cpp - heddle layout -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle layout`: makes the layout of block-sparse attention,
// writes it to a file, and draws it.
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/runtime/io/File.h"
#include <cctype>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using namespace heddle::layouts;

namespace {

struct LayoutFlags {
  std::string mode, output, picture;
  int64_t heads = 0, seq = 0;
  uint64_t seed = 0;
  /// The text of each option, by its key.
  std::map<std::string, std::string> texts;
  /// The options of the table that were given.
  std::vector<const LayoutOption *> given;
};

} // namespace

/// Returns the mode's options with the values that the user gave. Throws H0113
/// for an option of another mode.
static LayoutOptions optionsOf(const LayoutFlags &flags) {
  const Mode mode = *parseMode(flags.mode);
  LayoutOptions options = defaultsOf(mode);
  options.seed = flags.seed;
  for (const LayoutOption *option : flags.given) {
    if (!option->isOf(mode)) {
      std::string known;
      for (const LayoutOption &other : layoutOptions())
        if (other.isOf(mode))
          known += (known.empty() ? "" : ", ") + other.flag();
      fail("H0113",
           option->flag() + " is an option of " + option->modeList() +
               ", not of " + flags.mode,
           "leave it out; " + flags.mode + " has " + known);
    }
    option->set(options,
                option->isSwitch() ? "true" : flags.texts.at(option->key));
  }
  return options;
}

/// Returns for example `bigbird, 12 heads, 128 x 128 blocks of 32 tokens`.
static std::string describeSize(const LayoutFlags &flags,
                                const AttentionLayout &layout) {
  const std::string blocks = std::to_string(layout.blocks());
  return flags.mode + ", " + std::to_string(flags.heads) +
         (flags.heads == 1 ? " head, " : " heads, ") + blocks + " x " + blocks +
         " blocks of " + std::to_string(layout.blockSize()) + " tokens";
}

/// Returns for example `density 4.63 %, not unidirectional`.
static std::string describeBlocks(const AttentionLayout &layout) {
  char density[32];
  std::snprintf(density, sizeof density, "%.2f %%", 100 * layout.density());
  return std::string("density ") + density +
         (layout.isUnidirectional() ? ", unidirectional"
                                    : ", not unidirectional");
}

static int makeLayoutFile(const LayoutFlags &flags) {
  io::requireApart({}, {{"-o", flags.output}, {"--picture", flags.picture}});
  for (const std::string &path : {flags.output, flags.picture})
    if (!path.empty())
      io::requireWritableOutput(path);
  const AttentionLayout layout =
      makeLayout(optionsOf(flags), flags.heads, flags.seq);
  const std::string size = describeSize(flags, layout);
  const std::string blocks = describeBlocks(layout);
  if (!flags.picture.empty())
    io::writeText(flags.picture, drawLayout(layout, flags.heads, size, blocks));
  writeLayout(layout, flags.heads, flags.output);
  std::cout << flags.output << ": " << size << ", " << blocks << "\n";
  return 0;
}

/// Adds the flags of the table of options.
static void addOptions(CLI::App &verb, const std::shared_ptr<LayoutFlags> &to,
                       std::vector<std::pair<CLI::Option *, size_t>> &added) {
  verb.option_defaults()->group("Options of modes");
  const std::vector<LayoutOption> &table = layoutOptions();
  for (size_t i = 0; i < table.size(); ++i) {
    const LayoutOption &option = table[i];
    std::string meaning = option.meaning;
    meaning[0] = char(std::toupper(meaning[0]));
    // Not const, it would be a variable that the flag sets.
    const std::string help = meaning + " (" + option.modeList() + ")";
    if (option.isSwitch()) {
      added.emplace_back(verb.add_flag(option.flag(), help), i);
      continue;
    }
    std::string usual = option.defaultText();
    bool isByMode = usual.find(':') != usual.npos;
    CLI::Option *flag =
        io::addFlag(verb, option.flag(), to->texts[option.key], option.range,
                    help + (isByMode ? "; default " + usual : ""))
            ->default_str(isByMode ? "by mode" : usual);
    if (option.isInteger())
      flag->type_name("INT");
    added.emplace_back(flag, i);
  }
}

void driver::addLayoutVerb(CLI::App &app, Action &action) {
  CLI::App *verb = app.add_subcommand(
      "layout", "Make the layout of block-sparse attention, and draw it");
  auto flags = std::make_shared<LayoutFlags>();
  io::addFlag(*verb, "MODE", flags->mode,
              io::ValueRange::choices({modeWords.begin(), modeWords.end()}),
              "How blocks are chosen, as DeepSpeed names it: dense, fixed, "
              "variable, bigbird, bslongformer or local")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--heads", flags->heads,
              io::ValueRange::integers(1, 1 << 16),
              "Query heads of the whole model")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--seq", flags->seq,
              io::ValueRange::integers(1, (1 << 24) - 1),
              "Tokens of a row, a multiple of --block")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--seed", flags->seed, io::range::seed(),
              "Chooses the random blocks");
  io::addFlag(*verb, "-o,--output", flags->output, io::range::path(),
              "The layout to write (.safetensors)")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--picture", flags->picture, io::range::path(),
              "A drawing of the layout to write (.svg)")
      ->default_str("none");
  std::vector<std::pair<CLI::Option *, size_t>> added;
  addOptions(*verb, flags, added);
  verb->callback([flags, added, &action] {
    for (const auto &[option, index] : added)
      if (option->count() > 0)
        flags->given.push_back(&layoutOptions()[index]);
    action = [flags] { return makeLayoutFile(*flags); };
  });
}
