//===- Passes.td - Passes of lib/Transforms/Import ---------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_IMPORT_PASSES
#define HEDDLE_TRANSFORMS_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def ImportEraseDead : Pass<"import-erase-dead", "::mlir::ModuleOp"> {
  let summary = "Erases operations whose results nothing uses.";
  let description = [{
    Runs first on a module that the user passes in: edits often leave unused
    operations, which later phases do not expect. Operations with side effects stay:
    writes of states, `nn.keep`, messages between ranks. From the phase train on,
    functions that no step calls are erased, too.

    ```mlir
    %0 = nn.map gelu_tanh(%x) : tensor<2x64x1024xf32>
    %1 = nn.map relu(%x) : tensor<2x64x1024xf32>
    nn.return %1 : tensor<2x64x1024xf32>
    // becomes
    %1 = nn.map relu(%x) : tensor<2x64x1024xf32>
    nn.return %1 : tensor<2x64x1024xf32>
    ```
  }];
  let statistics = [
    Statistic<"numErased", "erased", "Operations that were erased">
  ];
}

def ImportDerivePrograms : Pass<"import-derive-programs", "::heddle::nn::ModelOp"> {
  let summary = "Makes the programs of a model from its forward function.";
  let description = [{
    The forward function has ports but is no program: it computes the logits of one
    row of tokens. The pass makes the strategy's programs from it and the layers
    that it calls, with the strategy's rows and tokens:

    - `mode = train`: `forward` for training, `evaluate`, and `generate`, which
      returns the logits of one token. Only training has dropout. With a
      `max_context`, `prefill.N` and `decode.N` with a key-value cache replace
      `generate`.
    - `mode = serve`: `prefill.N` computes N tokens of one sequence and the logits
      of one of them. `score.N` returns the logits of all N. `decode.N` computes
      the next token of each of N sequences. With a draft model, `decode.N` also has
      a row for each drafted token.
    - `mode = encode`: `encode.RxT` returns the hidden states (what `nn.keep` names
      "hidden") of R sequences of up to T tokens. `encode.1xT.logits` also returns
      the logits.

    An `nn.keep` in a forward function or a layer offers a value to dump. It stays
    only if `--keep` names the value.

    ```mlir
    nn.func @forward(%ids: tensor<1x8xi32>) -> tensor<1x8x97xf32>
        attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]}
    // With 4 rows of 64 tokens, the pass replaces this function by programs:
    nn.func @forward(%ids: tensor<4x64xi32>, %labels: tensor<4x64xi32>)
        -> tensor<4x64xf32>
        attributes {program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>],
                    outputs = [#nn.port<losses>]}
    nn.func @evaluate(...) attributes {program = #nn.program<eval>, ...}
    nn.func @generate(...) attributes {program = #nn.program<generate>, ...}
    ```
  }];
  let options = [
    Option<"guesses", "guesses", "int64_t", "0",
           "Drafted tokens that decode verifies for each sequence">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ImportAddCache : Pass<"import-add-cache", "::heddle::nn::ModelOp"> {
  let summary = "Gives a key-value cache to the attention of programs that serve.";
  let description = [{
    A program that serves computes a part of a sequence at a time. Its attention
    becomes nn.cache_write, which writes the keys and values of that part to the
    cache, and nn.paged_attention, which reads those of all tokens so far. The cache
    consists of states, two for each attention operation (three with int8), which
    all programs share. A program gets three more inputs: the position of each
    token, the number of tokens in each row, and the pages of each row. Positions
    replace nn.positions.

    ```mlir
    %y = nn.attention %q, %k, %v {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : ...
    // becomes
    %k1, %v1 = nn.cache_write %keys, %values of %q, %k, %v pages %pages at %positions lengths %lengths ...
    %y = nn.paged_attention %k1, %v1 of %q, %k, %v pages %pages at %positions lengths %lengths ...
    ```
  }];
  let options = [
    Option<"pages", "pages", "int64_t", "0",
           "Pages of the cache; a draft model has as many as its target. "
           "0: as the strategy says">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ImportVerify : Pass<"import-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the import phase promises.";
  let description = [{
    Modules that were written by hand are checked, too. Every parameter is f32, has
    a source and an initial value, and is read by some function. There are only
    forward operations, in f32. Every function that is marked as a program has a
    port for each argument and result, has the shapes that the strategy asks for,
    and is the only one of its kind.

    ```mlir
    nn.func @forward(%ids: tensor<4x64xi32>, %labels: tensor<4x64xi32>)
        -> tensor<4x64xf32>
        attributes {program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>],
                    outputs = [#nn.port<losses>]}
    ```
  }];
}

#endif // HEDDLE_TRANSFORMS_IMPORT_PASSES
