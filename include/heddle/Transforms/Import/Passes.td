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
  let summary = "Erases what computes a value that nothing uses.";
  let description = [{
    Runs on a module that is handed in, before anything else: an edit often
    leaves a branch that leads nowhere, and no later phase counts on one. What
    has an effect stays: writes of states, `nn.keep`, messages between ranks.
    From the phase train on, functions that no step calls are erased too.

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
    The forward function has ports and is no program: it is written for one row
    of some number of tokens, and gives their logits. Training, evaluation and
    generation are made from it and the layers it calls, with the rows and
    tokens of the strategy. Evaluation and generation have no dropout;
    generation computes the logits of one token. With a `max_context` texts go
    through a cache: `prefill.N` and `decode.N` take the place of generation. With
    `mode = serve` the programs are `prefill.N`, which computes N tokens of one text and the logits of one of
    them, `score.N`, which gives the logits of all, and `decode.N`, which
    computes a token of each of N texts. With `mode = encode` they are
    `encode.RxT`, which gives what `nn.keep` names "hidden" of R texts of up to
    T tokens, and `encode.1xT.logits`, which gives the logits beside it.
    `nn.keep` in a forward function or a layer offers a value: it stays where
    `--keep` asks for it.

    With a draft, which guesses tokens, `decode.N` has a row for the last token
    of each text and one for each guess behind it.

    ```mlir
    nn.func @forward(%ids: tensor<1x8xi32>) -> tensor<1x8x97xf32>
        attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]}
    // becomes, with 4 rows of 64 tokens
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
           "Tokens that decode computes for a text behind the last one">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ImportAddCache : Pass<"import-add-cache", "::heddle::nn::ModelOp"> {
  let summary = "Gives attention of programs that serve a cache.";
  let description = [{
    A program that serves sees a part of a text. Its attention becomes
    nn.cache_write, which puts the keys and values of the part into a cache, and
    nn.paged_attention, which reads those of all tokens before it there. The
    cache is made of states, two for each attention, which all programs share. The
    program that has none yet gets three more inputs: the position of each token, how many tokens of
    each row are there, and the pages of each row. Positions take the place of
    nn.positions.

    ```mlir
    %y = nn.attention %q, %k, %v {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : ...
    // becomes
    %k1, %v1 = nn.cache_write %keys, %values of %q, %k, %v pages %pages at %positions lengths %lengths ...
    %y = nn.paged_attention %k1, %v1 of %q, %k, %v pages %pages at %positions lengths %lengths ...
    ```
  }];
  let options = [
    Option<"pages", "pages", "int64_t", "0",
           "Pages of the cache, as those of the model that a draft guesses for; "
           "0: as the strategy says">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ImportVerify : Pass<"import-verify", "::heddle::nn::ModelOp"> {
  let summary = "Checks what the import phase promises.";
  let description = [{
    A module that was written by hand is held to the same: every parameter is
    f32, says where it comes from and how it begins, and is read by some
    function; only forward operations are there, in f32; every function that is
    marked as a program names its arguments and results, has the shapes that the
    strategy asks for, and is the only one of its kind.

    ```mlir
    nn.func @forward(%ids: tensor<4x64xi32>, %labels: tensor<4x64xi32>)
        -> tensor<4x64xf32>
        attributes {program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>],
                    outputs = [#nn.port<losses>]}
    ```
  }];
}

#endif // HEDDLE_TRANSFORMS_IMPORT_PASSES
