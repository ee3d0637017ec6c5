//===- NNDialect.td - What is computed ---------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_DIALECT
#define HEDDLE_DIALECTS_NN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "dialects/NN/NNEnums.td"
include "dialects/NN/NNInterfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::heddle::nn";
  let summary = "What is computed, in whole-model shapes and the field's own terms.";
  let description = [{
    Models, their states, layer functions, step programs, and the operations of
    neural networks with their gradients. Tensors are static; values are pure;
    states are read with `nn.get` and written with `nn.set`.
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
}

def NN_StateRoleAttr : EnumAttr<NN_Dialect, NN_StateRole, "role">;

def NN_MemoryAttr : EnumAttr<NN_Dialect, NN_MemoryKind, "memory"> {
  let summary = "Where bytes are.";
  let description = [{
    `device` is where kernels compute. The host sees `host` and `pinned`; of
    pinned memory the device copies without a detour. `file` is a file that
    stands in for memory. Kernels and communication use memory of the device
    alone; dist.fetch and dist.store move runs of states, plan.copy and plan.fill
    reach every kind.
  }];
}

def NN_InitAttr : AttrDef<NN_Dialect, "Init"> {
  let mnemonic = "init";
  let summary = "How a state gets its first value when no weights are loaded.";
  let description = [{
    `kind` is zeros, constant (every element is `value`), normal (mean `value`,
    standard deviation `stddev`) or power (`value` to the number of updates that
    have been made). The row `zero_row` is zero, as that of a padding token in
    a table of embeddings.

    ```mlir
    #nn.init<normal, 0.000000e+00 : f64, 2.000000e-02 : f64, zero_row = 3>
    ```
  }];
  let parameters = (ins EnumParameter<NN_InitKind>:$kind, "::mlir::FloatAttr":$value,
                        "::mlir::FloatAttr":$stddev,
                        DefaultValuedParameter<"int64_t", "-1">:$zeroRow);
  let assemblyFormat = "`<` $kind `,` $value `,` $stddev (`,` `zero_row` `=` $zeroRow^)? `>`";
  let genVerifyDecl = 1;
}

def NN_SourceAttr : AttrDef<NN_Dialect, "Source"> {
  let mnemonic = "source";
  let summary = "How a state is made of tensors of the weight files.";
  let description = [{
    An expression over tensors with their names and types in the files. Saving
    inverts it: a checkpoint has the tensors that it names.

    ```mlir
    #nn.source<"ln_f.weight" : tensor<768xbf16>>
    #nn.source<concat(1, transpose("q.weight" : tensor<64x64xf32>),
                         transpose("k.weight" : tensor<32x64xf32>))>
    ```

    | expression | value |
    |---|---|
    | `transpose(x)` | of a matrix |
    | `permute([2, 0, 1], x)` | dimension i is dimension `order[i]` of x |
    | `reshape([4, 8, 32], x)` | the elements in the same order; x is of one tensor |
    | `slice(dim, first, size, x)` | x is a tensor, or a slice of one |
    | `concat(dim, x, y, ...)` | side by side |
    | `stack(dim, x, y, ...)` | side by side along a new dimension |
  }];
  let parameters = (ins "::heddle::weights::Source::Kind":$kind,
                        "::mlir::StringAttr":$name,
                        "::mlir::RankedTensorType":$type,
                        ArrayRefParameter<"int64_t">:$numbers,
                        ArrayRefParameter<"::heddle::nn::SourceAttr">:$parts);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The attribute of an expression.
    static SourceAttr get(::mlir::MLIRContext *context,
                          const ::heddle::weights::Source &source);
    ::heddle::weights::Source toSource() const;
    /// As the runtime reads and writes it.
    ::heddle::weights::Layout getLayout() const;
  }];
}

