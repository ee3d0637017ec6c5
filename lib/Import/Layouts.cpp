//===- Layouts.cpp - The attention layouts of a model's layers ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the layout of each layer's attention: from the section
// `sparse_attention` of a ds_config.json, and from the files of
// --attention-layout.
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <fnmatch.h>

using namespace heddle;
using namespace heddle::config;
using layouts::AttentionLayout;

/// Returns the path of a layer for patterns, such as `h.3`.
static std::string pathOfLayer(const ModelSpec &spec, int64_t layer) {
  for (const ParameterSpec &parameter : spec.parameters)
    if (size_t dot = parameter.name.find(".0.");
        parameter.isOfLayer && dot != std::string::npos)
      return parameter.name.substr(0, dot) + "." + std::to_string(layer);
  return std::to_string(layer);
}

std::string config::layoutName(size_t number) {
  return "attention_layout." + std::to_string(number);
}

std::vector<plan::LayoutUse> config::layoutUses(const ModelSpec &spec) {
  std::vector<plan::LayoutUse> uses;
  std::map<const AttentionLayout *, size_t> numbers;
  for (size_t layer = 0; layer < spec.layouts.size(); ++layer) {
    const AttentionLayout *layout = spec.layouts[layer].get();
    if (!layout)
      continue;
    auto [known, isNew] = numbers.try_emplace(layout, uses.size());
    if (isNew)
      uses.push_back({layoutName(uses.size()), layout->blockSize(), {}});
    uses[known->second].layers.push_back(pathOfLayer(spec, int64_t(layer)));
  }
  return uses;
}

/// Gives the layers that the entry `[GLOB=]FILE` selects the layout of the
/// file.
static void readEntry(const std::string &entry, int64_t seq, ModelSpec &spec) {
  size_t equals = entry.find('=');
  bool isWhole = equals == std::string::npos;
  std::string glob = isWhole ? "*" : entry.substr(0, equals);
  auto layout = std::make_shared<AttentionLayout>(layouts::readLayoutFor(
      isWhole ? entry : entry.substr(equals + 1), spec.model->heads, seq));
  std::shared_ptr<const AttentionLayout> shared = layout;
  for (const auto &known : spec.layouts)
    if (known && *known == *layout)
      shared = known;
  bool isUsed = false;
  for (int64_t layer = 0; layer < spec.layers; ++layer)
    if (fnmatch(glob.c_str(), pathOfLayer(spec, layer).c_str(), 0) == 0) {
      spec.layouts[layer] = shared;
      isUsed = true;
    }
  if (!isUsed)
    fail("H0143", "--attention-layout " + entry + ": no layer is named so",
         "name layers as in '" + pathOfLayer(spec, 0) +
             "=FILE', with * for any part of the name");
}

/// Whether each block of queries attends to each block of keys, or, under a
/// causal mask, to each that is not later.
static bool isDense(const AttentionLayout &layout, bool isCausal) {
  const int64_t blocks = layout.blocks();
  for (int64_t head = 0; head < layout.heads(); ++head)
    if (layout.count(head) !=
        (isCausal ? blocks * (blocks + 1) / 2 : blocks * blocks))
      return false;
  return true;
}

/// Whether some block of queries attends to no block of keys.
static bool hasEmptyRow(const AttentionLayout &layout) {
  for (int64_t head = 0; head < layout.heads(); ++head)
    for (int64_t row = 0; row < layout.blocks(); ++row) {
      int64_t column = 0;
      while (column < layout.blocks() && !layout.has(head, row, column))
        ++column;
      if (column == layout.blocks())
        return true;
    }
  return false;
}

/// Checks the layout of a model with a causal mask, or cuts it if the user
/// allows that.
static void requireCausal(AttentionLayout &layout, bool mayCut) {
  if (layout.isUnidirectional())
    return;
  if (!mayCut)
    fail("H0143",
         "a layout lets queries attend to later blocks of keys, and the "
         "model's mask is causal",
         "give a unidirectional layout, or --attention-layout-causal to cut "
         "the later blocks off");
  layout.cutToCausal();
}

/// Throws H0130 if a ring of attention has shards of the sequence that end
/// within a block of a layout.
static void requireWholeBlocks(const Settings &values, const ModelSpec &spec) {
  if (values.context != Context::Ring || values.sequence == 1 ||
      values.seq % values.sequence != 0)
    return;
  const int64_t shard = values.seq / values.sequence;
  for (const auto &layout : spec.layouts) {
    if (!layout || shard % layout->blockSize() == 0)
      continue;
    const int64_t whole = values.sequence * layout->blockSize();
    const int64_t seq = (values.seq + whole - 1) / whole * whole;
    fail("H0130",
         "--mesh seq=" + std::to_string(values.sequence) + " gives a rank " +
             std::to_string(shard) + " of " + std::to_string(values.seq) +
             " tokens, which cuts a block of " +
             std::to_string(layout->blockSize()) +
             " tokens of an attention layout",
         "use --context ulysses, or --seq " + std::to_string(seq) +
             " with a layout of that length, or smaller blocks");
  }
}

