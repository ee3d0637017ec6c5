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
    InterfaceMethod<"Bytes read and written when nothing is fused or cached.",
      "double", "getBytes", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::heddle::nn::bytesOfOperandsAndResults($_op);
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
        Called when operands and results have become those of one rank: factor i
        of the whole operation's `rule` was split into `splits[i]` parts. Adapts
        attributes that speak of sizes and types of results that do not follow
        from the rule.
      }],
      "void", "localize",
      (ins "const ::heddle::dist::ShardingRule &":$rule,
           "::llvm::ArrayRef<int64_t>":$splits),
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
        The name of the kernel generator that takes this operation whole
        (gemm, attention, ...); empty when `lowerToLinalg` gives its body.
      }],
      "::llvm::StringRef", "getKernelGenerator", (ins)>,
    InterfaceMethod<[{
        Builds linalg operations that compute the results from `operands`.
      }],
      "::mlir::LogicalResult", "lowerToLinalg",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>,
  ];
}

#endif // HEDDLE_DIALECTS_NN_INTERFACES
