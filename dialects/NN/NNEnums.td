//===- NNEnums.td - Enumerations of the nn dialect ---------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The enumerations of the nn dialect. They have a file of their own, because
// NNDialect.td includes files of other dialects. A header generated from
// NNDialect.td would also define the enumerations of those dialects.

#ifndef HEDDLE_DIALECTS_NN_ENUMS
#define HEDDLE_DIALECTS_NN_ENUMS

include "mlir/IR/EnumAttr.td"

class NN_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::heddle::nn";
  let genSpecializedAttr = 0;
}

def NN_ProgramKind : NN_Enum<"ProgramKind", "the kind of a step program", [
    I32EnumAttrCase<"Train", 0, "train">,
    I32EnumAttrCase<"Eval", 1, "eval">,
    I32EnumAttrCase<"Generate", 2, "generate">,
    // Programs of serving. `prefill` computes a part of a prompt and the logits
    // of one token, `score` computes the logits of all tokens, and `decode`
    // computes the next token of each of several requests.
    I32EnumAttrCase<"Prefill", 3, "prefill">,
    I32EnumAttrCase<"Score", 4, "score">,
    I32EnumAttrCase<"Decode", 5, "decode">,
    // Computes the hidden states of all tokens of several requests.
    I32EnumAttrCase<"Encode", 6, "encode">]>;

// The names of the cases are the values of the flag `--recompute`.
def NN_Recompute : NN_Enum<"Recompute", "which activations are recomputed", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Selective", 1, "selective">,
    I32EnumAttrCase<"Full", 2, "full">]>;

// The names of the cases are the values of the flag `--objective`.
def NN_Objective : NN_Enum<"Objective", "the training objective", [
    I32EnumAttrCase<"NextToken", 0, "causal">,
    I32EnumAttrCase<"MaskedToken", 1, "mlm">]>;

def NN_RotaryRamp : NN_Enum<"RotaryRamp", "which frequencies of nn.rotary are scaled", [
    I32EnumAttrCase<"All", 0, "all">,
    I32EnumAttrCase<"Pairs", 1, "pairs">,
    I32EnumAttrCase<"Rates", 2, "rates">]>;

def NN_MaskKind : NN_Enum<"MaskKind", "which keys a query of attention sees", [
    I32EnumAttrCase<"Full", 0, "full">,
    I32EnumAttrCase<"Causal", 1, "causal">]>;

// The names of the cases are those that the flag `--place` uses.
def NN_MemoryKind : NN_Enum<"MemoryKind", "a kind of memory", [
    I32EnumAttrCase<"Device", 0, "device">,
    I32EnumAttrCase<"Host", 1, "host">,
    I32EnumAttrCase<"Pinned", 2, "pinned">,
    I32EnumAttrCase<"File", 3, "file">]>;

def NN_StateRole : NN_Enum<"StateRole", "the role of a state in its model", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Derived", 1, "derived">,
    I32EnumAttrCase<"Gradient", 2, "gradient">,
    I32EnumAttrCase<"Optimizer", 3, "optimizer">,
    I32EnumAttrCase<"Accumulator", 4, "accumulator">,
    I32EnumAttrCase<"Scalar", 5, "scalar">,
    I32EnumAttrCase<"Saved", 6, "saved">,
    I32EnumAttrCase<"Cache", 7, "cache">,
    I32EnumAttrCase<"Constant", 8, "constant">]>;

def NN_Holding : NN_Enum<"Holding", "which part of a state each replica of the parameters holds", [
    // What the replica holds of the parameter: ZeRO may split the state.
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    // All elements, equal on all replicas.
    I32EnumAttrCase<"Whole", 1, "whole">,
    // Summands of the replica's own, which are added up before an update.
    I32EnumAttrCase<"Replica", 2, "replica">,
    // All elements, which differ between replicas.
    I32EnumAttrCase<"Local", 3, "local">]>;

