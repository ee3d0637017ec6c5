//===- ModelWriter.cpp - What the families build with ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"
#include "heddle/Import/Import.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace heddle;
using namespace mlir;

ModelWriter::ModelWriter(ModuleOp module, const config::ModelSpec &spec,
                         const dist::Strategy &strategy)
    : builder(module.getContext()), spec(spec), strategy(strategy) {
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<NamedAttribute> weights;
  if (spec.random) {
    weights.push_back(
        builder.getNamedAttr("random", builder.getBoolAttr(true)));
    weights.push_back(builder.getNamedAttr(
        "seed", builder.getI64IntegerAttr(int64_t(spec.seed))));
  } else {
    weights.push_back(builder.getNamedAttr(
        "directory", builder.getStringAttr(spec.directory)));
    weights.push_back(
        builder.getNamedAttr("hash", builder.getStringAttr(spec.headerHash)));
  }
  weights.push_back(builder.getNamedAttr(
      "vocab_size", builder.getI64IntegerAttr(spec.vocabSize)));
  weights.push_back(builder.getNamedAttr(
      "max_positions", builder.getI64IntegerAttr(spec.maxPositions)));
  model = builder.create<nn::ModelOp>(
      at(spec.family), spec.family, spec.family, "import",
      dist::StrategyAttr::get(context(), strategy), spec.configJson,
      builder.getDictionaryAttr(weights),
      /*stage=*/IntegerAttr());
  if (model.getBody().empty())
    model.getBody().emplaceBlock();
  addStates();
}

/// Of a weight file's types those that a parameter can be read from.
static Type elementTypeOf(OpBuilder &builder, llvm::StringRef dtype) {
  return llvm::StringSwitch<Type>(dtype)
      .Case("F32", builder.getF32Type())
      .Case("BF16", builder.getBF16Type())
      .Case("F16", builder.getF16Type());
}

void ModelWriter::addStates() {
  builder.setInsertionPointToEnd(model.getBodyBlock());
  for (const config::ParameterSpec &parameter : spec.parameters) {
    RankedTensorType type = floats(parameter.shape);
    parameterTypes[parameter.name] = type;
    auto init =
        nn::InitAttr::get(context(), parameter.init.kind,
                          builder.getF64FloatAttr(parameter.init.value),
                          builder.getF64FloatAttr(parameter.init.stddev));
    Type sourceType = type.clone(elementTypeOf(builder, parameter.sourceType));
    auto state = builder.create<nn::StateOp>(at(parameter.name), parameter.name,
                                             "parameter", type);
    state.setTrainable(true);
    state.setCheckpointed(true);
    state.setDecays(parameter.decays);
    state.setSource(parameter.sourceName);
    state.setSourceType(sourceType);
    state.setInitAttr(init);
    if (!parameter.segments.empty())
      state.setSegments(parameter.segments);
  }
}

RankedTensorType ModelWriter::floats(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getF32Type());
}

RankedTensorType ModelWriter::ints(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getI32Type());
}

Location ModelWriter::at(llvm::StringRef path) {
  return NameLoc::get(builder.getStringAttr(path));
}

Value ModelWriter::get(llvm::StringRef parameter, llvm::StringRef path) {
  return builder.create<nn::GetOp>(at(path), parameterTypes.lookup(parameter),
                                   parameter);
}

Value ModelWriter::indexConstant(int64_t value, llvm::StringRef path) {
  return builder.create<arith::ConstantIndexOp>(at(path), value);
}

nn::FuncOp ModelWriter::beginFunction(llvm::StringRef name,
                                      ArrayRef<Type> arguments,
                                      ArrayRef<Type> results,
                                      llvm::StringRef path) {
  builder.setInsertionPointToEnd(model.getBodyBlock());
  auto function = builder.create<nn::FuncOp>(
      at(path), name, builder.getFunctionType(arguments, results),
      /*arg_attrs=*/ArrayAttr(), /*res_attrs=*/ArrayAttr(),
      /*program=*/nn::ProgramKindAttr(), /*inputs=*/ArrayAttr(),
      /*outputs=*/ArrayAttr(), /*ties=*/DenseI64ArrayAttr(),
      /*arg_shardings=*/ArrayAttr(), /*result_shardings=*/ArrayAttr());
  Block &body = function.getBody().emplaceBlock();
  for (Type type : arguments)
    body.addArgument(type, at(path));
  builder.setInsertionPointToEnd(&body);
  return function;
}

