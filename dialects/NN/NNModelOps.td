//===- NNModelOps.td - Models, states, functions, steps ----*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models, states, buckets, functions, step programs, and the operations that
// read and write states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_MODEL_OPS
#define HEDDLE_DIALECTS_NN_MODEL_OPS

include "dialects/NN/NNDialect.td"
include "dialects/Dist/DistDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def NN_ModelOp : NN_Op<"model", [
    IsolatedFromAbove, SymbolTable, Symbol, NoTerminator, NoRegionArguments,
    SingleBlock, RegionKindInterface,
    DeclareOpInterfaceMethods<RegionKindInterface, ["getRegionKind"]>]> {
  let summary = "A model: its states, layer functions and step programs.";
  let description = [{
    ```mlir
    nn.model @gpt2 family "gpt2" phase "import"
        attributes {config = "...", strategy = #dist.strategy<...>, weights = {directory = "..."}} { ... }
    ```

    | attribute | meaning |
    |---|---|
    | `config` | the text of the model's config.json; passes only copy it |
    | `strategy` | the settings of the compilation |
    | `phase` | the last phase that has run |
    | `stage` | the number of the pipeline stage; from the pipe phase on each stage is a model |
    | `weights` | where the weights are, and facts about data that the runtime checks |

    `weights` is `{directory = "...", hash = "..."}` for weights in files, or
    `{random = true, seed = 7 : i64}` for random ones; then `directory`, if
    present, is that of the tokenizer. Further keys:

    | key | meaning |
    |---|---|
    | `vocab_size`, `max_positions` | limits of token ids and positions |
    | `objective` | the training objective, if it is not `#nn.objective<causal>` |
    | `segments` | the number of segment ids, if known |
    | `mask_token`, `special_tokens` | for masked language modeling, if known; special tokens are never masked |
    | `extended` | the table of positions that loading makes longer: its `tensor` in the weight files with `source_rows` rows, the model's `rows`, of which the `first` are for no position, and whether loading `interpolates` rows or repeats them |
    | `layouts` | for each constant that is a layout of attention, the size of its blocks and the layers that read it |
    | `orders` | tensors with the order of a matrix's inputs, each with the tensor whose order it equals, or "" for the identity; other weights for this binary must satisfy the same |
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family,
                       StrAttr:$phase, Dist_StrategyAttr:$strategy,
                       StrAttr:$config, DictionaryAttr:$weights,
                       OptionalAttr<I64Attr>:$stage);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `family` $family `phase` $phase attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
  }];
  let hasRegionVerifier = 1;
}

def NN_StateOp : NN_Op<"state", [Symbol,
                                 DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor that lives across steps.";
  let description = [{
    ```mlir
    nn.state @ln_f.weight role parameter : tensor<768xf32>
      {checkpointed, source = #nn.source<"ln_f.weight" : tensor<768xf32>>, trainable, ...}
    ```

    | role | meaning |
    |---|---|
    | `parameter` | a weight of the model |
    | `derived` | computed from other states or weights when weights are loaded |
    | `gradient` | the gradient of `parameter` |
    | `optimizer` | a state of the optimizer: for one `parameter`, with its shape or a number of rank 0, named as `h.0.ln_1.weight.exp_avg`; or for the whole model |
    | `accumulator` | a sum over micro-batches |
    | `scalar` | a number that a step computes once, before its first micro-batch; or the values with which it computes in place of `parameter` |
    | `saved` | activations saved from a micro-batch's forward pass for its backward pass; the first dimension is the slot |
    | `cache` | keys or values of earlier tokens; the first dimension is the page |
    | `constant` | `value`, which nothing changes, such as an attention layout |

    A derived state that has a `parameter` is a copy of it, cast to the state's
    element type; the optimizer writes both. With `quantizer` the copy is quantized
    before it is cast. A derived state with `packed` is
    quantized or packed from a weight. That weight is not a state, and `source`,
    `init`, `storage`, `segments` and `whole` are those of the weight.

    | attribute | meaning |
    |---|---|
    | `source` | the tensors of the weight files that the state is computed from; a checkpoint contains these tensors |
    | `storage` | the sharding of the state; a gradient may be a partial sum over some axes |
    | `segments` | parts of the last dimension that are split separately, as q, k and v of a packed weight |
    | `whole` | the type of the whole tensor; from the spmd phase on `type` is that of the rank's shard |
    | `held` | for a state that the optimizer has for a parameter, which part of it a replica holds; without the attribute, the part that it holds of the parameter. With `local` each replica holds all elements, with values of its own; the spmd phase makes one state with those of all replicas of it |
    | `value` | the value of a constant |
    | `memory` | the kind of memory; a state that is offloaded is read with dist.fetch and written with dist.store |
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_StateRoleAttr:$role, TypeAttr:$type,
                       OptionalAttr<StrAttr>:$parameter,
                       UnitAttr:$trainable, UnitAttr:$checkpointed,
                       UnitAttr:$decays,
                       OptionalAttr<NN_SourceAttr>:$source,
                       OptionalAttr<NN_InitAttr>:$init,
                       OptionalAttr<Dist_TensorShardingAttr>:$storage,
                       OptionalAttr<DenseI64ArrayAttr>:$segments,
                       OptionalAttr<TypeAttr>:$whole,
                       OptionalAttr<NN_PackedAttr>:$packed,
                       OptionalAttr<NN_QuantizerAttr>:$quantizer,
                       OptionalAttr<NN_HoldingAttr>:$held,
                       OptionalAttr<I32ElementsAttr>:$value,
                       DefaultValuedAttr<NN_MemoryAttr, "::heddle::nn::MemoryKind::Device">:$memory);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::heddle::nn::StateRole":$role,
                                 "::mlir::Type":$type,
                                 CArg<"::llvm::StringRef", "{}">:$parameter), [{
    $_state.addAttribute(getSymNameAttrName($_state.name), $_builder.getStringAttr(name));
    $_state.addAttribute(getRoleAttrName($_state.name), StateRoleAttr::get($_builder.getContext(), role));
    $_state.addAttribute(getTypeAttrName($_state.name), ::mlir::TypeAttr::get(type));
    if (!parameter.empty())
      $_state.addAttribute(getParameterAttrName($_state.name), $_builder.getStringAttr(parameter));
  }]>];
  let assemblyFormat = "$sym_name `role` `` $role `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// Whether the state is derived by a cast of its parameter.
    bool isCopy() { return getRole() == StateRole::Derived && !getPacked(); }
    /// Which part of the state each replica of the parameters holds. Gradients
    /// are summands of the replica, a state for no parameter is whole.
    ::heddle::nn::Holding getHolding();
    /// What the state is to the optimizer, such as `exp_avg`: the state's
    /// symbol without the parameter's name before it.
    ::llvm::StringRef getQuantity();
  }];
}

