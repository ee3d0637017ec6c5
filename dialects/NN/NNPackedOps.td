//===- NNPackedOps.td - Products with packed weights --------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_PACKED_OPS
#define HEDDLE_DIALECTS_NN_PACKED_OPS

def NN_PackedLinearOp : NN_NonDifferentiableOp<"packed_linear",
    (ins NN_Float:$input, NN_Any:$weight, Optional<NN_Float>:$scales,
         Optional<NN_Float>:$zeros, Optional<NN_Float>:$bias,
         OptionalAttr<I64Attr>:$bits, OptionalAttr<I64Attr>:$input_block),
    [AttrSizedOperandSegments]> {
  let summary = "out[..., o] = sum over i of x[..., i] w[i, o] + bias[o], w packed";
  let description = [{
    The weight is packed for products that read it once from its first byte to
    its last: in panels of 32 outputs, and in a panel word by word. A word of 32
    bits has values of one output that follow each other along i: one f32, two
    bf16, four codes of 8 bits or eight of 4 bits. The first is in the lowest
    bits; but codes of 4 bits lie so that the pairs 0 1, 2 3, 4 5, 6 7 are at the
    same place of both halves of the word: 0 2 4 6 below, 1 3 5 7 above. Floats
    are [panels, words, 32, values of a word]; codes are i32 [panels, words, 32],
    and `bits` says how wide they are. What lies beyond the inputs and outputs is
    zero.

    A code q is signed. `scales` are [panels, groups, 32]: an output's inputs
    are cut into groups of equal length, and w = scale (q - zero). `zeros` are
    whole numbers in the scales' shape; without them zero is 0. The sum over a
    group of x q is made first, then it is scaled: the result does not depend on
    how a kernel makes w.

    With `input_block` x is rounded to codes of 8 bits first: in each group of the
    weight that many elements of a row, the last ones perhaps fewer, share a scale.
    With a their largest magnitude, x = a / 127 round(x 127 / a), ties to even; a
    below 2^-100 counts as that. So a row's codes depend on this row alone.

    ```mlir
    %y = nn.packed_linear %x, %w scales %s bits 4
        : (tensor<1x1x768xf32>, tensor<24x96x32xi32>, tensor<24x12x32xf16>)
        -> tensor<1x1x768xf32>
    ```
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $input `,` $weight (`scales` $scales^)? (`zeros` $zeros^)? (`bias` $bias^)?
    (`bits` $bits^)? (`input_block` $input_block^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = !strconcat([{
    /// Outputs of a panel.
    static constexpr int64_t panelWidth = 32;
    /// Values of the weight in a word of 32 bits.
    int64_t getPerWord();
    int64_t getInputs();
    int64_t getOutputs();
    /// How many groups the inputs are cut into; 0: the weight is of floats.
    int64_t getGroups();
  }], NN_ModelFlops.declaration);
}

#endif // HEDDLE_DIALECTS_NN_PACKED_OPS
