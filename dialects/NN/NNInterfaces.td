//===- NNInterfaces.td - The contract of every nn operation ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_INTERFACES
#define HEDDLE_DIALECTS_NN_INTERFACES

include "mlir/IR/OpBase.td"

//===----------------------------------------------------------------------===//
// What an operation is
//===----------------------------------------------------------------------===//

class NN_Trait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::heddle::nn";
}

/// It can share a kernel with others that go over the rows of one shape: a row
/// of its domain (NN_PropertiesOp) is computed from the same row of operands
/// that have rows, and from others as a whole.
def NN_Rowwise : NN_Trait<"Rowwise">;

/// An element of a result is computed from the elements at the same place of
/// the operands of the result's shape, and from the others (scalars, random
/// numbers) as a whole.
def NN_Elementwise : TraitList<[NN_Trait<"Elementwise">, NN_Rowwise]>;

/// A token's part of the result depends on other tokens of its sequence.
def NN_MixesPositions : NN_Trait<"MixesPositions">;

/// It is there without being computed, so that it is made anew wherever it is
/// needed: neither kept nor sent.
def NN_Rematerializable : NN_Trait<"Rematerializable">;

/// It stands in a forward pass, though it has no derivative: it ends one that
/// is not differentiated there, or is for inference alone.
def NN_InForward : NN_Trait<"InForward">;

/// It computes what parameters or states of the optimizer hold next: nothing
/// else may write these.
def NN_Updates : NN_Trait<"Updates">;

def NN_PropertiesOp : OpInterface<"PropertiesOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    What an operation is, where a trait cannot say it: which results keep their
    type, what sums are added to, what may share memory, what its rows are.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether the result is f32 in every compute precision: losses,
        statistics, states of the optimizer.
      }],
      "bool", "staysF32", (ins "unsigned":$result),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the results are linear in an operand while the others stay what
        they are: where that is a partial sum, so are they.
      }],
      "bool", "isLinearIn", (ins "::mlir::OpOperand &":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        The sums that the operation makes: what each is added to, an operand
        that need not be there, and the result.
      }],
      "::llvm::SmallVector<::heddle::nn::Init>", "getSums", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Which result may take the place of which operand. By default sums take
        that of what they are added to.
      }],
      "::llvm::SmallVector<::heddle::nn::Tie>", "getTies", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::heddle::nn::tiesOfInits($_op);
      }]>,
    InterfaceMethod<"The shape whose rows a row-wise operation goes over.",
      "::llvm::ArrayRef<int64_t>", "getDomain", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::llvm::cast<::mlir::RankedTensorType>(
            $_op->getResult(0).getType()).getShape();
      }]>,
    InterfaceMethod<[{
        The columns of a head, where heads stand side by side in the columns of
        a row, and the operation works on each head of each row by itself; else
        0.
      }],
      "int64_t", "getHeadColumns", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return 0;">,
  ];
}

def NN_AttentionLike : OpInterface<"AttentionOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{ What nn.attention and its gradient have in common. }];
  let methods = [
    InterfaceMethod<"q, k and v: three, or one with them side by side.",
      "::mlir::OperandRange", "getQkv", (ins)>,
    InterfaceMethod<"Of each row, or null.", "::mlir::Value", "getLengths", (ins)>,
    InterfaceMethod<"Seed and step, or null.", "::mlir::Value", "getRng", (ins)>,
    InterfaceMethod<"Null without `rng`.", "::mlir::Value", "getLayer", (ins)>,
    InterfaceMethod<"Null without `rng`.", "::mlir::Value", "getMicroBatch", (ins)>,
    InterfaceMethod<"Which part of the heads, or null.", "::mlir::Value", "getPart", (ins)>,
    InterfaceMethod<"Which part of the queries, or null.", "::mlir::Value", "getSequenceShard", (ins)>,
    InterfaceMethod<"Null without `sequence_shard`.", "::mlir::Value", "getRingStep", (ins)>,
    InterfaceMethod<"Heads, scale and soft cap.", "::heddle::nn::HeadsAttr", "getHeads", (ins)>,
    InterfaceMethod<"What queries see.", "::heddle::nn::MaskAttr", "getMask", (ins)>,
    InterfaceMethod<"Null without dropout.", "::heddle::nn::DropoutAttr", "getDropoutAttr", (ins)>,
    InterfaceMethod<"Null where the operation is whole.",
      "::heddle::nn::PlacementAttr", "getPlacementAttr", (ins)>,
    InterfaceMethod<"", "void", "setPlacementAttr", (ins "::heddle::nn::PlacementAttr":$placement)>,
  ];
  let extraSharedClassDeclaration = [{
    /// Whether one tensor has q, k and v.
    bool isPacked() { return $_op.getQkv().size() == 1; }
    /// The features of one head.
    int64_t getHeadDim() {
      auto first = ::llvm::cast<::mlir::RankedTensorType>(
          $_op.getQkv()[0].getType());
      int64_t count = $_op.getHeads().getCount();
      return first.getDimSize(2) /
             ($_op.isPacked() ? count + 2 * $_op.getHeads().getKv() : count);
    }
    /// The features of q, k and v.
    ::llvm::SmallVector<int64_t> getWidths() {
      int64_t kv = $_op.getHeads().getKv() * $_op.getHeadDim();
      return {$_op.getHeads().getCount() * $_op.getHeadDim(), kv, kv};
    }
    /// Parts of the heads, and of the sequence.
    int64_t getParts() {
      return $_op.getPlacementAttr() ? $_op.getPlacementAttr().getParts() : 1;
    }
    int64_t getSequenceShards() {
      return $_op.getPlacementAttr() ? $_op.getPlacementAttr().getSequenceShards() : 1;
    }
  }];
}