def NN_BucketOp : NN_Op<"bucket", [Symbol,
                                   DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "States side by side in memory, which are read as one flat tensor.";
  let description = [{
    ```mlir
    nn.bucket @gradients.decay [@a.weight.grad, @b.weight.grad] : tensor<8192xf32>
    ```

    The type is [number of elements of all members with padding]. Every member
    begins at a multiple of 64 elements, and the padding is zero, so buckets of
    the same members with different element types have the same offsets in
    elements. The memory phase places the members in this order without further
    padding. All members are in the same kind of memory.

    `storage` splits the flat tensor over ranks, as ZeRO needs it. The tensor is
    then padded so that all shards have the same size, a rank holds only its
    shard, and members cannot be read or written separately. From the spmd phase
    on `type` is that of the shard, and `elements` is the number of elements of
    the flat tensor.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefArrayAttr:$members,
                       TypeAttr:$type,
                       OptionalAttr<Dist_TensorShardingAttr>:$storage,
                       OptionalAttr<I64Attr>:$elements);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::ArrayAttr":$members,
                                 "::mlir::Type":$type), [{
    $_state.addAttribute(getSymNameAttrName($_state.name), $_builder.getStringAttr(name));
    $_state.addAttribute(getMembersAttrName($_state.name), members);
    $_state.addAttribute(getTypeAttrName($_state.name), ::mlir::TypeAttr::get(type));
  }]>];
  let assemblyFormat = "$sym_name $members `:` $type attr-dict";
  let hasVerifier = 1;
}

