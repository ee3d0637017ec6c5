//===- NNCacheOps.td - Keys and values kept across runs ----*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of NNOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_CACHE_OPS
#define HEDDLE_DIALECTS_NN_CACHE_OPS

/// What a cache holds: numbers, or codes of 8 bits.
def NN_Cached : StaticShapeTensorOf<[F32, BF16, F16, I8]>;

/// A cache is made of pages that hold N positions each: keys [P, kv, D, N],
/// values [P, kv, N, D]. Codes of 8 bits have `scales` [P, kv, 2, N]: the
/// features of a key are its codes times scales[.., 0, :], those of a value
/// times scales[.., 1, :]. `pages` [R, M] names the pages of each row: position p
/// stands in page pages[r, p / N], at p mod N. The tokens of a run are [R, T]:
/// token t of row r is there if t < lengths[r], at `positions`[r, t]. What is
/// not there may be at any position from 0 on, and may have any page.
class NN_CacheOp<string mnemonic, dag more = (ins)>
    : NN_NonDifferentiableOp<mnemonic,
        !con((ins NN_Cached:$keys, NN_Cached:$values, Optional<NN_Float>:$scales,
                  Variadic<NN_Float>:$qkv, NN_Ids:$pages, NN_Ids:$positions,
                  NN_Ids:$lengths, NN_HeadsAttr:$heads), more),
        [AttrSizedOperandSegments, NN_InForward]> {
  let assemblyFormat = [{
    $keys `,` $values (`scales` $scales^)? `of` $qkv `pages` $pages `at` $positions `lengths` $lengths attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  code sharedDeclaration = [{
    /// Whether one tensor has q, k and v.
    bool isPacked() { return getQkv().size() == 1; }
    int64_t getHeadDim() { return getValues().getType().getDimSize(3); }
    /// Positions that a page holds.
    int64_t getPageTokens() { return getValues().getType().getDimSize(2); }
    /// The features of q, k and v.
    ::llvm::SmallVector<int64_t> getWidths() {
      int64_t kv = getHeads().getKv() * getHeadDim();
      return {getHeads().getCount() * getHeadDim(), kv, kv};
    }
  }];
}

def NN_CacheWriteOp : NN_CacheOp<"cache_write"> {
  let summary = "The cache with the keys and values of tokens at their positions.";
  let description = [{
    Takes q, k and v as nn.attention does, rounds k and v to the cache's type,
    and leaves everything else as it is. No two tokens may be written to one
    place. With codes, the scale of a head of a token is its largest feature
    divided by 127, rounded to the type of scales, and a code is a feature
    divided by that, rounded to the nearest, ties to even.

    ```mlir
    %k1, %v1 = nn.cache_write %k, %v of %qkv pages %table at %positions lengths %n
        {heads = #nn.heads<2, scale = 0.5>}
        : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>,
           tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    ```
  }];
  let results = (outs NN_Cached:$new_keys, NN_Cached:$new_values,
                      Optional<NN_Float>:$new_scales);
  let extraClassDeclaration = !strconcat(sharedDeclaration, [{
    int64_t getHeadColumns() { return getHeadDim(); }
  }], NN_Localize.declaration, NN_Ties.declaration, NN_BytesOf.declaration);
}

def NN_PagedAttentionOp
    : NN_CacheOp<"paged_attention", (ins NN_MaskAttr:$mask, UnitAttr:$in_parts)> {
  let summary = "softmax(scale q k^T) v, by heads, over keys and values of a cache.";
  let description = [{
    `heads` and `mask` mean what they mean to nn.attention; the mask is causal. So
    a token at position p sees the keys at positions 0 to p of its row, its own
    among them, or the last `window` of these: they have been written. Pages whose
    keys nobody sees may be any. Of `qkv` q alone is read. The output of a
    token that is not there is zero. Keys are taken page by page, in parts of
    `partKeys` positions: each part has its own maximum and sums, which are joined in
    order. So no bit of a token's result depends on other tokens of the run, nor on
    which pages a row has, nor on who computes a part.

    With `in_parts` the output is what is joined, which nn.paged_attention_join does:
    of each part and head the sums of 2^(s - m) v, then the sum of 2^(s - m), then m,
    with s the scores and m the largest of them, both times log2(e). Parts in which a
    token sees nothing may be any.
  }];
  let results = (outs NN_Float:$output);
  let extraClassDeclaration = !strconcat(sharedDeclaration, [{
    /// Positions whose keys are summed together before they are joined with
    /// others: long enough that joining costs nothing, short enough that one text
    /// keeps all threads busy.
    static constexpr int64_t partKeys = 256;
    /// Pages of a part: one at least.
    int64_t getPartPages() {
      return std::max<int64_t>(partKeys / getPageTokens(), 1);
    }
    /// Parts of a row.
    int64_t getNumParts();
    /// With `in_parts`, [R, T, parts, heads, D + 2].
    ::mlir::RankedTensorType getPartsType();
  }], NN_Localize.declaration, NN_ModelFlops.declaration, NN_BytesOf.declaration);
}

def NN_PagedAttentionJoinOp : NN_NonDifferentiableOp<"paged_attention_join",
    (ins NN_F32:$parts, NN_Ids:$positions, NN_Ids:$lengths, NN_MaskAttr:$mask,
         I64Attr:$part_tokens)> {
  let summary = "The output of nn.paged_attention from its parts.";
  let description = [{
    `parts` are those of nn.paged_attention with `in_parts`, of `part_tokens`
    positions each; tokens are there, and see, as they do there. With the largest m
    of all parts that a token sees, M, the output is the sum over these parts of
    2^(m - M) times their sums of values, divided by that of their sums.

    ```mlir
    %y = nn.paged_attention_join %parts at %positions lengths %n
        {mask = #nn.mask<causal>, part_tokens = 256 : i64}
        : (tensor<1x1x16x12x66xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x768xbf16>
    ```
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $parts `at` $positions `lengths` $lengths attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getNumParts() { return getParts().getType().getDimSize(2); }
    int64_t getHeads() { return getParts().getType().getDimSize(3); }
    int64_t getHeadDim() { return getParts().getType().getDimSize(4) - 2; }
  }];
}

#endif // HEDDLE_DIALECTS_NN_CACHE_OPS