/// Whether the tokens of layouts are those of --max-context; otherwise they are
/// those of --seq.
static bool isOfContext(const Settings &values) {
  return values.mode != Mode::Train;
}

/// The number of tokens for which layouts must be.
static int64_t tokensOfLayouts(const Settings &values) {
  return isOfContext(values) ? values.maxContext : values.seq;
}

/// Returns the flags that compile a checkpoint with its layouts; "" if it has
/// none.
static std::string flagsOfLayouts(const Settings &values,
                                  const ModelSpec &spec) {
  std::string flags;
  const int64_t tokens = tokensOfLayouts(values);
  int64_t wanted = tokens;
  for (const io::LayoutFile &layout : io::layoutsOfModel(spec.directory)) {
    const std::string file = spec.directory + "/" + layout.file;
    const AttentionLayout read = layouts::readLayout(file);
    const int64_t whole = read.blocks() * read.blockSize();
    // The last block of the sequence need not be whole.
    if (tokens > whole || tokens <= whole - read.blockSize())
      wanted = std::min(whole, spec.maxPositions);
    if (int64_t(layout.layers.size()) == spec.layers)
      flags += " --attention-layout " + file;
    else
      for (const std::string &layer : layout.layers)
        flags += " --attention-layout " + layer + "=" + file;
  }
  if (!flags.empty() && wanted != tokens)
    flags += std::string(isOfContext(values) ? " --max-context " : " --seq ") +
             std::to_string(wanted);
  return flags;
}

/// Returns a warning if the weights were trained with layouts and the user
/// gives none.
static std::vector<std::string> warnOfDense(const ResolvedSettings &settings,
                                            const ModelSpec &spec) {
  if (!spec.model || spec.random)
    return {};
  const std::string flags = flagsOfLayouts(settings.values, spec);
  if (flags.empty())
    return {};
  const std::string trained = "H0143: the weights in " + spec.directory +
                              " were trained with layouts of attention, and ";
  if (settings.isDraft)
    return {trained + "drafts compute dense attention: texts stay right, but "
                      "fewer guesses may be; to be faster, give a draft that "
                      "was trained without layouts"};
  return {trained +
          "this binary computes dense attention; to compile with the "
          "layouts, add" +
          flags};
}

std::vector<std::string> config::findLayouts(const ResolvedSettings &settings,
                                             ModelSpec &spec) {
  const Settings &values = settings.values;
  if (!settings.sparseAttention && values.attentionLayout.empty()) {
    if (values.attentionLayoutCausal)
      fail("H0113", "--attention-layout-causal: there is no layout to cut",
           "add --attention-layout FILE, or leave it out");
    return warnOfDense(settings, spec);
  }
  if (!spec.model)
    fail("H0113", "layouts of attention are those of a module's own operations",
         "give them as operands `layout` of nn.attention");
  const int64_t seq = tokensOfLayouts(values);
  if (values.mode == Mode::Train && values.maxContext > seq)
    fail("H0143",
         "--max-context " + std::to_string(values.maxContext) +
             ": texts are longer than the --seq " + std::to_string(seq) +
             " tokens that have a layout",
         "use --max-context " + std::to_string(seq) + " or less");
  spec.layouts.assign(spec.layers, nullptr);
  if (settings.sparseAttention) {
    // The last block of a sequence need not be whole.
    const int64_t block = settings.sparseAttention->block;
    auto layout = std::make_shared<AttentionLayout>(
        layouts::makeLayout(*settings.sparseAttention, spec.model->heads,
                            (seq + block - 1) / block * block));
    // DeepSpeed's unidirectional layouts may have blocks above the diagonal.
    if (spec.model->isCausal() && settings.sparseAttention->isUnidirectional())
      layout->cutToCausal();
    layout->shareHeads();
    spec.layouts.assign(spec.layers, std::move(layout));
  }
  for (const std::string &entry : values.attentionLayout)
    readEntry(entry, seq, spec);

  const bool isCausal = spec.model->isCausal();
  std::map<const AttentionLayout *, std::shared_ptr<const AttentionLayout>>
      checked;
  bool hasBlindQueries = false;
  for (auto &layout : spec.layouts) {
    if (!layout)
      continue;
    auto [known, isNew] = checked.try_emplace(layout.get());
    if (isNew) {
      AttentionLayout copy(*layout);
      if (isCausal)
        requireCausal(copy, values.attentionLayoutCausal);
      hasBlindQueries |= hasEmptyRow(copy);
      // Dense kernels need no lists of blocks.
      if (!isDense(copy, isCausal))
        known->second = std::make_shared<AttentionLayout>(std::move(copy));
    }
    layout = known->second;
  }
  requireWholeBlocks(values, spec);
  if (!hasBlindQueries)
    return {};
  return {"H0143: some queries attend to no key, because a row of their "
          "attention layout has no block; attention gives zeros for them"};
}
