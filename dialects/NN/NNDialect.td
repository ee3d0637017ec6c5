//===- NNDialect.td - The nn dialect and its attributes ----*- tablegen -*-===//
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
  let summary = "Models and the computations of neural networks.";
  let description = [{
    A model (`nn.model`) has states (parameters, gradients, optimizer states,
    caches), functions for its layers, and step programs. The operations are
    those of neural networks and their gradients. Tensors have static shapes.
    Computations are pure; only `nn.get` reads states and only `nn.set` writes
    them. Shapes are those of the whole model until the spmd phase makes them
    rank-local.
  }];
  let dependentDialects = ["::heddle::dist::DistDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def NN_StateRoleAttr : EnumAttr<NN_Dialect, NN_StateRole, "role">;

def NN_MemoryAttr : EnumAttr<NN_Dialect, NN_MemoryKind, "memory"> {
  let summary = "A kind of memory: that of the device, or one for offloaded states.";
  let description = [{
    `device` is the memory that kernels and communication use. `host` and
    `pinned` are memory of the host; a device copies from and to pinned memory
    directly, without a staging buffer. `file` is an offload file. dist.fetch
    and dist.store transfer ranges of offloaded states from and to the device;
    plan.copy and plan.fill can access every kind.
  }];
}

def NN_HoldingAttr : EnumAttr<NN_Dialect, NN_Holding, "held"> {
  let summary = "Which part of a state each replica of the parameters holds.";
  let description = [{
    `parameter`: the replica holds of the state what it may hold of the
    parameter, and ZeRO splits the state over replicas. `whole`: every replica
    holds all elements, and all have the same values. `replica`: every replica
    holds summands of its own, which are reduced before an update reads them.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def NN_InitAttr : AttrDef<NN_Dialect, "Init"> {
  let mnemonic = "init";
  let summary = "How a state is initialized if no weights are loaded.";
  let description = [{
    ```mlir
    #nn.init<normal, 0.000000e+00 : f64, 2.000000e-02 : f64, zero_row = 3>
    ```

    | kind | every element is |
    |---|---|
    | `zeros` | 0 |
    | `constant` | `value` |
    | `normal` | drawn from a normal distribution with mean `value` and standard deviation `stddev` |
    | `power` | `value` to the power of the number of updates so far |

    The row `zero_row`, if it is not -1, is zero, as that of a padding token in
    an embedding table.
  }];
  let parameters = (ins EnumParameter<NN_InitKind>:$kind, "::mlir::FloatAttr":$value,
                        "::mlir::FloatAttr":$stddev,
                        DefaultValuedParameter<"int64_t", "-1">:$zeroRow);
  let assemblyFormat = "`<` $kind `,` $value `,` $stddev (`,` `zero_row` `=` $zeroRow^)? `>`";
  let genVerifyDecl = 1;
}

def NN_SourceAttr : AttrDef<NN_Dialect, "Source"> {
  let mnemonic = "source";
  let summary = "How a state is computed from tensors of the weight files.";
  let description = [{
    An expression over tensors, which have their names and types in the files.
    Saving a checkpoint inverts it: the checkpoint contains the tensors that
    the expression names.

    ```mlir
    #nn.source<"ln_f.weight" : tensor<768xbf16>>
    #nn.source<concat(1, transpose("q.weight" : tensor<64x64xf32>),
                         transpose("k.weight" : tensor<32x64xf32>))>
    ```

    | expression | value |
    |---|---|
    | `transpose(x)` | the transposed matrix x |
    | `permute([2, 0, 1], x)` | dimension i is dimension `order[i]` of x |
    | `reshape([4, 8, 32], x)` | x in another shape, with the elements in row-major order; x names one tensor only |
    | `slice(dim, first, size, x)` | indices `first` to `first + size - 1` of dimension `dim`; x is a tensor or a slice of one |
    | `concat(dim, x, y, ...)` | the operands one after the other along dimension `dim` |
    | `stack(dim, x, y, ...)` | the operands one after the other along a new dimension `dim` |
  }];
  let parameters = (ins "::heddle::weights::Source::Kind":$kind,
                        "::mlir::StringAttr":$name,
                        "::mlir::RankedTensorType":$type,
                        ArrayRefParameter<"int64_t">:$numbers,
                        ArrayRefParameter<"::heddle::nn::SourceAttr">:$parts);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The attribute for `source`, an expression over tensors of weight files.
    static SourceAttr get(::mlir::MLIRContext *context,
                          const ::heddle::weights::Source &source);
    ::heddle::weights::Source toSource() const;
    /// This attribute's expression as a list of strided copies. With these the
    /// runtime reads the state from weight files and writes it to them.
    ::heddle::weights::Layout getLayout() const;
  }];
}

def NN_PackedLayoutAttr : EnumAttr<NN_Dialect, NN_PackedLayout, "packed_layout"> {
  let assemblyFormat = "$value";
}

def NN_PackedLayoutParameter : EnumParameter<NN_PackedLayout> {
  let defaultValue = "::heddle::nn::PackedLayout::Panels";
}

def NN_QuantizerAttr : AttrDef<NN_Dialect, "Quantizer"> {
  let mnemonic = "quantizer";
  let summary = "How a weight's copy in compute precision is quantized in training.";
  let description = [{
    The state is nn.fake_quantize of its parameter, rounded to the state's type.
    Its bits are those of the optimizer's state `quantization_bits.GROUP`, where
    GROUP is the group of modules that the user configured.

    ```mlir
    nn.state @h.0.mlp.c_fc.weight.bf16 role derived : tensor<768x3072xbf16>
      {parameter = "h.0.mlp.c_fc.weight",
       quantizer = #nn.quantizer<"mlp", groups = 8, outputs_last = true, asymmetric = false>}
    ```

    `groups` consecutive parts of the weight as [outputs, inputs] have a scale
    each. With `outputs_last` the state is [inputs, outputs].
  }];
  let parameters = (ins "::mlir::StringAttr":$group, "int64_t":$groups,
                        "bool":$outputs_last, "bool":$asymmetric);
  let assemblyFormat = "`<` $group `,` struct($groups, $outputs_last, $asymmetric) `>`";
  let extraClassDeclaration = [{
    /// Converts the attribute to its form in the plan.
    ::heddle::plan::Quantizer toPlan() const;
  }];
}

def NN_PackedAttr : AttrDef<NN_Dialect, "Packed"> {
  let mnemonic = "packed";
  let summary = "How a derived state is quantized or packed from a weight when weights are loaded.";
  let description = [{
    The state is one of the operands of nn.packed_linear for the weight `name`:
    its packed words, its scales or its zeros.

    ```mlir
    nn.state @h.0.mlp.c_fc.weight.words role derived : tensor<96x96x32xi32>
      {packed = #nn.packed<words of "h.0.mlp.c_fc.weight" as tensor<768x3072xf32>,
                           bits = 4, group = 64, even = true, transposed = false>}
    ```

    `of` is the type of the weight: [in, out], or with `transposed` [out, in].
    `bits` is the width of a value: 32 and 16 mean floats of the weight's type,
    8 and 4 mean int8 and int4 codes. `group` inputs share a scale; 0 means all
    inputs. With `even`, quantization is symmetric: there are no zeros, and the
    scale is the largest magnitude of a group divided by the largest code.
    Otherwise the smallest and the largest value of a group become the smallest
    and the largest code. `layout` is that of the products that read the state
    (nn.packed_linear); `panels` is not printed.
  }];
  let parameters = (ins EnumParameter<NN_PackedPart>:$part,
                        "::mlir::StringAttr":$name,
                        "::mlir::RankedTensorType":$of,
                        "int64_t":$bits, "int64_t":$group, "bool":$even,
                        "bool":$transposed,
                        NN_PackedLayoutParameter:$layout);
  let assemblyFormat = [{
    `<` $part `of` $name `as` $of `,` struct($bits, $group, $even, $transposed)
    (`,` `layout` `=` $layout^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Converts the attribute to its form in the plan. The form tells the
    /// runtime how to quantize or pack a weight when the weight is loaded.
    ::heddle::plan::PackedWeight toPlan() const;
    /// The type of the state that has this attribute. The state holds a
    /// weight's packed words, its scales or its zero points. `scale` is the
    /// element type of scales and zero points.
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
  let summary = "Scaling of the frequencies of rotary embeddings for longer sequences.";
  let description = [{
    ```mlir
    #nn.rotary_scaling<all, factor = 4.0 : f64, low = 0.0 : f64, high = 0.0 : f64, magnitude = 1.0 : f64>
    ```

    The frequency f of a pair of features, in radians per token, becomes
    s f + (1 - s) f / `factor`, and the rotated features are multiplied by
    `magnitude`. The method decides the weight s:

    | method | s | name in `rope_scaling` |
    |---|---|---|
    | `all` | 0 | linear |
    | `pairs` | falls linearly from 1 at pair number `low` to 0 at pair number `high` | yarn |
    | `rates` | rises linearly from 0 at the frequency `low` to 1 at the frequency `high` | llama3 |
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
  let summary = "Which activations of a layer are recomputed in the backward pass.";
  let description = [{
    `none`: every activation that gradients read is saved. `selective`: the
    results of products and attention are saved, the others are recomputed.
    `full`: only the layer's arguments are saved.
  }];
}

def NN_ObjectiveAttr : EnumAttr<NN_Dialect, NN_Objective, "objective"> {
  let summary = "The training objective: next-token prediction or masked language modeling.";
  let description = [{
    `#nn.objective<mlm>` is the value of the key `objective` of a model's
    `weights`: some tokens of a batch are masked, and the label of a masked
    token is the original token. With `causal`, the default, the label of a
    token is the next token.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def NN_PortAttr : AttrDef<NN_Dialect, "Port"> {
  let mnemonic = "port";
  let summary = "The meaning of an argument or result of a program.";
  let description = [{
    ```mlir
    #nn.port<ids>
    #nn.port<value, "h.3.attn">
    ```

    The role says what the value is and how the runtime uses it. The name is the
    key of the value in files and messages; without a name that is the role.
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
    /// The key under which files and messages refer to this input or output of
    /// a program: its name or, if it has none, its role.
    ::llvm::StringRef getKey() const;
    /// Whether the value has one entry for each row of the batch. Such a value
    /// is split into micro-batches and over data-parallel ranks.
    bool isOfBatch() const;
    /// Whether the value has the dimensions [..., rows, tokens]; other values
    /// of the batch have [..., rows].
    bool isOfTokens() const;
  }];
}

def NN_PortArrayAttr : TypedArrayAttrBase<NN_PortAttr, "ports of a program">;

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

def NN_LayerDropAttr : AttrDef<NN_Dialect, "LayerDrop"> {
  let mnemonic = "layer_drop";
  let summary = "In which steps a layer is kept, that is, computed.";
  let description = [{
    ```mlir
    #nn.layer_drop<"h.3", 0.25>
    #nn.layer_drop<"h.3", 0.333 of 0.5, 0.001>
    ```

    In a step the layer is kept if a random number in [0, 1) is less than p. The
    number depends only on the run's seed, the step and the layer's path, so it
    is the same on all ranks.

    | form | p in step t, counted from 0 |
    |---|---|
    | `<path, rate>` | 1 - rate: a constant drop rate (LayerDrop, stochastic depth) |
    | `<path, rate of theta, gamma>` | 1 - rate (1 - theta(t)), with theta(t) = (1 - theta) exp(-gamma t) + theta: progressive layer dropping (Zhang and He, NeurIPS 2020, equation 7). The rate of layer i of L, counted from 1, is i / L |
  }];
  let parameters = (ins "::mlir::StringAttr":$path, "::mlir::FloatAttr":$rate,
                        OptionalParameter<"::mlir::FloatAttr">:$theta,
                        OptionalParameter<"::mlir::FloatAttr">:$gamma);
  let assemblyFormat = "`<` $path `,` $rate (`of` $theta^ `,` $gamma)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The condition in the plan, which the runtime evaluates.
    ::heddle::plan::Condition toPlan(::llvm::StringRef name) const;
  }];
}

def NN_IntervalAttr : AttrDef<NN_Dialect, "Interval"> {
  let mnemonic = "interval";
  let summary = "At which steps or updates a phase runs beside another one.";
  let description = [{
    ```mlir
    #nn.interval<doubled_after_runs = 16>
    #nn.interval<doubled_after = 32768, at_most = 16>
    ```

    A phase (#nn.phase) with an interval runs at the multiples of the interval,
    which is 1 first. It doubles after `doubled_after_runs` runs of the phase,
    or after `doubled_after` steps or updates, up to `at_most`. With
    `doubled_after_runs = 2`, a phase from update 1 on runs at the updates 1, 2,
    4, 6, 8, 12, 16, 24.
  }];
  let parameters = (ins "int64_t":$doubledAfter, "bool":$countsRuns,
                        "int64_t":$atMost);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The interval in the plan's form.
    ::heddle::plan::Interval toPlan() const {
      return {getDoubledAfter(), getCountsRuns(), getAtMost()};
    }
  }];
}

def NN_PhaseAttr : AttrDef<NN_Dialect, "Phase"> {
  let mnemonic = "phase";
  let summary = "In which steps a program trains, if a model has several that do.";
  let description = [{
    ```mlir
    #nn.phase<"warmup", from_step = 1>
    #nn.phase<"late", from_step = 5>
    #nn.phase<"compressed", from_update = 400>
    #nn.phase<"dense", from_update = 1, every = #nn.interval<doubled_after_runs = 16>>
    #nn.phase<"synchronizing", from_update = 500, to = 1000>
    ```

    A model may have several programs of the kind `train`, which work on the
    same states. Each has a phase: it runs in the steps from `from_step`,
    counted from 1, to the step before the next phase begins. With
    `from_update`, the phase begins with the step that makes this update, which
    is a later step if earlier steps were skipped. All phases of a model count
    alike: steps, or updates.

    Two phases may begin together: one has `every`, an interval, and runs at its
    multiples; the other runs in between. With `to`, the last phase ends with
    this step or update, and no program trains after it: a run that goes on is
    refused.

    The host knows both numbers before the step begins, and they are equal on
    all ranks. Therefore all ranks choose the same program. While the host
    launches a step, the step before it may still run. The host expects this
    step to make its update. If it is skipped instead, a phase with
    `from_update` begins one update too early.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$from,
                        "bool":$countsUpdates,
                        OptionalParameter<"IntervalAttr">:$every,
                        DefaultValuedParameter<"int64_t", "0">:$to);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits>;

#endif // HEDDLE_DIALECTS_NN_DIALECT
