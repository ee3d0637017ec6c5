//===- LayoutFile.cpp - Reads and writes files of layouts -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::layouts;

static constexpr const char *tensorName = "layout";
static constexpr const char *blockKey = "block";

static std::string listOfSizes() {
  std::string list;
  for (int64_t size : blockSizes)
    list += (list.empty()                ? ""
             : size == blockSizes.back() ? " or "
                                         : ", ") +
            std::to_string(size);
  return list;
}

/// Returns the size of a block that the metadata gives.
static int64_t blockSizeOf(const io::WeightSet &file, const std::string &path) {
  auto found = file.metadata().find(blockKey);
  if (found == file.metadata().end())
    fail("H0329", "the metadata of a layout has no \"block\"",
         "save it with the tokens of a block, as safetensors.torch.save_file("
         "tensors, path, metadata={\"block\": \"16\"})",
         {path, 0, 0});
  for (int64_t size : blockSizes)
    if (found->second == std::to_string(size))
      return size;
  fail("H0329",
       "the metadata of a layout gives blocks of \"" + found->second +
           "\" tokens",
       "make a layout whose blocks have " + listOfSizes() + " tokens",
       {path, 0, 0});
}

/// Returns an element of a tensor of integers, whose bytes may be unaligned.
static int64_t elementAt(const uint8_t *at, int64_t width) {
  int64_t value = *at;
  int32_t narrow = 0;
  if (width == 8)
    std::memcpy(&value, at, 8);
  else if (width == 4) {
    std::memcpy(&narrow, at, 4);
    value = narrow;
  }
  return value;
}

/// Returns the tensor of the layout. Throws H0308 if it has a wrong shape or
/// type, or is missing.
static const io::TensorInfo &findLayout(const io::WeightSet &file,
                                        const SourceLocation &place) {
  const io::TensorInfo *tensor = file.find(tensorName);
  if (!tensor)
    fail("H0308", "the file has no tensor \"layout\"",
         "save the layout under this name, or name a file of heddle layout",
         place);
  const std::vector<int64_t> &shape = tensor->shape;
  if (shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[1] != shape[2])
    fail(
        "H0308",
        "the tensor \"layout\" has the shape " + io::shapeToString(shape),
        "make it [heads, blocks, blocks], or [1, blocks, blocks] for all heads",
        place);
  const std::vector<std::string> types = {"U8", "BOOL", "I32", "I64"};
  if (std::find(types.begin(), types.end(), tensor->dtype) == types.end())
    fail("H0308", "the tensor \"layout\" has the type " + tensor->dtype,
         "save it as uint8, bool, int32 or int64", place);
  return *tensor;
}

AttentionLayout layouts::readLayout(const std::string &path) {
  const SourceLocation place = {path, 0, 0};
  const io::WeightSet file = io::openSafetensors(path);
  const io::TensorInfo &tensor = findLayout(file, place);
  const int64_t heads = tensor.shape[0], blocks = tensor.shape[1];
  AttentionLayout layout(heads, blocks, blockSizeOf(file, path));
  const int64_t width = io::dtypeBits(tensor.dtype) / 8;
  const uint8_t *at = file.data(tensor);
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t row = 0; row < blocks; ++row)
      for (int64_t column = 0; column < blocks; ++column, at += width) {
        int64_t value = elementAt(at, width);
        if (value == 1)
          layout.add(head, row, column);
        else if (value != 0)
          fail("H0308",
               "the tensor \"layout\" has " + std::to_string(value) +
                   " at head " + std::to_string(head) + ", row " +
                   std::to_string(row) + ", column " + std::to_string(column),
               "save 1 for a block that is computed, and 0 for any other",
               place);
      }
  return layout;
}

void layouts::writeLayout(const AttentionLayout &layout, int64_t heads,
                          const std::string &path) {
  const int64_t blocks = layout.blocks();
  auto produce = [&](const io::TensorToWrite::Sink &sink) {
    std::vector<uint8_t> bytes(blocks);
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t row = 0; row < blocks; ++row) {
        for (int64_t column = 0; column < blocks; ++column)
          bytes[column] = layout.has(head, row, column);
        sink(bytes.data(), blocks);
      }
  };
  io::writeSafetensors(
      path, {{tensorName, "U8", {heads, blocks, blocks}, nullptr, produce}},
      {{"format", "pt"}, {blockKey, std::to_string(layout.blockSize())}});
}

void layouts::requireFit(const AttentionLayout &layout, const std::string &path,
                         int64_t heads, int64_t seq) {
  const SourceLocation place = {path, 0, 0};
  const std::string block = std::to_string(layout.blockSize());
  if (layout.heads() != 1 && layout.heads() != heads)
    fail("H0198",
         "a layout of " + std::to_string(layout.heads()) +
             " heads for a model of " + std::to_string(heads),
         "make one with --heads " + std::to_string(heads), place);
  // The last block may be longer than the rest of the sequence.
  const int64_t whole = layout.blocks() * layout.blockSize();
  if (whole < seq || whole >= seq + layout.blockSize())
    fail("H0198",
         "a layout of " + std::to_string(layout.blocks()) + " blocks of " +
             block + " tokens for sequences of " + std::to_string(seq),
         "make one with --seq " + std::to_string(seq) + ", or compile with " +
             "--seq " + std::to_string(whole) +
             " (--max-context for --mode serve)",
         place);
}

AttentionLayout layouts::readLayoutFor(const std::string &path, int64_t heads,
                                       int64_t seq) {
  AttentionLayout layout = readLayout(path);
  requireFit(layout, path, heads, seq);
  layout.shareHeads();
  return layout;
}