// The names of the cases are those that the plan format uses.
def NN_PackedPart : NN_Enum<"PackedPart", "which tensor of a quantized or packed weight a state is", [
    I32EnumAttrCase<"Words", 0, "words">,
    I32EnumAttrCase<"Scales", 1, "scales">,
    I32EnumAttrCase<"Zeros", 2, "zeros">]>;

// The names of the cases are those that the plan format uses.
def NN_PackedLayout : NN_Enum<"PackedLayout", "the order of the words of a packed weight", [
    I32EnumAttrCase<"Panels", 0, "panels">,
    I32EnumAttrCase<"Fragments", 1, "fragments">]>;

def NN_InitKind : NN_Enum<"InitKind", "how a state is initialized", [
    I32EnumAttrCase<"Zeros", 0, "zeros">,
    I32EnumAttrCase<"Constant", 1, "constant">,
    I32EnumAttrCase<"Normal", 2, "normal">,
    I32EnumAttrCase<"Power", 3, "power">]>;

// The names of the cases are keys in the files of `--inputs` and `--dump`.
def NN_PortRole : NN_Enum<"PortRole", "the meaning of a port", [
    // Inputs with a value for each token of the batch: [rows, tokens].
    I32EnumAttrCase<"Ids", 0, "ids">,
    I32EnumAttrCase<"Labels", 1, "labels">,
    I32EnumAttrCase<"LabelWeights", 2, "label_weights">,
    I32EnumAttrCase<"Positions", 3, "positions">,
    I32EnumAttrCase<"Segments", 4, "segments">,
    // An input with a value for each row of the batch: [rows].
    I32EnumAttrCase<"Lengths", 5, "lengths">,
    // Inputs that the runtime computes.
    I32EnumAttrCase<"Position", 6, "position">,
    I32EnumAttrCase<"Rng", 7, "rng">,
    I32EnumAttrCase<"MicroBatch", 8, "micro_batch">,
    I32EnumAttrCase<"LearningRate", 9, "lr">,
    // Outputs of a program.
    I32EnumAttrCase<"Losses", 10, "losses">,
    I32EnumAttrCase<"Loss", 11, "loss">,
    I32EnumAttrCase<"LossWeight", 12, "loss_weight">,
    I32EnumAttrCase<"GradNorm", 13, "grad_norm">,
    I32EnumAttrCase<"Logits", 14, "logits">,
    // Any other value.
    I32EnumAttrCase<"Value", 15, "value">,
    // An input with the page table of each row: the pages of its cache.
    I32EnumAttrCase<"Pages", 16, "pages">,
    // An output: the hidden states that the output head reads.
    I32EnumAttrCase<"Hidden", 17, "hidden">,
    // An input that the runtime computes: for each layer that may be dropped,
    // the factor of its branches.
    I32EnumAttrCase<"LayerScales", 18, "layer_scales">,
    // An output: the learning rate of this step, one of the input's rates.
    I32EnumAttrCase<"TakenRate", 19, "taken_lr">]>;

// `Rows` compiles element-wise operations and reductions over the last
// dimension, `Gemm` matrix products. The others are named by what they compute.
def NN_Generator : NN_Enum<"Generator", "the code generator of a kernel", [
    I32EnumAttrCase<"Rows", 0, "rows">,
    I32EnumAttrCase<"Columns", 1, "columns">,
    I32EnumAttrCase<"Reduce", 2, "reduce">,
    I32EnumAttrCase<"Scatter", 3, "scatter">,
    I32EnumAttrCase<"BlockSums", 4, "block_sums">,
    I32EnumAttrCase<"Gemm", 5, "gemm">,
    I32EnumAttrCase<"Attention", 6, "attention">,
    I32EnumAttrCase<"Segments", 7, "segments">,
    I32EnumAttrCase<"Cache", 8, "cache">,
    I32EnumAttrCase<"Signs", 9, "signs">]>;

#endif // HEDDLE_DIALECTS_NN_ENUMS