//===----------------------------------------------------------------------===//
// What it does
//===----------------------------------------------------------------------===//

def NN_DifferentiableOp : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    Reverse-mode derivative, as nn operations. An operation without one says
    why.
  }];
  let methods = [
    InterfaceMethod<"Why there is no derivative; empty when there is one.",
      "::llvm::StringRef", "getNotDifferentiableReason", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Builds the gradients of the active operands from the gradients of the
        results and hands them to the context.
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
  let description = [{ Arithmetic and traffic of one execution. }];
  let methods = [
    InterfaceMethod<"Floating-point operations; a multiply-add counts two.",
      "double", "getFlops", (ins)>,
    InterfaceMethod<[{
        Those of them that count as the model's, by which the use of a machine
        is measured (Chowdhery et al., arXiv 2204.02311, appendix B): those of
        matrix products and attention. What has any is dear to compute again.
      }],
      "double", "getModelFlops", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Bytes of an operand that are read, or of a result that are written: all,
        where the operation does not look up some rows.
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
    Which dimensions of operands and results are one factor, and which factors
    are summed over.
  }];
  let methods = [
    InterfaceMethod<"The rule for this instance.",
      "::heddle::dist::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{
        Called when operands and results have become those of one rank, of the
        whole operation that was split so. Adapts attributes that speak of sizes
        and types of results that do not follow from the rule, and says which
        part of the whole this is where that matters: random numbers, positions,
        rows of a vocabulary. It may replace the operation.
      }],
      "void", "localize", (ins "const ::heddle::dist::Split &":$split),
      /*methodBody=*/"", /*defaultImplementation=*/"return;">,
  ];
}

def NN_ReferenceEvalOp : OpInterface<"ReferenceEvalOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    Executes the operation on host tensors in double precision. Attached by
    lib/Eval as external models.
  }];
  let methods = [
    InterfaceMethod<[{
        Computes the results from the operands, in order. Integer scalars
        (index operands) come as rank-0 tensors.
      }],
      "::mlir::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::heddle::eval::Tensor>":$operands,
           "::llvm::SmallVectorImpl<::heddle::eval::Tensor> &":$results)>,
  ];
}

def NN_LinalgLoweringOp : OpInterface<"LinalgLoweringOpInterface"> {
  let cppNamespace = "::heddle::nn";
  let description = [{
    The body of the operation as linalg on tensors, shared by the CPU and GPU
    code generators. Operations that have a generator of their own say so.
    Attached by lib/Codegen/Common as external models.
  }];
  let methods = [
    InterfaceMethod<[{
        What makes the code of a kernel that begins with this operation. Some
        generators take it whole; for the others `lowerToLinalg` gives its body.
      }],
      "::heddle::nn::Generator", "getGenerator", (ins)>,
    InterfaceMethod<[{
        Builds linalg operations that compute the results from `operands`.
      }],
      "::mlir::LogicalResult", "lowerToLinalg",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif // HEDDLE_DIALECTS_NN_INTERFACES
