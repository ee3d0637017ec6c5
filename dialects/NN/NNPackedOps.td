//===- NNPackedOps.td - Products with packed weights --------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with packed weights: int4 and int8 quantized weights, and weights of
// floats in the same layout. This file uses the classes of NNOps.td, which
// includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PACKED_OPS
#define HEDDLE_DIALECTS_NN_PACKED_OPS

def NN_PackedLinearOp : NN_NonDifferentiableOp<"packed_linear",
    (ins NN_Float:$input, NN_Any:$weight, Optional<NN_Float>:$scales,
         Optional<NN_Float>:$zeros, Optional<NN_Float>:$bias,
         OptionalAttr<I64Attr>:$bits, OptionalAttr<I64Attr>:$input_block,
         DefaultValuedAttr<NN_PackedLayoutAttr,
                           "::heddle::nn::PackedLayout::Panels">:$layout),
    [AttrSizedOperandSegments]> {
  let summary = "out[..., o] = sum over i of x[..., i] w[i, o] + bias[o], w quantized or packed";
  let description = [{
    x is [..., in], out is [..., out]. The weight is a matrix [in, out] in a
    packed layout: an int4 or int8 quantized weight with scales, or a weight of
    floats.

    ```mlir
    %y = nn.packed_linear %x, %w scales %s bits 4
        : (tensor<1x1x768xf32>, tensor<24x96x32xi32>, tensor<24x12x32xf16>)
        -> tensor<1x1x768xf32>
    ```

    **Words.** A word of 32 bits holds consecutive values along i of one output:
    one f32, two bf16 or f16, four int8 codes or eight int4 codes. The first value
    is in the lowest bits. The exception is int4: codes 0, 2, 4, 6 are in the lower
    half of the word and 1, 3, 5, 7 in the upper half, so that the codes of the
    pairs 0 1, 2 3, 4 5, 6 7 have the same position in their halves.

    **Layout.** A kernel reads the weight once, from its first byte to its last.
    The weight is cut into panels of adjacent outputs. A panel is a list of blocks,
    and a block has a few adjacent words of each output of the panel. `layout` is
    the order of the words in a block; the target chooses it.

    | `layout` | outputs of a panel | words of an output in a block | order |
    |---|---|---|---|
    | `panels`, the default | 32 | 1 | by output |
    | `fragments` | 16 | 8 | as mma.sync reads its left operand |

    With `fragments`, each of the 32 lanes of a warp has four adjacent words. Word w
    of output o belongs to lane 4 (o mod 8) + w mod 4, and is its word
    o / 8 + 2 (w / 4). A quantization group begins at a multiple of four words.

    Floats have the type [panels, blocks, words of a block, values of a word];
    codes are i32 [panels, blocks, words of a block], and `bits` is the width of a
    code. Padding of groups, of inputs to whole blocks and of outputs to whole
    panels is zero.

    **Quantization.** A code q is a signed integer. The inputs are cut into
    groups of equal length; `scales` and `zeros` are [panels, groups, outputs
    of a panel], and w = scale * (q - zero). Zeros are integral; without `zeros` they are 0. The
    sum of x * q over a group is computed first and then scaled, so that the
    result does not depend on how a kernel unpacks codes.

    **int8 activations.** With `input_block`, x is rounded to int8 first. Within
    each group of the weight, blocks of `input_block` elements of a row share a
    scale; the last block of a group may be shorter. With a the largest
    magnitude in a block, at least 2^-100, x becomes
    a / 127 * round(x * 127 / a), with ties to even. So the codes of a row
    depend on this row only.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `,` $weight (`scales` $scales^)? (`zeros` $zeros^)? (`bias` $bias^)?
    (`bits` $bits^)? (`input_block` $input_block^)?
    (`layout` $layout^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// The weight's sizes and layout. It has no name, and its type is
    /// [inputs, outputs].
    ::heddle::plan::PackedWeight getPacked();
    /// How many elements of the weight are in a packed word of 32 bits.
    int64_t getPerWord();
    int64_t getInputs();
    int64_t getOutputs();
    /// The number of groups into which the input features are divided; each
    /// group has its own scale. 0 means that the weight has floats and no
    /// scales.
    int64_t getGroups();
  }], NN_ModelFlops.declaration);
}

#endif // HEDDLE_DIALECTS_NN_PACKED_OPS