void ModelWriter::setProgram(nn::FuncOp function, nn::ProgramKind program,
                             ArrayRef<nn::PortRole> inputs,
                             ArrayRef<nn::PortRole> outputs) {
  auto ports = [&](ArrayRef<nn::PortRole> roles) {
    return builder.getArrayAttr(
        llvm::map_to_vector(roles, [&](nn::PortRole role) -> Attribute {
          return nn::PortAttr::get(context(), role);
        }));
  };
  function.setProgram(program);
  function.setInputsAttr(ports(inputs));
  function.setOutputsAttr(ports(outputs));
}

uint32_t ModelWriter::siteOf(llvm::StringRef path) {
  return static_cast<uint32_t>(llvm::xxh3_64bits(path));
}

//===----------------------------------------------------------------------===//
// Kept activations
//===----------------------------------------------------------------------===//

/// Takes `LAYERS.N` or `LAYERS.N.REST` apart; false when it is neither.
static bool splitLayerPath(llvm::StringRef path, llvm::StringRef layersName,
                           int64_t &layer, llvm::StringRef &rest) {
  if (!path.consume_front(layersName) || !path.consume_front(".") ||
      path.consumeInteger(10, layer))
    return false;
  rest = path;
  return rest.empty() || rest.consume_front(".");
}

static void reportUnknownPath(MLIRContext &context, llvm::StringRef path,
                              llvm::StringRef layersName, int64_t numLayers,
                              ArrayRef<llvm::StringRef> layerPaths,
                              ArrayRef<llvm::StringRef> modelPaths) {
  std::vector<std::string> all = {"logits", "grads"};
  for (llvm::StringRef name : modelPaths)
    all.push_back(name.str());
  std::string layer = (layersName + ".N").str();
  std::string inLayers = layer;
  for (llvm::StringRef name : layerPaths) {
    inLayers += ", " + layer + "." + name.str();
    for (int64_t i = 0; i < std::min<int64_t>(numLayers, 64); ++i)
      all.push_back((layersName + "." + Twine(i) + "." + name).str());
  }
  heddle::Diagnostic error;
  error.code = "H0118";
  error.message = ("--keep: the model has no \"" + path + "\"").str();
  error.notes = {"outside the layers: logits, grads, " +
                     llvm::join(modelPaths, ", "),
                 "in the layers (N from 0 to " + std::to_string(numLayers - 1) +
                     "): " + inLayers};
  std::string near = closestMatch(path.str(), all);
  error.help =
      near.empty() ? "choose from these" : "did you mean " + near + "?";
  emitUserDiagnostic(context, error);
}

bool heddle::sortKeptPaths(MLIRContext &context, ArrayRef<std::string> keep,
                           llvm::StringRef prefix, llvm::StringRef layersName,
                           int64_t numLayers,
                           ArrayRef<llvm::StringRef> layerPaths,
                           ArrayRef<llvm::StringRef> modelPaths,
                           KeptPaths &kept) {
  for (llvm::StringRef path : keep) {
    path.consume_front(prefix);
    int64_t layer = 0;
    llvm::StringRef rest;
    if (path == "grads")
      continue;
    if (path == "logits") {
      kept.logits = true;
    } else if (llvm::is_contained(modelPaths, path)) {
      kept.model.insert(path);
    } else if (splitLayerPath(path, layersName, layer, rest) && layer >= 0 &&
               layer < numLayers &&
               (rest.empty() || llvm::is_contained(layerPaths, rest))) {
      std::vector<std::string> &paths = kept.layers[layer];
      if (!llvm::is_contained(paths, rest))
        paths.push_back(rest.str());
    } else {
      reportUnknownPath(context, path, layersName, numLayers, layerPaths,
                        modelPaths);
      return false;
    }
  }
  return true;
}