def NN_GetOp : NN_Op<"get", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                             MemoryEffects<[MemRead]>, NN_Rematerializable]> {
  let summary = "Reads a state or a bucket, or with `slot` one slot of a state.";
  let description = [{
    ```mlir
    %w = nn.get @ln_f.weight : tensor<768xf32>
    %x = nn.get @saved.h[%slot] : tensor<2x16x768xf32>
    ```

    A slot is an index of the first dimension of a state with the role `saved`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, Optional<Index>:$slot);
  let results = (outs AnyRankedTensor:$value);
  let builders = [OpBuilder<(ins "::mlir::Type":$type,
                                 "::llvm::StringRef":$state), [{
    build($_builder, $_state, type, state, ::mlir::Value());
  }]>];
  let assemblyFormat = "$state (`[` $slot^ `]`)? attr-dict `:` type($value)";
}

def NN_SetOp : NN_Op<"set", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                             MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a state or a bucket, or with `slot` one slot of a state.";
  let description = [{
    ```mlir
    nn.set @ln_f.weight, %w : tensor<768xf32>
    nn.set @saved.h[%slot], %x : tensor<2x16x768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, AnyRankedTensor:$value,
                       Optional<Index>:$slot);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$state,
                                 "::mlir::Value":$value), [{
    build($_builder, $_state, state, value, ::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $state (`[` $slot^ `]`)? `,` $value attr-dict `:` type($value)
  }];
}

def NN_PackOp : NN_Op<"pack", [Pure]> {
  let summary = "Copies tensors into one flat tensor with the layout of a bucket.";
  let description = [{
    ```mlir
    %flat = nn.pack %a, %b : (tensor<4x8xf32>, tensor<100xf32>) -> tensor<192xf32>
    ```

    Each tensor begins at a multiple of 64 elements. The padding after each
    tensor, also after the last one, is zero.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$members);
  let results = (outs AnyRankedTensor:$flat);
  let assemblyFormat = "$members attr-dict `:` functional-type($members, $flat)";
  let hasVerifier = 1;
}

def NN_UnpackOp : NN_Op<"unpack", [Pure]> {
  let summary = "The inverse of nn.pack: the tensors in a flat tensor.";
  let description = [{
    ```mlir
    %a, %b = nn.unpack %flat : (tensor<192xf32>) -> (tensor<4x8xf32>, tensor<100xf32>)
    ```

    `shardings` are those of the results.
  }];
  let arguments = (ins AnyRankedTensor:$flat, OptionalAttr<ArrayAttr>:$shardings);
  let results = (outs Variadic<AnyRankedTensor>:$members);
  let assemblyFormat = "$flat attr-dict `:` functional-type($flat, $members)";
  let hasVerifier = 1;
}

class NN_FunctionLike<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([IsolatedFromAbove, FunctionOpInterface,
                                   Symbol], traits)> {
  let hasCustomAssemblyFormat = 1;
  let regions = (region AnyRegion:$body);
}

def NN_FuncOp : NN_FunctionLike<"func"> {
  let summary = "A function: a layer, or the forward pass of the whole model.";
  let description = [{
    ```mlir
    nn.func @mlp(%x: tensor<2x16x768xf32>, %w: tensor<768x768xf32>) -> tensor<2x16x768xf32> {
      %y = nn.linear %x, %w : (tensor<2x16x768xf32>, tensor<768x768xf32>) -> tensor<2x16x768xf32>
      nn.return %y : tensor<2x16x768xf32>
    }
    ```

    A layer takes its parameters as arguments, so that all instances of the layer
    call one function. Scalars, as the number of the layer or of the
    micro-batch, have the type `index`.

    `program` marks the forward pass from which a step program is built;
    `inputs` and `outputs` are then the ports of its arguments and results, and
    `phase` says in which steps it trains, if several programs do.
    `ties`, set by the fuse phase, gives for each result the number of the
    argument in whose memory it is computed, or -1.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<NN_ProgramKindAttr>:$program,
                       OptionalAttr<NN_PortArrayAttr>:$inputs,
                       OptionalAttr<NN_PortArrayAttr>:$outputs,
                       OptionalAttr<NN_PhaseAttr>:$phase,
                       OptionalAttr<DenseI64ArrayAttr>:$ties,
                       OptionalAttr<ArrayAttr>:$arg_shardings,
                       OptionalAttr<ArrayAttr>:$result_shardings);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
  let hasVerifier = 1;
}

def NN_StepOp : NN_FunctionLike<"step"> {
  let summary = "A step program: the program that a binary runs for one verb.";
  let description = [{
    ```mlir
    nn.step @train(%ids: tensor<2x4x64xi32>) -> tensor<f32>
        attributes {inputs = [#nn.port<ids>], kind = #nn.program<train>,
                    outputs = [#nn.port<loss>]} { ... }
    ```

    `inputs` and `outputs` are the ports of the arguments and results; the
    runtime finds them by their roles. `ports`, set by the spmd phase, gives the
    whole type and the sharding of each port that is split over ranks, by its
    key. If a model has several steps of the kind `train`, `phase` says in which
    steps of a run each of them runs.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_ProgramKindAttr:$kind,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       NN_PortArrayAttr:$inputs, NN_PortArrayAttr:$outputs,
                       OptionalAttr<NN_PhaseAttr>:$phase,
                       OptionalAttr<DictionaryAttr>:$ports,
                       OptionalAttr<ArrayAttr>:$arg_shardings,
                       OptionalAttr<ArrayAttr>:$result_shardings);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::heddle::nn::ProgramKind":$kind,
                                 "::mlir::FunctionType":$type,
                                 "::mlir::ArrayAttr":$inputs,
                                 "::mlir::ArrayAttr":$outputs)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
  let hasVerifier = 1;
}

def NN_ReturnOp : NN_Op<"return", [Pure, Terminator]> {
  let summary = "Ends the body of a function, a step or another operation with a body.";
  let description = [{
    ```mlir
    nn.return %y : tensor<2x16x768xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

def NN_ConditionOp : NN_Op<"condition", [Symbol]> {
  let summary = "Something that is true or false in a whole step.";
  let description = [{
    ```mlir
    nn.condition @h.3.kept #nn.layer_drop<"h.3", 0.25>
    ```

    A condition is a function of the run's seed and the step. It is equal on all
    ranks, and known to the host before the step begins. Operations that name a
    condition are skipped in steps in which it is false: calls with `when`, and
    other operations with the attribute `nn.when`, such as the all-gather of a
    dropped layer's parameters. Only operations with the same condition may use
    the results of an operation with `nn.when`. A skipped nn.set leaves the state
    as it is.

    ```mlir
    %w = dist.all_gather %part axes ["data"] dim 0 for "h.3" {nn.when = @h.3.kept} : ...
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_LayerDropAttr:$holds);
  let assemblyFormat = "$sym_name $holds attr-dict";
}

def NN_CallOp : NN_Op<"call", [CallOpInterface,
                               DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A call of a function: one instance of a layer.";
  let description = [{
    ```mlir
    %y = nn.call @block(%x, %w) path "h.3" : (...) -> tensor<4x64x768xf32>
    ```

    `path` is the module path of the instance. `recompute` overrides the
    strategy's choice of recomputed activations for this instance.

    With `when` the call is skipped in steps in which the condition is false.
    `passes` has an entry for each result: the operand that the result then
    equals, -1 if only operations with the same condition use the result, or -2
    if the result is then zero.

    ```mlir
    %y, %saved = nn.call @block.fwd(%x, %w) path "h.3" when @h.3.kept passes [0, -1] : (...) -> (...)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$operands,
                       StrAttr:$path, OptionalAttr<NN_RecomputeAttr>:$recompute,
                       OptionalAttr<FlatSymbolRefAttr>:$when,
                       OptionalAttr<DenseI64ArrayAttr>:$passes,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $callee `(` $operands `)` `path` $path (`recompute` `` $recompute^)?
    (`when` $when^ `passes` $passes)? attr-dict
    `:` functional-type($operands, $results)
  }];
  let builders = [OpBuilder<(ins "::heddle::nn::FuncOp":$callee,
                                 "::mlir::ValueRange":$operands,
                                 "::mlir::StringAttr":$path,
                                 CArg<"::heddle::nn::RecomputeAttr", "{}">:$recompute)>];
  let extraClassDeclaration = [{
    /// Entries of `passes` that are no operand.
    static constexpr int64_t passesNothing = -1, passesZeros = -2;

    operand_range getArgOperands() { return getOperands(); }
    ::mlir::MutableOperandRange getArgOperandsMutable() {
      return getOperandsMutable();
    }
    ::mlir::CallInterfaceCallable getCallableForCallee() {
      return (*this)->getAttrOfType<::mlir::SymbolRefAttr>("callee");
    }
    ::mlir::LogicalResult
    verifyCondition(::mlir::SymbolTableCollection &tables);
    void setCalleeFromCallable(::mlir::CallInterfaceCallable callee) {
      (*this)->setAttr("callee", callee.get<::mlir::SymbolRefAttr>());
    }
  }];
}

def NN_MicroBatchesOp : NN_Op<"micro_batches", [SingleBlock]> {
  let summary = "Runs its body once for each micro-batch, in order.";
  let description = [{
    ```mlir
    nn.micro_batches 4 {
    ^bb0(%i: index):
      ...
      nn.return
    }
    ```

    The body's argument is the number of the micro-batch. Only states carry
    values from one micro-batch to the next.
  }];
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def NN_MicroBatchOp : NN_Op<"micro_batch", [Pure, NN_Rematerializable]> {
  let summary = "out = input[index]: the slice of a step's input for one micro-batch";
  let description = [{
    The input is [micro-batches, ...], out is [...].

    ```mlir
    %x = nn.micro_batch %ids[%i] : tensor<4x2x64xi32> -> tensor<2x64xi32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Index:$index);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input `[` $index `]` attr-dict `:` type($input) `->` type($output)
  }];
  let hasVerifier = 1;
}

def NN_KeepOp : NN_Op<"keep"> {
  let summary = "Marks a value that `--dump` writes, under the key `value.<path>`.";
  let description = [{
    ```mlir
    nn.keep %y as "h.3.attn" : tensor<2x16x768xf32>
    ```

    The path `logits` has the key `logits`.
  }];
  let arguments = (ins AnyRankedTensor:$value, StrAttr:$path);
  let assemblyFormat = "$value `as` $path attr-dict `:` type($value)";
}

#endif // HEDDLE_DIALECTS_NN_MODEL_OPS
