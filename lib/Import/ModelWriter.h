//===- ModelWriter.h - What the families build with -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_MODELWRITER_H
#define HEDDLE_LIB_IMPORT_MODELWRITER_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Import/ModelSpec.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace heddle {

/// Builds the parts of an `nn.model` that do not depend on the family: states,
/// functions, types and locations. Families call it for the rest.
class ModelWriter {
public:
  /// Makes the model and one state for every parameter.
  ModelWriter(mlir::ModuleOp module, const config::ModelSpec &spec,
              const dist::Strategy &strategy);

  mlir::MLIRContext *context() { return builder.getContext(); }
  /// A tensor of f32.
  mlir::RankedTensorType floats(llvm::ArrayRef<int64_t> shape);
  /// A tensor of i32.
  mlir::RankedTensorType ints(llvm::ArrayRef<int64_t> shape);
  /// The type of the random numbers' seed and step.
  /// Rows of a micro-batch on all data ranks together.
  int64_t rows() const { return strategy.microBatch * strategy.data; }
  mlir::RankedTensorType rngType() { return ints({4}); }
  /// A location that says the module path.
  mlir::Location at(llvm::StringRef path);
  /// Reads a parameter.
  mlir::Value get(llvm::StringRef parameter, llvm::StringRef path);
  mlir::Value indexConstant(int64_t value, llvm::StringRef path);

  /// Appends a function, and moves `builder` to the end of its empty body.
  nn::FuncOp beginFunction(llvm::StringRef name,
                           llvm::ArrayRef<mlir::Type> arguments,
                           llvm::ArrayRef<mlir::Type> results,
                           llvm::StringRef path);
  /// Marks a function as the forward pass of a step program.
  void setProgram(nn::FuncOp function, nn::ProgramKind program,
                  llvm::ArrayRef<nn::PortRole> inputs,
                  llvm::ArrayRef<nn::PortRole> outputs);

  /// The stable number of a random operation, from its path in the layer.
  static uint32_t siteOf(llvm::StringRef path);

  mlir::OpBuilder builder;
  nn::ModelOp model;
  const config::ModelSpec &spec;
  const dist::Strategy &strategy;

private:
  void addStates();
  llvm::StringMap<mlir::RankedTensorType> parameterTypes;
};

/// Activations that `--keep` names by module path, sorted out by the layer
/// that makes them.
struct KeptPaths {
  bool logits = false;
  llvm::StringSet<> model;                            ///< Outside the layers.
  std::map<int64_t, std::vector<std::string>> layers; ///< Paths in the layer.
};

/// Sorts `keep` out; false after reporting H0118 for a path that is not in the
/// model. A path of a layer is `LAYERS.N` or `LAYERS.N.REST`.
bool sortKeptPaths(mlir::MLIRContext &context, llvm::ArrayRef<std::string> keep,
                   llvm::StringRef prefix, llvm::StringRef layersName,
                   int64_t numLayers,
                   llvm::ArrayRef<llvm::StringRef> layerPaths,
                   llvm::ArrayRef<llvm::StringRef> modelPaths, KeptPaths &kept);

/// Builds the functions of a GPT-2 model; false after reporting an error.
bool buildGpt2(ModelWriter &writer, const config::Gpt2Config &config);

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_MODELWRITER_H
