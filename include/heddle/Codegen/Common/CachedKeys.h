//===- CachedKeys.h - Which keys of a cache a token sees --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which keys a token sees in attention over a cache, for the kernels of all
// targets and the linalg lowering.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_CACHEDKEYS_H
#define HEDDLE_CODEGEN_COMMON_CACHEDKEYS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::codegen {

/// Emits code that computes which keys of a cache a token sees. A token at
/// position p sees no key after p, so that its keys end at p + 1, its `count`.
/// A window hides keys before a first one, and a layout hides blocks of keys.
///
/// Kernels go over keys in parts of `PagedAttentionOp::partKeys` positions. A
/// block of a layout is not longer than a part, and a word of 32 bits has the
/// blocks of several whole parts. So the blocks that a token sees in a part are
/// a few bits of one word, of which the lowest is the first block of the part.
class CachedKeys {
public:
  using Value = mlir::Value;

  explicit CachedKeys(nn::PagedAttentionOp op);
  explicit CachedKeys(nn::PagedAttentionJoinOp op);

  /// Whether `firstOf` is not null.
  bool hasFirst() const { return window != 0; }
  /// The first key that a token sees, given the end of its keys, `count`; null
  /// if every token sees keys from position 0 on, or if a layout says which.
  Value firstOf(IntBuilder ints, Value count) const;

  bool hasLayout() const { return block != 0; }
  /// Whether a token that exists may see no key.
  bool maySeeNoKey() const { return hasLayout(); }
  /// The index of the first word of the row of the layout that has the blocks
  /// which a token sees in head `head`. `count` is the end of the token's keys,
  /// or 0 if it does not exist. `head` is one of the rank's heads, `shard` the
  /// rank's shard of the heads; null: 0.
  Value firstWord(IntBuilder ints, Value head, Value count, Value shard) const;
  /// The index of the word with the bits of part `part`, from the row's first.
  Value wordOf(IntBuilder ints, Value part) const;
  /// The bits of part `part`, from the word (i32) that has them.
  Value bitsOf(IntBuilder ints, Value word, Value part) const;
  /// The number of bits of a part.
  int64_t bitsOfPart() const;
  /// The bits of a part with which some key of `keys` consecutive keys is seen.
  /// The keys begin at `first`, counted from the part's first key, and are in
  /// one block or are several whole blocks.
  Value bitsOfKeys(IntBuilder ints, Value bits, Value first,
                   int64_t keys) const;
  /// The number of keys of a block of the layout.
  int64_t blockKeys() const { return block; }

private:
  void setMask(nn::MaskAttr mask, int64_t context);

  int64_t window = 0;  ///< 0: none that hides a key.
  int64_t block = 0;   ///< 0: no layout.
  int64_t heads = 0;   ///< Query heads of the rank.
  int64_t layouts = 0; ///< The layouts of the model: 1, or one a head.
  int64_t blocks = 0, words = 0; ///< Blocks and words of a row of the layout.
};

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_CACHEDKEYS_H
