//===- NNInterfaces.td - Interfaces of nn operations -------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traits and interfaces of the nn operations. Passes query them instead of
// testing for single operations, so every computation implements all
// interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_INTERFACES
#define HEDDLE_DIALECTS_NN_INTERFACES

include "mlir/IR/OpBase.td"

//===----------------------------------------------------------------------===//
// Properties
//===----------------------------------------------------------------------===//

class NN_Trait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::heddle::nn";
}

/// A row-wise operation computes rows independently: the rows of its domain,
/// the shape that getDomain of NN_PropertiesOp returns. To compute a row, it
/// reads only that row of an operand that has the domain's rows. From other
/// operands it may read everything. Row-wise operations with the same domain
/// can share a kernel.
def NN_Rowwise : NN_Trait<"Rowwise">;

/// An element-wise operation computes the elements of its result independently.
/// To compute an element, it reads only the element with the same index of an
/// operand that has the result's shape. From other operands it may read
/// everything, for example a scalar or the state of the random numbers.
def NN_Elementwise : TraitList<[NN_Trait<"Elementwise">, NN_Rowwise]>;

/// The result for a token depends on other tokens of its sequence, as in
/// attention.
def NN_MixesPositions : NN_Trait<"MixesPositions">;

/// The result costs nothing to compute, so passes clone the operation where
/// the result is needed. They never save it for the backward pass and never
/// send it to another rank.
def NN_Rematerializable : NN_Trait<"Rematerializable">;

/// The operation may be part of a forward pass although it has no derivative.
/// Either the backward pass starts with the gradients of its operands, or the
/// operation is for inference only.
def NN_InForward : NN_Trait<"InForward">;

/// The operation computes new values of parameters or of the optimizer's
/// states. Only operations with this trait may write these states.
def NN_Updates : NN_Trait<"Updates">;

def NN_PropertiesOp : OpInterface<"PropertiesOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    Properties that depend on an operand, a result or an attribute, so that a
    trait cannot express them: which results stay f32, what a sum is added to,
    whether partial sums are read as they are, which result may be computed in
    place of which operand, and what the rows of a row-wise operation are.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether the result number `result` is f32 in every compute precision,
        as losses, statistics of norms and states of the optimizer are.
      }],
      "bool", "staysF32", (ins "unsigned":$result),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the results are linear in `operand`. If so, a partial sum as
        operand gives partial sums as results: the all-reduce can come later.
      }],
      "bool", "isLinearIn", (ins "::mlir::OpOperand &":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether each rank reads its own summand of `operand`, if that is a
        partial sum.
      }],
      "bool", "readsSummand", (ins "::mlir::OpOperand &":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        The sums that the operation computes: for each the optional operand
        that it is added to, and the result.
      }],
      "::llvm::SmallVector<::heddle::nn::Init>", "getSums", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Which result may be computed in place of which operand. By default a
        sum may be computed in place of the operand that it is added to.
      }],
      "::llvm::SmallVector<::heddle::nn::Tie>", "getTies", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::heddle::nn::tiesOfInits($_op);
      }]>,
    InterfaceMethod<"The shape whose rows a row-wise operation computes; by default the first result's.",
      "::llvm::ArrayRef<int64_t>", "getDomain", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::llvm::cast<::mlir::RankedTensorType>(
            $_op->getResult(0).getType()).getShape();
      }]>,
    InterfaceMethod<[{
        The number of columns of one attention head, if the operation treats
        each head in the columns of each row independently; otherwise 0.
      }],
      "int64_t", "getHeadColumns", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return 0;">,
  ];
}

