//===- NNCacheOps.td - The paged key-value cache -----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The paged key-value cache of serving programs and attention over it
// (PagedAttention: Kwon et al., arXiv 2309.06180). This file uses the classes
// of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_CACHE_OPS
#define HEDDLE_DIALECTS_NN_CACHE_OPS

/// The element types of a cache: floats, or int8 codes with scales.
def NN_Cached : StaticShapeTensorOf<[F32, BF16, F16, I8]>;

/// An operation on the cache, with these operands:
///  - `keys` [P, kv, D, N] and `values` [P, kv, N, D]: P pages that hold N
///    positions each, for kv heads of keys and values with D features.
///  - `scales` [P, kv, 2, N], if the cache holds int8 codes: the features of a
///    key are its codes times scales[.., 0, :], those of a value its codes
///    times scales[.., 1, :].
///  - `qkv`: q, k and v of the tokens [R, T] of one launch, as for nn.attention.
///  - `pages` [R, M], the page table: position p of row r is in page
///    pages[r, p / N], at p mod N.
///  - `positions` [R, T]: the position of each token.
///  - `lengths` [R]: token t of row r exists if t < lengths[r]. The position and
///    the page of a token that does not exist are not used.
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
    /// Whether one tensor holds q, k and v.
    bool isPacked() { return getQkv().size() == 1; }
    int64_t getHeadDim() { return getValues().getType().getDimSize(3); }
    /// The number of positions in a page.
    int64_t getPageTokens() { return getValues().getType().getDimSize(2); }
    /// The number of features of q, of k and of v, over all heads.
    ::llvm::SmallVector<int64_t> getWidths() {
      int64_t kv = getHeads().getKv() * getHeadDim();
      return {getHeads().getCount() * getHeadDim(), kv, kv};
    }
  }];
}

def NN_CacheWriteOp : NN_CacheOp<"cache_write"> {
  let summary = "Writes the keys and values of tokens into the cache.";
  let description = [{
    `keys` are [P, kv, D, N], `values` [P, kv, N, D], for P pages of N positions;
    `qkv` is as for nn.attention, with R rows of T tokens; `pages` is [R, M],
    `positions` [R, T], `lengths` [R].

    ```mlir
    %k1, %v1 = nn.cache_write %k, %v of %qkv pages %table at %positions lengths %n
        {heads = #nn.heads<2, scale = 0.5>}
        : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>,
           tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    ```

    The results are the cache in which each existing token has its key and value
    at its position; the rest is unchanged. The key and value of token t of row
    r are at index positions[r, t] mod N of page
    pages[r, positions[r, t] / N]. No two tokens may have the same page and
    index. k and v are rounded to the cache's type.

    If the cache holds int8 codes, there are `scales` [P, kv, 2, N]. The scale of
    a token's key or value in a head is its largest magnitude divided by 127,
    rounded to the type of scales. A code is a feature divided by the scale and
    rounded, with ties to even.
  }];
  let results = (outs NN_Cached:$new_keys, NN_Cached:$new_values,
                      Optional<NN_Float>:$new_scales);
  let extraClassDeclaration = !strconcat(sharedDeclaration, [{
    int64_t getHeadColumns() { return getHeadDim(); }
  }], NN_Localize.declaration, NN_Ties.declaration, NN_BytesOf.declaration);
}

def NN_PagedAttentionOp
    : NN_CacheOp<"paged_attention", (ins Optional<NN_Ids>:$layout, Optional<Index>:$part,
                                         NN_MaskAttr:$mask, UnitAttr:$in_parts)> {
  let summary = "softmax(scale q k^T) v, by heads, over keys and values of a cache.";
  let description = [{
    The operands are those of nn.cache_write; only q of `qkv` is read. The output
    is [R, T, heads * D].

    ```mlir
    %y = nn.paged_attention %k, %v of %qkv pages %table at %positions lengths %n
        {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>}
        : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>,
           tensor<1x5xi32>, tensor<1xi32>) -> tensor<1x5x8xf32>
    ```

    The mask is causal: a token at position p sees the keys of its row at
    positions 0 to p, or with a window the last `window` of these. They must have
    been written. Entries of the page table whose keys no token sees are not
    used. The output of a token that does not exist is zero.

    `layout` [heads or 1, positions / block, words] is as for nn.attention, with
    a mask that has a block. A token sees the keys of its block's row. `part` is
    the part of the heads that this rank has, if ranks split the heads.

    Keys are summed in parts of `partKeys` positions, each with its own maximum
    and sums, and the parts are combined in order. So a token's result does not
    depend on other tokens, on the pages that a row has, or on the thread that
    computes a part, bit for bit.

    With `in_parts` the output is the partial results, f32
    [R, T, parts, heads, D + 2], which nn.paged_attention_join combines. Let s be
    the scores times log2(e) and m the largest s of a part. The D + 2 values are
    the sum of 2^(s - m) v, the sum of 2^(s - m), and m. The values of parts
    before the first key of a window, or after the token, are undefined. If a
    layout hides all keys of another part, its sums are zero and m is the lowest
    f32. A token that sees no key at all has the output zero.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $keys `,` $values (`scales` $scales^)? `of` $qkv `pages` $pages `at` $positions `lengths` $lengths
    (`layout` $layout^)? (`part` $part^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = !strconcat(sharedDeclaration, [{
    /// The keys of a request are divided into parts of this many positions.
    /// Threads compute attention over each part separately, and then combine
    /// the partial results. The number is large enough that combining costs
    /// little, and small enough that the parts of one request keep all threads
    /// busy.
    static constexpr int64_t partKeys = 256;
    /// The number of pages in a part, at least one. A part is a range of a
    /// request's keys over which attention is computed separately.
    int64_t getPartPages() {
      return std::max<int64_t>(partKeys / getPageTokens(), 1);
    }
    /// The number of parts into which the keys of one request are divided.
    /// Attention is computed separately over each part.
    int64_t getNumParts();
    /// The type of the partial results of attention over each part of the keys:
    /// [rows, tokens of a row, parts, heads, head size + 2]. Besides the sum of
    /// values, which has the head size, a partial result has the sum of
    /// exponentials and the largest score.
    ::mlir::RankedTensorType getPartsType();
  }], NN_Localize.declaration, NN_ModelFlops.declaration, NN_BytesOf.declaration);
}

def NN_PagedAttentionJoinOp : NN_NonDifferentiableOp<"paged_attention_join",
    (ins NN_F32:$parts, NN_Ids:$positions, NN_Ids:$lengths, NN_MaskAttr:$mask,
         I64Attr:$part_tokens)> {
  let summary = "Combines the partial results of nn.paged_attention.";
  let description = [{
    `parts` [R, T, parts, heads, D + 2] is the result of nn.paged_attention with
    `in_parts`; `positions` [R, T], `lengths` [R] and `mask` are its operands.
    The output is [R, T, heads * D].

    ```mlir
    %y = nn.paged_attention_join %parts at %positions lengths %n
        {mask = #nn.mask<causal>, part_tokens = 256 : i64}
        : (tensor<1x1x16x12x66xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x768xbf16>
    ```

    A part has `part_tokens` positions. Let M be the largest m of all parts from
    the first one in a token's window to that of the token. The output is the
    sum over these parts of 2^(m - M) times their sum of values, divided by the
    sum over them of 2^(m - M) times their sum of 2^(s - m), as in
    Flash-Decoding. It is zero if the latter sum is zero.
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