def NN_PackedAttr : AttrDef<NN_Dialect, "Packed"> {
  let mnemonic = "packed";
  let summary = "How a derived state is made of a weight when weights are loaded.";
  let description = [{
    The state is the words, the scales or the zeros that nn.packed_linear takes,
    made of the weight `name` of type `of`: [in, out], or with `transposed`
    [out, in]. `bits` are those of a value: 32 and 16 are f32 and bf16, 8 and 4
    codes with a scale for every `group` inputs (0: for all). Codes of `even`
    groups have no zeros: the scale is the largest magnitude over the largest
    code. Else least and largest value are the ends of the codes.

    ```mlir
    nn.state @h.0.mlp.c_fc.weight.words role derived : tensor<96x96x32xi32>
      {packed = #nn.packed<words of "h.0.mlp.c_fc.weight" as tensor<768x3072xf32>,
                           bits = 4, group = 64, even = true, transposed = false>}
    ```
  }];
  let parameters = (ins EnumParameter<NN_PackedPart>:$part,
                        "::mlir::StringAttr":$name,
                        "::mlir::RankedTensorType":$of,
                        "int64_t":$bits, "int64_t":$group, "bool":$even,
                        "bool":$transposed);
  let assemblyFormat = [{
    `<` $part `of` $name `as` $of `,` struct($bits, $group, $even, $transposed) `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// As the runtime makes it.
    ::heddle::plan::PackedWeight toPlan() const;
    /// The type of the state; scales and zeros are of `scale`.
    ::mlir::RankedTensorType getStateType(::mlir::Type scale) const;
  }];
}

def NN_FunctionAttr : AttrDef<NN_Dialect, "Function"> {
  let mnemonic = "function";
  let summary = "The name of a scalar function, as #nn.function<gelu_tanh>.";
  let parameters = (ins StringRefParameter<>:$name);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def NN_RotaryScalingAttr : AttrDef<NN_Dialect, "RotaryScaling"> {
  let mnemonic = "rotary_scaling";
  let summary = "How rotary positions are stretched for longer sequences.";
  let description = [{
    The rate f of a pair becomes s f + (1 - s) f / `factor`, and what is turned
    is multiplied by `magnitude`. The share s that stays is 0 with `all`
    (linear); with `pairs` it falls from 1 at pair `low` to 0 at pair `high`
    (yarn); with `rates` it rises from 0 at the rate `low` to 1 at the rate
    `high`, in radians a token (llama3).

    ```mlir
    #nn.rotary_scaling<all, factor = 4.0 : f64, low = 0.0 : f64, high = 0.0 : f64, magnitude = 1.0 : f64>
    ```
  }];
  let parameters = (ins EnumParameter<NN_RotaryRamp>:$ramp,
                        "::mlir::FloatAttr":$factor, "::mlir::FloatAttr":$low,
                        "::mlir::FloatAttr":$high,
                        "::mlir::FloatAttr":$magnitude);
  let assemblyFormat = "`<` $ramp `,` struct($factor, $low, $high, $magnitude) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Programs and their ports
//===----------------------------------------------------------------------===//

def NN_ProgramKindAttr : EnumAttr<NN_Dialect, NN_ProgramKind, "program"> {
  let assemblyFormat = "`<` $value `>`";
}

def NN_RecomputeAttr : EnumAttr<NN_Dialect, NN_Recompute, "recompute"> {
  let summary = "What of a layer is computed again for its gradient.";
  let description = [{
    `none`: all that gradients read is saved. `selective`: results of products
    and of attention are. `full`: the layer's arguments alone are.
  }];
}

def NN_ObjectiveAttr : EnumAttr<NN_Dialect, NN_Objective, "objective"> {
  let summary = "What the labels of a batch are: the next tokens, or masked ones.";
  let description = [{
    `#nn.objective<mlm>`, under the key `objective` of a model's `weights`: some
    tokens of a batch are masked, and they are the labels at their places.
    `causal`, and without it: the label of a token is the one that follows.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def NN_PortAttr : AttrDef<NN_Dialect, "Port"> {
  let mnemonic = "port";
  let summary = "An argument or a result of a program: what it means.";
  let description = [{
    `#nn.port<ids>`, or with a name of its own `#nn.port<value, "h.3.attn">`:
    the key under which files hold it and messages name it, if that is not the
    role's.
  }];
  let parameters = (ins EnumParameter<NN_PortRole>:$role,
                        OptionalParameter<"::mlir::StringAttr">:$name);
  let assemblyFormat = "`<` $role (`,` $name^)? `>`";
  let builders = [
    AttrBuilder<(ins "::heddle::nn::PortRole":$role), [{
      return $_get($_ctxt, role, ::mlir::StringAttr());
    }]>
  ];
  let extraClassDeclaration = [{
    /// The name under which files hold it and messages name it.
    ::llvm::StringRef getKey() const;
    /// Whether it holds a part of the batch, which is split into micro-batches
    /// and over the ranks that share a batch.
    bool isOfBatch() const;
    /// Whether the last dimension of it counts tokens, and the one before rows;
    /// else what is of the batch has rows alone.
    bool isOfTokens() const;
  }];
}

def NN_PortArrayAttr : TypedArrayAttrBase<NN_PortAttr, "ports of a program">;

class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits>;

#endif // HEDDLE_DIALECTS_NN_DIALECT
