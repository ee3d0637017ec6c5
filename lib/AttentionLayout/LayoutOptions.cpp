//===- LayoutOptions.cpp - Options of attention layouts -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/LayoutOptions.h"
#include <algorithm>
#include <sstream>

using namespace heddle;
using namespace heddle::layouts;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

const char *layouts::wordOf(Mode mode) { return modeWords[size_t(mode)]; }

std::optional<Mode> layouts::parseMode(const std::string &word) {
  for (size_t i = 0; i < modeWords.size(); ++i)
    if (word == modeWords[i])
      return Mode(i);
  return std::nullopt;
}

static std::string flagOf(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

std::string OptionSource::spell(const std::string &key) const {
  return isFile ? '"' + key + '"' : flagOf(key);
}

SourceLocation OptionSource::locate(const std::string &key) const {
  auto found = places.find(key);
  return found == places.end() ? location : found->second;
}

//===----------------------------------------------------------------------===//
// Defaults
//===----------------------------------------------------------------------===//

LayoutOptions layouts::defaultsOf(Mode mode) {
  LayoutOptions options;
  options.mode = mode;
  if (mode == Mode::BigBird)
    options.numRandomBlocks = 1;
  if (mode == Mode::Local)
    options.attention = Direction::Unidirectional;
  return options;
}

LayoutOptions layouts::sectionDefaultsOf(Mode mode) {
  LayoutOptions options = defaultsOf(mode);
  options.numRandomBlocks = 0;
  return options;
}

//===----------------------------------------------------------------------===//
// The table of options
//===----------------------------------------------------------------------===//

/// More blocks than any sequence has.
static constexpr int64_t mostBlocks = 1 << 20;

/// Parses integers that are separated by commas; `none` is an empty list.
/// Returns nothing for any other text, and for integers below `least`.
static std::optional<std::vector<int64_t>> parseList(const std::string &text,
                                                     int64_t least) {
  std::vector<int64_t> list;
  if (text == "none")
    return list;
  std::stringstream stream(text + ",");
  for (std::string item; std::getline(stream, item, ',');) {
    size_t digits = item.rfind('-', 0) == 0 ? 1 : 0;
    bool isNumber = item.size() > digits && item.size() < digits + 8 &&
                    item.find_first_not_of("0123456789", digits) == item.npos;
    int64_t value = isNumber ? std::stoll(item) : least - 1;
    if (value < least || value > mostBlocks)
      return std::nullopt;
    list.push_back(value);
  }
  return list;
}

static io::ValueRange sizesRange() {
  return io::ValueRange::matching(
      "whole numbers with commas, such as 4 or 2,4,8",
      [](const std::string &text) {
        auto sizes = parseList(text, 0);
        return sizes && !sizes->empty();
      });
}

static io::ValueRange indicesRange() {
  return io::ValueRange::matching(
      "whole numbers with commas, such as 0 or 0,5, or none",
      [](const std::string &text) {
        return parseList(text, -mostBlocks).has_value();
      });
}

static io::ValueRange countRange(int64_t least) {
  return io::ValueRange::integers(least, mostBlocks);
}

static io::ValueRange blockRange() {
  std::vector<std::string> words;
  for (int64_t size : blockSizes)
    words.push_back(std::to_string(size));
  return io::ValueRange::choices(words);
}

static unsigned bits(std::initializer_list<Mode> modes) {
  unsigned mask = 0;
  for (Mode mode : modes)
    mask |= 1u << int(mode);
  return mask;
}

static std::vector<LayoutOption> makeTable() {
  using M = Mode;
  using O = LayoutOptions;
  const unsigned all = (1u << modeWords.size()) - 1;
  const unsigned perHead = all & ~bits({M::Local});
  const unsigned sliding = bits({M::BigBird, M::BSLongformer, M::Local});
  const unsigned listed = bits({M::Variable, M::BSLongformer});
  const auto words =
      io::ValueRange::choices({directionWords.begin(), directionWords.end()});
  const auto isTrue = io::ValueRange::choices({"true", "false"});
  return {
      {"block", all, &O::block, blockRange(), blockSizes[0],
       "tokens of a block"},
      {"different_layout_per_head", perHead, &O::differentLayoutPerHead, isTrue,
       0, "each head has its own random blocks and global pattern"},
      {"num_local_blocks", bits({M::Fixed}), &O::numLocalBlocks, countRange(1),
       1, "blocks of a local window"},
      {"num_global_blocks", bits({M::Fixed, M::BigBird}), &O::numGlobalBlocks,
       countRange(0), 0,
       "fixed: global blocks of each window; bigbird: first blocks that are "
       "global"},
      {"num_random_blocks", bits({M::Variable, M::BigBird}),
       &O::numRandomBlocks, countRange(0), 0, "random blocks of each row"},
      {"num_sliding_window_blocks", sliding, &O::numSlidingWindowBlocks,
       countRange(0), 0,
       "blocks of the window around the diagonal, half of them on each side"},
      {"local_window_blocks", bits({M::Variable}), &O::localWindowBlocks,
       sizesRange(), 0,
       "blocks of each local window in turn; the last size repeats"},
      {"global_block_indices", listed, &O::globalBlockIndices, indicesRange(),
       -mostBlocks, "global blocks, or the first of each global range"},
      {"global_block_end_indices", listed, &O::globalBlockEndIndices,
       indicesRange(), -mostBlocks,
       "the end of each global range, which it excludes"},
      {"attention", all & ~bits({M::Dense}), &O::attention, words, 0,
       "whether queries attend to later blocks"},
      {"horizontal_global_attention", bits({M::Fixed, M::Variable}),
       &O::horizontalGlobalAttention, isTrue, 0,
       "queries of global blocks attend to all blocks"},
      {"num_different_global_patterns", bits({M::Fixed}),
       &O::numDifferentGlobalPatterns, countRange(1), 1,
       "patterns of global blocks, which heads take in turn"},
  };
}

const std::vector<LayoutOption> &layouts::layoutOptions() {
  static const std::vector<LayoutOption> table = makeTable();
  return table;
}

const LayoutOption *layouts::findOption(const std::string &key) {
  for (const LayoutOption &option : layoutOptions())
    if (option.key == key)
      return &option;
  return nullptr;
}

std::string LayoutOption::flag() const { return flagOf(key); }

std::string LayoutOption::modeList() const {
  std::string list;
  for (size_t i = 0; i < modeWords.size(); ++i)
    if (isOf(Mode(i)))
      list += (list.empty() ? "" : ", ") + std::string(modeWords[i]);
  return list;
}

void LayoutOption::set(LayoutOptions &options, const std::string &text) const {
  std::visit(
      [&](auto at) {
        auto &value = options.*at;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, int64_t>)
          value = std::stoll(text);
        else if constexpr (std::is_same_v<T, bool>)
          value = text == "true";
        else if constexpr (std::is_same_v<T, Direction>)
          value = text == directionWords[1] ? Direction::Unidirectional
                                            : Direction::Bidirectional;
        else
          value = *parseList(text, least);
      },
      member);
}

