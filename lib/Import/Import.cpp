//===- Import.cpp - A model directory becomes a module --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first phase: makes the module of a model from its ModelSpec. The module
// has the forward function, and a state for each parameter.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Import.h"
#include "Family.h"
#include "ForwardBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"

using namespace heddle;
using namespace mlir;

void heddle::emitUserDiagnostic(MLIRContext &context,
                                const heddle::Diagnostic &diagnostic) {
  Location location = UnknownLoc::get(&context);
  const SourceLocation &place = diagnostic.location;
  if (!place.file.empty())
    location =
        FileLineColLoc::get(&context, place.file, place.line, place.column);
  InFlightDiagnostic error = emitError(location);
  error << diagnostic.code << ": " << diagnostic.message;
  for (const std::string &note : diagnostic.notes)
    error.attachNote() << note;
  if (!diagnostic.help.empty())
    error.attachNote() << "help: " << diagnostic.help;
}

/// The number of token types (segments, as in BERT) that a row of tokens may
/// have. It is the number of rows of the embedding table for token types; 0 if
/// there is no such table.
static int64_t segmentsOf(nn::ModelOp model) {
  for (auto function : model.getOps<nn::FuncOp>()) {
    if (!function.getInputs())
      continue;
    for (auto [argument, port] :
         llvm::zip(function.getArguments(), *function.getInputs())) {
      if (cast<nn::PortAttr>(port).getRole() != nn::PortRole::Segments)
        continue;
      for (Operation *user : argument.getUsers())
        if (auto embedding = dyn_cast<nn::EmbeddingOp>(user))
          return cast<RankedTensorType>(embedding.getTable().getType())
              .getDimSize(0);
    }
  }
  return 0;
}

/// The attribute that tells the runtime where weights come from and what data
/// the model needs.
static DictionaryAttr describeWeights(Builder &builder, nn::ModelOp model,
                                      const config::ModelSpec &spec) {
  SmallVector<NamedAttribute> weights;
  auto add = [&](llvm::StringRef name, Attribute value) {
    weights.push_back(builder.getNamedAttr(name, value));
  };
  if (!spec.directory.empty())
    add("directory", builder.getStringAttr(spec.directory));
  if (spec.random) {
    add("random", builder.getBoolAttr(true));
    add("seed", builder.getI64IntegerAttr(int64_t(spec.seed)));
  } else {
    add("hash", builder.getStringAttr(spec.headerHash));
    SmallVector<NamedAttribute> orders;
    for (const auto &[name, like] : spec.orders)
      orders.push_back(builder.getNamedAttr(name, builder.getStringAttr(like)));
    if (!orders.empty())
      add("orders", builder.getDictionaryAttr(orders));
  }
  if (const plan::ExtendedTable &table = spec.extended; !table.tensor.empty())
    add("extended",
        builder.getDictionaryAttr(
            {builder.getNamedAttr("tensor",
                                  builder.getStringAttr(table.tensor)),
             builder.getNamedAttr("rows",
                                  builder.getI64IntegerAttr(table.rows)),
             builder.getNamedAttr("first",
                                  builder.getI64IntegerAttr(table.first)),
             builder.getNamedAttr("interpolates",
                                  builder.getBoolAttr(table.interpolates)),
             builder.getNamedAttr(
                 "source_rows", builder.getI64IntegerAttr(table.sourceRows))}));
  add("vocab_size", builder.getI64IntegerAttr(spec.vocabSize));
  add("max_positions", builder.getI64IntegerAttr(spec.maxPositions));
  if (int64_t segments = segmentsOf(model))
    add("segments", builder.getI64IntegerAttr(segments));
  SmallVector<NamedAttribute> layouts;
  for (const plan::LayoutUse &use : config::layoutUses(spec)) {
    SmallVector<StringRef> layers(use.layers.begin(), use.layers.end());
    layouts.push_back(builder.getNamedAttr(
        use.state, builder.getDictionaryAttr(
                       {builder.getNamedAttr(
                            "block", builder.getI64IntegerAttr(use.block)),
                        builder.getNamedAttr(
                            "layers", builder.getStrArrayAttr(layers))})));
  }
  if (!layouts.empty())
    add("layouts", builder.getDictionaryAttr(layouts));
  if (spec.objective == plan::Objective::MaskedToken)
    add("objective", nn::ObjectiveAttr::get(builder.getContext(),
                                            nn::Objective::MaskedToken));
  if (spec.tokens.mask)
    add("mask_token", builder.getI64IntegerAttr(*spec.tokens.mask));
  if (!spec.tokens.all.empty())
    add("special_tokens", builder.getDenseI64ArrayAttr(spec.tokens.all));
  return builder.getDictionaryAttr(weights);
}