def NN_AttentionLike : OpInterface<"AttentionOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{ Operands and attributes of nn.attention and its gradient. }];
  let methods = [
    InterfaceMethod<"q, k and v: three operands, or one that has them side by side.",
      "::mlir::OperandRange", "getQkv", (ins)>,
    InterfaceMethod<"The number of tokens of each row [B]; null if all rows are full.", "::mlir::Value", "getLengths", (ins)>,
    InterfaceMethod<"Which blocks of keys each block of queries sees; null if the mask has no block.", "::mlir::Value", "getLayout", (ins)>,
    InterfaceMethod<"Seed and step of dropout's random numbers; null without dropout.", "::mlir::Value", "getRng", (ins)>,
    InterfaceMethod<"The layer's number; null without `rng`.", "::mlir::Value", "getLayer", (ins)>,
    InterfaceMethod<"The micro-batch's number; null without `rng`.", "::mlir::Value", "getMicroBatch", (ins)>,
    InterfaceMethod<"Which part of the heads this rank has; null: all.", "::mlir::Value", "getPart", (ins)>,
    InterfaceMethod<"Which shard of the sequence the queries are; null: all of it.", "::mlir::Value", "getSequenceShard", (ins)>,
    InterfaceMethod<"The step of ring attention; null without `sequence_shard`.", "::mlir::Value", "getRingStep", (ins)>,
    InterfaceMethod<"Heads, scale and soft cap.", "::heddle::nn::HeadsAttr", "getHeads", (ins)>,
    InterfaceMethod<"Which keys a query sees.", "::heddle::nn::MaskAttr", "getMask", (ins)>,
    InterfaceMethod<"Dropout of the probabilities; null: none.", "::heddle::nn::DropoutAttr", "getDropoutAttr", (ins)>,
    InterfaceMethod<"How ranks split the operation; null: they do not.",
      "::heddle::nn::PlacementAttr", "getPlacementAttr", (ins)>,
    InterfaceMethod<"", "void", "setPlacementAttr", (ins "::heddle::nn::PlacementAttr":$placement)>,
  ];
  let extraSharedClassDeclaration = [{
    /// Whether one operand holds q, k and v side by side.
    bool isPacked() { return $_op.getQkv().size() == 1; }
    /// The number of features of one head.
    int64_t getHeadDim() {
      auto first = ::llvm::cast<::mlir::RankedTensorType>(
          $_op.getQkv()[0].getType());
      int64_t count = $_op.getHeads().getCount();
      return first.getDimSize(2) /
             ($_op.isPacked() ? count + 2 * $_op.getHeads().getKv() : count);
    }
    /// The number of features of q, of k and of v, over all heads.
    ::llvm::SmallVector<int64_t> getWidths() {
      int64_t kv = $_op.getHeads().getKv() * $_op.getHeadDim();
      return {$_op.getHeads().getCount() * $_op.getHeadDim(), kv, kv};
    }
    /// The number of parts into which ranks split the heads.
    int64_t getParts() {
      return $_op.getPlacementAttr() ? $_op.getPlacementAttr().getParts() : 1;
    }
    /// The number of shards into which ranks split the sequence.
    int64_t getSequenceShards() {
      return $_op.getPlacementAttr() ? $_op.getPlacementAttr().getSequenceShards() : 1;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

def NN_DifferentiableOp : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    The reverse-mode derivative of the operation, built from nn operations. An
    operation without a derivative gives the reason, which error messages quote.
  }];
  let methods = [
    InterfaceMethod<"Why there is no derivative; empty if there is one.",
      "::llvm::StringRef", "getNotDifferentiableReason", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Builds the gradients of the operands that `context` says are active,
        from the gradients of the results, and passes them to `context`.
      }],
      "void", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::heddle::nn::GradientContext &":$context),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        llvm_unreachable("asked for a derivative that does not exist");
      }]>,
  ];
}

def NN_CostOp : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{ Floating-point operations and memory traffic of one execution. }];
  let methods = [
    InterfaceMethod<"Floating-point operations; a multiply-add counts two.",
      "double", "getFlops", (ins)>,
    InterfaceMethod<[{
        The floating-point operations that count for model FLOPs utilization
        (Chowdhery et al., arXiv 2204.02311, appendix B): those of matrix
        products and attention. Selective recomputation saves the results of
        operations that have any.
      }],
      "double", "getModelFlops", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        The bytes of the operand `value` that are read, or of the result that
        are written. By default all; an operation that looks up rows reads less.
      }],
      "double", "getBytesOf", (ins "::mlir::Value":$value),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::heddle::nn::bytesOf(value);
      }]>,
  ];
}

def NN_ShardingRuleOp : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    The sharding rule of the operation, as in Shardy: which dimensions of
    operands and results belong to one factor, and which factors are reduced.
  }];
  let methods = [
    InterfaceMethod<"The sharding rule for the operation's operands and attributes.",
      "::heddle::dist::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{
        Adapts the operation after its operands and results got rank-local types
        by `split`: divides attributes that count something, sets result types
        that the rule does not give, and computes from the rank which shard this
        is, if random numbers, positions or vocabulary rows depend on that. It
        may replace the operation.
      }],
      "void", "localize", (ins "const ::heddle::dist::Split &":$split),
      /*methodBody=*/"", /*defaultImplementation=*/"return;">,
  ];
}

def NN_ReferenceEvalOp : OpInterface<"ReferenceEvalOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    Executes the operation on host tensors in double precision, for `heddle
    eval`. lib/Eval attaches the implementations as external models.
  }];
  let methods = [
    InterfaceMethod<[{
        Appends the results, in order, computed from `operands`. Operands of
        type index are tensors of rank 0.
      }],
      "::mlir::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::heddle::eval::Tensor>":$operands,
           "::llvm::SmallVectorImpl<::heddle::eval::Tensor> &":$results)>,
  ];
}

def NN_LinalgLoweringOp : OpInterface<"LinalgLoweringOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    The operation as linalg on tensors, which the code generators of CPU and
    GPU share, and the generator that compiles its kernel. lib/Codegen/Common
    attaches the implementations as external models.
  }];
  let methods = [
    InterfaceMethod<[{
        The code generator for a kernel whose first operation is this one. Some
        generators read the nn operation itself, as that of products; the
        others read what `lowerToLinalg` builds.
      }],
      "::heddle::nn::Generator", "getGenerator", (ins)>,
    InterfaceMethod<[{
        Builds linalg operations that compute the results from `operands`, and
        appends these results.
      }],
      "::mlir::LogicalResult", "lowerToLinalg",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif // HEDDLE_DIALECTS_NN_INTERFACES
