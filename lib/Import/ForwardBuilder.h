//===- ForwardBuilder.h - Modules as nn operations --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements config::Modules: the methods that the forward function of a model
// family (C++ code in Families/) calls. The calls build nn operations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_FORWARDBUILDER_H
#define HEDDLE_LIB_IMPORT_FORWARDBUILDER_H

#include "Modules.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"
#include "heddle/Import/ModelSpec.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace heddle {

/// Builds the forward function of a model and the functions of its layers. The
/// functions are for a batch with a single row, which has as many tokens as the
/// model has positions. The pass import-derive-programs later makes programs
/// for larger batches.
class ForwardBuilder final : public config::Modules {
public:
  ForwardBuilder(nn::ModelOp model, const config::ModelSpec &spec);
  void build();

  config::Tensor ids() override;
  config::Tensor segments() override;
  config::Tensor lengths() override;
  config::Tensor positions(const std::string &path, int64_t first) override;
  config::Tensor embedding(config::Tensor ids, const std::string &path,
                           std::optional<int64_t> padding) override;
  config::Tensor linear(config::Tensor x, const std::string &path) override;
  config::Tensor layerNorm(config::Tensor x, double eps,
                           const std::string &path) override;
  config::Tensor rmsNorm(config::Tensor x, double eps, const std::string &path,
                         double offset) override;
  config::Tensor headNorm(config::Tensor x, int64_t heads, double eps,
                          const std::string &path) override;
  config::Tensor rotary(config::Tensor x, config::Tensor positions,
                        int64_t heads, const config::Rotary &rotary,
                        const std::string &path) override;
  config::Tensor multiply(config::Tensor x, config::Tensor y,
                          const std::string &path) override;
  config::Tensor scale(config::Tensor x, double factor,
                       const std::string &path) override;
  config::Tensor softcap(config::Tensor x, double cap,
                         const std::string &path) override;
  config::Tensor activation(config::Tensor x, const std::string &function,
                            const std::string &path) override;
  config::Tensor attention(const std::vector<config::Tensor> &qkv,
                           const config::AttentionShape &shape,
                           const std::string &path,
                           config::Tensor lengths) override;
  config::Tensor dropout(config::Tensor x, double p,
                         const std::string &path) override;
  config::Tensor add(config::Tensor x, config::Tensor y,
                     const std::string &path) override;
  bool hasHead() const override { return !spec.isHeadless; }
  config::Tensor head(config::Tensor x, const std::string &weight,
                      const std::string &path) override;
  config::Tensor output(config::Tensor x, const std::string &path) override;
  using config::Modules::layers;
  config::Tensor
  layers(const std::string &name, const std::vector<int64_t> &kinds,
         config::Tensor x,
         const std::function<config::Tensor(config::Tensor, int64_t)> &body)
      override;

private:
  /// What attention of a layer's function knows of layouts.
  struct LayoutMask {
    mlir::Type type; ///< Of the operand; null: no layout.
    int64_t block = 0;
    mlir::FloatAttr density;
  };

  /// A layer's function while its body is being built.
  struct Layer {
    nn::FuncOp function;
    std::string name;                        ///< The name of the layers, as
                                             ///< `h`.
    llvm::SmallVector<std::string> paths;    ///< Paths of its parameters within
                                             ///< the layer.
    llvm::StringMap<mlir::Value> parameters; ///< By path within the layer.
    /// Values of the forward function that the layer uses, each with the
    /// argument of the layer's function that passes it.
    llvm::MapVector<mlir::Value, mlir::Value> outer;
    mlir::Value index; ///< The layer's number, as an argument.
    mlir::Value layout; ///< Of attention, as an argument; null: none.
    LayoutMask mask;
  };
  /// The operands of a random operation, which select its random numbers.
  struct Random {
    mlir::Value rng, layer, microBatch;
  };

  Layer buildLayer(const std::string &name, const std::string &symbol,
                   mlir::Type input, const LayoutMask &mask,
                   const std::function<config::Tensor(config::Tensor)> &body);
  /// The mask of the layers that have the numbers `numbers`, whose layouts have
  /// the same sizes.
  LayoutMask maskOf(llvm::ArrayRef<int64_t> numbers);
  mlir::RankedTensorType typeOf(const layouts::AttentionLayout &layout);
  /// Reads the state with a layer's layout, which it makes at the first call
  /// for the layout.
  mlir::Value readLayout(int64_t number, mlir::Location place);
  const layouts::AttentionLayout *layoutOf(int64_t number) const;
  mlir::Value callLayer(const Layer &layer, int64_t number, mlir::Value x);
  nn::FuncOp beginFunction(llvm::StringRef name, llvm::StringRef path,
                           llvm::ArrayRef<mlir::Type> arguments);
  void endFunction(nn::FuncOp function, config::Tensor result);
  /// Returns `value` in a form that operations at the current insertion point
  /// may use. Within a layer's function, a value of the forward function must
  /// be passed as an argument. This function then adds the argument and returns
  /// it.
  mlir::Value use(mlir::Value value);
  mlir::Value use(config::Tensor tensor);
  /// Returns the parameter at a path; null if the model has none there.
  mlir::Value parameter(const std::string &path);
  Random random(const std::string &path);
  /// Returns the model's argument with that role, for example its token ids.
  /// Creates the argument on first use.
  mlir::Value input(nn::PortRole role, mlir::Type type);
  mlir::Value indexConstant(int64_t value, llvm::StringRef path);
  mlir::Value rmsNorm(mlir::Value x, mlir::Value weight, double eps,
                      const std::string &path);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                      const std::string &path);
  /// Emits nn.map, which applies a scalar function to the inputs element by
  /// element.
  mlir::Value
  map(mlir::ValueRange inputs, const std::string &path,
      llvm::function_ref<mlir::Value(nn::Scalars &, mlir::ValueRange)> body);
  config::Tensor linear(config::Tensor x, mlir::Value weight, mlir::Value bias,
                        bool outIn, const std::string &path);
  /// Returns `x` as the operand of a product with `weight`. The rows of a GPTQ
  /// weight with desc_act are sorted by quantization group, so the features of
  /// `x` are permuted in the same way. Products whose weights have equal
  /// permutations share the permuted value.
  config::Tensor inOrderOf(const config::ParameterSpec &weight,
                           config::Tensor x);
  mlir::RankedTensorType typeOf(const config::ParameterSpec &parameter);

  mlir::RankedTensorType floats(llvm::ArrayRef<int64_t> shape);
  mlir::RankedTensorType ints(llvm::ArrayRef<int64_t> shape);
  /// Returns the type of hidden states: [1, tokens, width].
  mlir::RankedTensorType hidden(int64_t width);
  /// Converts a path within the current layer to a path within the model, with
  /// `*` in place of the layer's index.
  std::string fullPath(const std::string &path) const;
  mlir::Location at(llvm::StringRef path);

  nn::ModelOp model;
  const config::ModelSpec &spec;
  mlir::OpBuilder builder;
  int64_t tokens;
  nn::FuncOp forward;
  std::vector<std::pair<nn::PortRole, mlir::Value>> inputs;
  std::optional<Layer> layer;
  llvm::StringMap<const config::ParameterSpec *> parameters;
  /// The names of the states that hold layouts.
  std::map<const layouts::AttentionLayout *, std::string> layoutStates;
  std::map<std::pair<void *, std::string>, mlir::Value> reordered;
};

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_FORWARDBUILDER_H