/// Sets all attributes of a parameter's state except its type.
static void setParameter(nn::StateOp state,
                         const config::ParameterSpec &parameter) {
  Builder builder(state.getContext());
  state.setTrainable(!parameter.isOrder);
  state.setCheckpointed(true);
  state.setDecays(parameter.decays);
  state.setSourceAttr(
      nn::SourceAttr::get(builder.getContext(), parameter.source));
  if (!state.getInit())
    state.setInitAttr(nn::InitAttr::get(
        builder.getContext(),
        *nn::symbolizeInitKind(plan::nameOf(parameter.init.kind)),
        builder.getF64FloatAttr(parameter.init.value),
        builder.getF64FloatAttr(parameter.init.stddev),
        parameter.init.zeroRow));
  if (!parameter.segments.empty())
    state.setSegments(parameter.segments);
}

static void addStates(OpBuilder &builder, const config::ModelSpec &spec) {
  for (const config::ParameterSpec &parameter : spec.parameters) {
    Type element = builder.getF32Type();
    if (parameter.isOrder)
      element = builder.getI32Type();
    auto type = RankedTensorType::get(parameter.shape, element);
    setParameter(builder.create<nn::StateOp>(
                     NameLoc::get(builder.getStringAttr(parameter.name)),
                     parameter.name, nn::StateRole::Parameter, type),
                 parameter);
  }
}

void heddle::completeForward(nn::ModelOp model, const config::ModelSpec &spec,
                             const dist::Strategy &strategy) {
  Builder builder(model.getContext());
  model.setPhase("import");
  model.setStrategyAttr(dist::StrategyAttr::get(model.getContext(), strategy));
  model.setConfig(spec.configJson);
  model.setWeightsAttr(describeWeights(builder, model, spec));
  SymbolTable symbols(model);
  for (const config::ParameterSpec &parameter : spec.parameters)
    setParameter(symbols.lookup<nn::StateOp>(parameter.name), parameter);
  emitRemark(model.getLoc()) << config::coverageReport(spec);
}

OwningOpRef<ModuleOp> heddle::importModel(MLIRContext &context,
                                          const config::ModelSpec &spec,
                                          const dist::Strategy &strategy) {
  context.loadDialect<nn::NNDialect, dist::DistDialect, arith::ArithDialect>();
  Location place = FileLineColLoc::get(&context, spec.configFile, 1, 1);
  OwningOpRef<ModuleOp> module = ModuleOp::create(place);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto model = builder.create<nn::ModelOp>(
      NameLoc::get(builder.getStringAttr(spec.family)), spec.family,
      spec.family, "import", dist::StrategyAttr::get(&context, strategy),
      spec.configJson, builder.getDictionaryAttr({}),
      /*stage=*/IntegerAttr());
  builder.setInsertionPointToEnd(&model.getBody().emplaceBlock());
  addStates(builder, spec);
  ForwardBuilder(model, spec).build();
  model.setWeightsAttr(describeWeights(builder, model, spec));
  if (failed(verify(*module)))
    return {};
  emitRemark(place) << config::coverageReport(spec);
  return module;
}
