//===- LayoutOptions.h - Options of attention layouts -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The modes of block-sparse attention, and the options of each mode. Modes,
// options and defaults are those of DeepSpeed 0.19.6. The flags of `heddle
// layout`, the keys of the section `sparse_attention` of a ds_config.json,
// error messages and the reference page are derived from one table. This header
// includes no LLVM headers, so that the readers of the user's files, the driver
// and tests share it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_ATTENTIONLAYOUT_LAYOUTOPTIONS_H
#define HEDDLE_ATTENTIONLAYOUT_LAYOUTOPTIONS_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/ValueRange.h"
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::layouts {

/// How the attended blocks are chosen. DeepSpeed has a class for each mode.
/// `local` is not a mode of DeepSpeed's configuration file.
enum class Mode { Dense, Fixed, Variable, BigBird, BSLongformer, Local };
inline constexpr std::array modeWords = {"dense",   "fixed",        "variable",
                                         "bigbird", "bslongformer", "local"};

/// Whether a query attends to keys on both sides, or only to earlier ones.
enum class Direction { Bidirectional, Unidirectional };
inline constexpr std::array directionWords = {"bidirectional",
                                              "unidirectional"};

/// The sizes that a block may have, in tokens.
inline constexpr std::array<int64_t, 4> blockSizes = {16, 32, 64, 128};

const char *wordOf(Mode mode);
std::optional<Mode> parseMode(const std::string &word);

/// Where the user gave the options: as flags, or in a section of a file. Errors
/// name an option as the user wrote it, and point at its place.
struct OptionSource {
  bool isFile = false;
  /// The section of the file.
  SourceLocation location;
  /// The position of each option that the section has, by the option's key.
  std::map<std::string, SourceLocation> places;

  /// The option's name as the user writes it: `--num-local-blocks`, or
  /// `"num_local_blocks"` in a file.
  std::string spell(const std::string &key) const;
  /// The option's position in the file, or the section's if the section does
  /// not have the option.
  SourceLocation locate(const std::string &key) const;
};

/// A mode and the values of its options. A mode ignores the options of other
/// modes. Sizes are in blocks.
struct LayoutOptions {
  Mode mode = Mode::Fixed;
  int64_t block = 16;
  bool differentLayoutPerHead = false;
  int64_t numLocalBlocks = 4;
  int64_t numGlobalBlocks = 1;
  int64_t numRandomBlocks = 0;
  int64_t numSlidingWindowBlocks = 3;
  std::vector<int64_t> localWindowBlocks = {4};
  std::vector<int64_t> globalBlockIndices = {0};
  std::optional<std::vector<int64_t>> globalBlockEndIndices;
  Direction attention = Direction::Bidirectional;
  bool horizontalGlobalAttention = false;
  int64_t numDifferentGlobalPatterns = 1;
  /// The seed of the random blocks. It is not among the options of the table,
  /// since DeepSpeed draws without a seed.
  uint64_t seed = 0;
  OptionSource source;

  bool isUnidirectional() const {
    return attention == Direction::Unidirectional;
  }
};

/// Returns the defaults of DeepSpeed's class for this mode.
LayoutOptions defaultsOf(Mode mode);
/// Returns the defaults that DeepSpeed has for this mode in a ds_config.json.
/// They differ from those of the class: `bigbird` has no random block.
LayoutOptions sectionDefaultsOf(Mode mode);

/// A row of the table of options.
struct LayoutOption {
  using Member =
      std::variant<int64_t LayoutOptions::*, bool LayoutOptions::*,
                   Direction LayoutOptions::*,
                   std::vector<int64_t> LayoutOptions::*,
                   std::optional<std::vector<int64_t>> LayoutOptions::*>;

  const char *key; ///< The name in DeepSpeed, such as `num_local_blocks`.
  unsigned modes;  ///< A bit for each mode that has the option.
  Member member;
  io::ValueRange range; ///< Of the option's text. A list is joined by commas.
  /// The least value of an integer, or of each element of a list.
  int64_t least;
  const char *meaning;

  /// The flag of `heddle layout`, such as `--num-local-blocks`.
  std::string flag() const;
  bool isOf(Mode mode) const { return modes >> int(mode) & 1; }
  /// Whether `set` can read the text, and the value is in range.
  bool accepts(std::string text) const { return range.take(text); }
  bool isSwitch() const { return member.index() == 1; }
  bool isInteger() const { return member.index() == 0; }
  bool isList() const { return member.index() >= 3; }
  /// The modes that have the option, such as `fixed, variable`.
  std::string modeList() const;
  /// Sets the option to the value that a text in `range` means. The text of a
  /// switch is `true` or `false`, and that of an empty list `none`.
  void set(LayoutOptions &options, const std::string &text) const;
  /// Returns the option's value as a text that `set` reads. Returns "" for a
  /// list that is not there.
  std::string toText(const LayoutOptions &options) const;
  /// Returns the option's default, such as `4`. If modes have different ones,
  /// the text names modes, as in `variable: 0; bigbird: 1`.
  std::string defaultText() const;
};

/// All options, in the order in which tables list them.
const std::vector<LayoutOption> &layoutOptions();
/// Returns the option with this key, or null if there is none.
const LayoutOption *findOption(const std::string &key);

/// Throws H0175 if options contradict each other, whatever the length of the
/// sequence.
void checkOptions(const LayoutOptions &options);

/// Returns the reference page of modes and options in Markdown:
/// docs/reference/attention-layouts.md.
std::string layoutReference();

} // namespace heddle::layouts

#endif // HEDDLE_ATTENTIONLAYOUT_LAYOUTOPTIONS_H