static std::string joinList(const std::vector<int64_t> &list) {
  std::string text;
  for (int64_t value : list)
    text += (text.empty() ? "" : ",") + std::to_string(value);
  return list.empty() ? "none" : text;
}

std::string LayoutOption::toText(const LayoutOptions &options) const {
  return std::visit(
      [&](auto at) -> std::string {
        const auto &value = options.*at;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, int64_t>)
          return std::to_string(value);
        else if constexpr (std::is_same_v<T, bool>)
          return value ? "true" : "false";
        else if constexpr (std::is_same_v<T, Direction>)
          return directionWords[size_t(value)];
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return joinList(value);
        else
          return value ? joinList(*value) : "";
      },
      member);
}

std::string LayoutOption::defaultText() const {
  // The modes of each default, in the order of the first mode.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  size_t most = 0, withMost = 0;
  for (size_t i = 0; i < modeWords.size(); ++i) {
    if (!isOf(Mode(i)))
      continue;
    std::string text = toText(defaultsOf(Mode(i)));
    text = text.empty() ? "none" : text;
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](auto &group) { return group.first == text; });
    if (same == groups.end())
      same = groups.insert(groups.end(), {text, {}});
    same->second.push_back(modeWords[i]);
    most = std::max(most, same->second.size());
  }
  for (const auto &[text, modes] : groups)
    withMost += modes.size() == most;
  std::string all;
  for (const auto &[text, modes] : groups) {
    all += all.empty() ? "" : "; ";
    // Modes are named unless they are the most.
    if (groups.size() > 1 && (modes.size() < most || withMost > 1))
      for (const std::string &mode : modes)
        all += mode + (mode == modes.back() ? ": " : ", ");
    all += text;
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Options that contradict each other
//===----------------------------------------------------------------------===//

namespace {

/// Checks the options of a mode. Messages name the options as the user wrote
/// them.
class Checker {
public:
  explicit Checker(const LayoutOptions &options) : options(options) {}
  void checkAll() const;

private:
  void checkPatterns() const;
  void checkRanges() const;
  std::string name(const char *key) const { return options.source.spell(key); }
  template <typename T> std::string nameAnd(const char *key, T value) const {
    return name(key) + " " + std::to_string(value);
  }
  [[noreturn]] void refuse(const char *key, const std::string &message,
                           const std::string &help) const {
    fail("H0175", message, help, options.source.locate(key));
  }
  const LayoutOptions &options;
};

} // namespace

void Checker::checkPatterns() const {
  const int64_t local = options.numLocalBlocks;
  const int64_t global = options.numGlobalBlocks;
  const int64_t patterns = options.numDifferentGlobalPatterns;
  if (global < 1 || local % global != 0)
    refuse("num_global_blocks",
           nameAnd("num_global_blocks", global) + " does not divide " +
               nameAnd("num_local_blocks", local),
           "give " + name("num_global_blocks") + " a divisor of " +
               std::to_string(local) + ", such as 1");
  if (patterns > 1 && !options.differentLayoutPerHead)
    refuse("num_different_global_patterns",
           nameAnd("num_different_global_patterns", patterns) +
               " with one layout for all heads",
           options.source.isFile
               ? "set " + name("different_layout_per_head") + " to true"
               : "add " + name("different_layout_per_head"));
  if (patterns > local / global)
    refuse("num_different_global_patterns",
           nameAnd("num_different_global_patterns", patterns) +
               " is more than " + name("num_local_blocks") + " / " +
               name("num_global_blocks") + " = " + std::to_string(local) +
               " / " + std::to_string(global) + " = " +
               std::to_string(local / global),
           "use at most " + std::to_string(local / global) + " patterns");
}

void Checker::checkRanges() const {
  if (!options.globalBlockEndIndices)
    return;
  const std::vector<int64_t> &first = options.globalBlockIndices;
  const std::vector<int64_t> &end = *options.globalBlockEndIndices;
  constexpr const char *key = "global_block_end_indices";
  if (first.size() != end.size())
    refuse(key,
           name("global_block_indices") + " has " +
               std::to_string(first.size()) + " elements, and " + name(key) +
               " " + std::to_string(end.size()),
           "give each global range its first block and its end");
  for (size_t i = 0; i < end.size(); ++i)
    if (first[i] >= end[i])
      refuse(key,
             "the global range from block " + std::to_string(first[i]) +
                 " to block " + std::to_string(end[i]) + " is empty",
             "an end in " + name(key) +
                 " is excluded, so it must be above the first block");
}

void Checker::checkAll() const {
  const Mode mode = options.mode;
  if (mode == Mode::Fixed)
    checkPatterns();
  if (findOption("horizontal_global_attention")->isOf(mode) &&
      options.horizontalGlobalAttention && options.isUnidirectional())
    refuse("horizontal_global_attention",
           name("horizontal_global_attention") + " with " + name("attention") +
               " unidirectional",
           "use one of the two: queries of global blocks would attend to later "
           "blocks");
  if (mode == Mode::Variable && (options.localWindowBlocks.empty() ||
                                 options.localWindowBlocks.back() < 1))
    refuse("local_window_blocks",
           "the last window of " + name("local_window_blocks") +
               ", which repeats, has no block",
           "end the list with a size of at least 1, such as 4");
  if (findOption("global_block_end_indices")->isOf(mode))
    checkRanges();
}

void layouts::checkOptions(const LayoutOptions &options) {
  Checker(options).checkAll();
}

//===----------------------------------------------------------------------===//
// The reference page
//===----------------------------------------------------------------------===//

std::string layouts::layoutReference() {
  std::string page =
      "# Attention layouts: all options\n\n"
      "The options of `heddle layout`, by their flags, and of the section "
      "`sparse_attention` of a\nds_config.json, by their keys "
      "([sparse attention](../sparse-attention.md)).\n\n"
      "| flag | key | modes | values | default | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const LayoutOption &option : layoutOptions())
    page += "| `" + option.flag() + "` | `" + option.key + "` | " +
            option.modeList() + " | " +
            (option.isSwitch() ? "true or false" : option.range.describe()) +
            " | " + option.defaultText() + " | " + option.meaning + " |\n";
  page += "\n`bigbird` has 1 random block in each row by default, and 0 in a "
          "ds_config.json, as in DeepSpeed.\n";
  return page;
}
