//===- ForwardBuilder.cpp - Builds a family's modules as nn operations ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the nn operations of each module that a forward function calls, and a
// function for each kind of layer.
//
//===----------------------------------------------------------------------===//

#include "ForwardBuilder.h"
#include "Family.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/xxhash.h"

using namespace heddle;
using namespace mlir;
using config::Tensor;

static Tensor wrap(Value value) { return {value.getAsOpaquePointer()}; }

static Value unwrap(Tensor tensor) {
  return Value::getFromOpaquePointer(tensor.value);
}

/// Returns the number that seeds a random operation, for example dropout. It
/// depends only on the operation's path within the layer.
static int32_t siteOf(llvm::StringRef path) {
  return static_cast<int32_t>(llvm::xxh3_64bits(path));
}

ForwardBuilder::ForwardBuilder(nn::ModelOp model, const config::ModelSpec &spec)
    : model(model), spec(spec), builder(model.getContext()),
      tokens(spec.maxPositions) {
  for (const config::ParameterSpec &parameter : spec.parameters)
    parameters[parameter.name] = &parameter;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

RankedTensorType ForwardBuilder::floats(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getF32Type());
}

RankedTensorType ForwardBuilder::ints(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getI32Type());
}

RankedTensorType
ForwardBuilder::typeOf(const config::ParameterSpec &parameter) {
  return parameter.isOrder ? ints(parameter.shape) : floats(parameter.shape);
}

RankedTensorType ForwardBuilder::hidden(int64_t width) {
  return floats({1, tokens, width});
}

std::string ForwardBuilder::fullPath(const std::string &path) const {
  if (!layer)
    return path;
  return layer->name + ".*" + (path.empty() ? "" : ".") + path;
}

Location ForwardBuilder::at(llvm::StringRef path) {
  return NameLoc::get(builder.getStringAttr(fullPath(path.str())));
}

Value ForwardBuilder::indexConstant(int64_t value, llvm::StringRef path) {
  return builder.create<arith::ConstantIndexOp>(at(path), value);
}

nn::FuncOp ForwardBuilder::beginFunction(llvm::StringRef name,
                                         llvm::StringRef path,
                                         ArrayRef<Type> arguments) {
  builder.setInsertionPointToEnd(model.getBodyBlock());
  auto place = NameLoc::get(builder.getStringAttr(path));
  auto function = builder.create<nn::FuncOp>(
      place, name, builder.getFunctionType(arguments, {}),
      /*arg_attrs=*/ArrayAttr(), /*res_attrs=*/ArrayAttr(),
      /*program=*/nn::ProgramKindAttr(), /*inputs=*/ArrayAttr(),
      /*outputs=*/ArrayAttr(), /*phase=*/nn::PhaseAttr(),
      /*ties=*/DenseI64ArrayAttr(),
      /*arg_shardings=*/ArrayAttr(), /*result_shardings=*/ArrayAttr());
  Block &body = function.getBody().emplaceBlock();
  for (Type type : arguments)
    body.addArgument(type, place);
  builder.setInsertionPointToEnd(&body);
  return function;
}

void ForwardBuilder::endFunction(nn::FuncOp function, Tensor result) {
  Value value = use(result);
  builder.create<nn::ReturnOp>(function.getLoc(), value);
  function.setFunctionType(builder.getFunctionType(
      function.getBody().getArgumentTypes(), value.getType()));
}

Value ForwardBuilder::use(Value value) {
  if (!layer || value.getParentRegion() == &layer->function.getBody())
    return value;
  Value &argument = layer->outer[value];
  if (!argument)
    argument = layer->function.getBody().addArgument(value.getType(),
                                                     layer->function.getLoc());
  return argument;
}

Value ForwardBuilder::use(Tensor tensor) { return use(unwrap(tensor)); }

Value ForwardBuilder::parameter(const std::string &path) {
  if (layer)
    return layer->parameters.lookup(path);
  const config::ParameterSpec *found = parameters.lookup(path);
  llvm::StringRef module = llvm::StringRef(path).rsplit('.').first;
  return found ? builder.create<nn::GetOp>(at(module), typeOf(*found), path)
               : Value();
}

Value ForwardBuilder::input(nn::PortRole role, Type type) {
  for (auto &[known, value] : inputs)
    if (known == role)
      return value;
  Value value = forward.getBody().addArgument(type, forward.getLoc());
  inputs.push_back({role, value});
  return value;
}

void ForwardBuilder::build() {
  forward = beginFunction("forward", spec.family, {});
  endFunction(forward, spec.model->forward(*this));
  auto port = [&](nn::PortRole role) -> Attribute {
    return nn::PortAttr::get(builder.getContext(), role);
  };
  forward.setInputsAttr(builder.getArrayAttr(llvm::map_to_vector(
      inputs, [&](const auto &input) { return port(input.first); })));
  forward.setOutputsAttr(builder.getArrayAttr(port(nn::PortRole::Logits)));
}

ForwardBuilder::Layer
ForwardBuilder::buildLayer(const std::string &name, const std::string &symbol,
                           Type input, const LayoutMask &mask,
                           const std::function<Tensor(Tensor)> &body) {
  OpBuilder::InsertionGuard outside(builder);
  SmallVector<Type> types = {input};
  Layer made;
  std::string first = name + ".0.";
  for (const config::ParameterSpec &parameter : spec.parameters)
    if (llvm::StringRef path = parameter.name; path.consume_front(first)) {
      types.push_back(typeOf(parameter));
      made.paths.push_back(path.str());
    }
  if (mask.type)
    types.push_back(mask.type);
  made.function = beginFunction(symbol, name + ".*", types);
  made.mask = mask;
  if (mask.type)
    made.layout = made.function.getArgument(types.size() - 1);
  made.name = name;
  for (auto [i, path] : llvm::enumerate(made.paths))
    made.parameters[path] = made.function.getArgument(1 + i);
  layer = std::move(made);
  endFunction(layer->function, body(wrap(layer->function.getArgument(0))));
  made = std::move(*layer);
  layer.reset();
  return made;
}

Value ForwardBuilder::callLayer(const Layer &layer, int64_t number, Value x) {
  std::string path = layer.name + "." + std::to_string(number);
  SmallVector<Value> operands = {x};
  ArrayRef<Type> types = nn::FuncOp(layer.function).getArgumentTypes();
  for (auto [i, inner] : llvm::enumerate(layer.paths))
    operands.push_back(builder.create<nn::GetOp>(
        at(path + "." + inner), types[1 + i], path + "." + inner));
  if (layer.layout)
    operands.push_back(readLayout(number, at(path)));
  for (auto &[value, argument] : layer.outer)
    operands.push_back(value);
  if (layer.index)
    operands.insert(operands.begin() +
                        cast<BlockArgument>(layer.index).getArgNumber(),
                    indexConstant(number, path));
  auto call = builder.create<nn::CallOp>(at(path), layer.function, operands,
                                         builder.getStringAttr(path));
  return call.getResult(0);
}

Tensor
ForwardBuilder::layers(const std::string &name,
                       const std::vector<int64_t> &kinds, Tensor x,
                       const std::function<Tensor(Tensor, int64_t)> &body) {
  // Layers of the same kind whose layouts have the same sizes share a function.
  using Sizes = std::pair<int64_t, int64_t>; // Matrices and block.
  using Key = std::pair<int64_t, Sizes>;
  auto keyOf = [&](size_t number) -> Key {
    const layouts::AttentionLayout *layout = layoutOf(number);
    return {kinds[number],
            layout ? Sizes(layout->heads(), layout->blockSize()) : Sizes()};
  };
  std::map<Key, Layer> made;
  for (size_t number = 0; number < kinds.size(); ++number) {
    if (made.count(keyOf(number)))
      continue;
    SmallVector<int64_t> alike;
    for (size_t other = number; other < kinds.size(); ++other)
      if (keyOf(other) == keyOf(number))
        alike.push_back(other);
    std::string symbol = "block";
    if (!made.empty())
      symbol += "_" + std::to_string(made.size());
    made[keyOf(number)] =
        buildLayer(name, symbol, unwrap(x).getType(), maskOf(alike),
                   [&](Tensor y) { return body(y, kinds[number]); });
  }
  for (size_t number = 0; number < kinds.size(); ++number)
    x = wrap(callLayer(made[keyOf(number)], number, unwrap(x)));
  return x;
}

//===----------------------------------------------------------------------===//
// Layouts of attention
//===----------------------------------------------------------------------===//

const layouts::AttentionLayout *ForwardBuilder::layoutOf(int64_t number) const {
  return spec.layouts.empty() ? nullptr : spec.layouts[number].get();
}

ForwardBuilder::LayoutMask ForwardBuilder::maskOf(ArrayRef<int64_t> numbers) {
  const layouts::AttentionLayout *layout = layoutOf(numbers.front());
  if (!layout)
    return {};
  double sum = 0;
  for (int64_t number : numbers)
    sum += layoutOf(number)->density();
  return {typeOf(*layout), layout->blockSize(),
          builder.getF64FloatAttr(sum / double(numbers.size()))};
}

RankedTensorType
ForwardBuilder::typeOf(const layouts::AttentionLayout &layout) {
  return ints({layout.heads(), layout.blocks(), (layout.blocks() + 31) / 32});
}

Value ForwardBuilder::readLayout(int64_t number, Location place) {
  const layouts::AttentionLayout *layout = layoutOf(number);
  RankedTensorType type = typeOf(*layout);
  auto [known, isNew] =
      layoutStates.try_emplace(layout, config::layoutName(layoutStates.size()));
  if (isNew) {
    std::vector<int32_t> words = layout->toWords();
    auto states = OpBuilder::atBlockBegin(model.getBodyBlock());
    states
        .create<nn::StateOp>(place, known->second, nn::StateRole::Constant,
                             type)
        .setValueAttr(cast<DenseIntElementsAttr>(
            DenseElementsAttr::get(type, ArrayRef<int32_t>(words))));
  }
  return builder.create<nn::GetOp>(place, type, known->second);
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

Tensor ForwardBuilder::output(Tensor x, const std::string &path) {
  builder.create<nn::KeepOp>(at(path), use(x), path);
  return x;
}

Tensor ForwardBuilder::ids() {
  return wrap(input(nn::PortRole::Ids, ints({1, tokens})));
}

Tensor ForwardBuilder::segments() {
  return wrap(input(nn::PortRole::Segments, ints({1, tokens})));
}

Tensor ForwardBuilder::lengths() {
  return wrap(input(nn::PortRole::Lengths, ints({1})));
}

Tensor ForwardBuilder::positions(const std::string &path, int64_t first) {
  return wrap(builder.create<nn::PositionsOp>(
      at(path), ints({1, tokens}), /*first=*/Value(),
      builder.getI64IntegerAttr(first), /*shardings=*/ArrayAttr()));
}

Tensor ForwardBuilder::embedding(Tensor ids, const std::string &path,
                                 std::optional<int64_t> padding) {
  Value table = parameter(path + ".weight");
  int64_t width = cast<RankedTensorType>(table.getType()).getDimSize(1);
  auto paddingAttr =
      padding ? builder.getI64IntegerAttr(*padding) : IntegerAttr();
  Value made = builder.create<nn::EmbeddingOp>(
      at(path), hidden(width), table, use(ids), /*first=*/Value(), paddingAttr,
      /*shardings=*/ArrayAttr());
  return output(wrap(made), path);
}

Tensor ForwardBuilder::linear(Tensor x, Value weight, Value bias, bool outIn,
                              const std::string &path) {
  auto type = cast<RankedTensorType>(weight.getType());
  return wrap(builder.create<nn::LinearOp>(
      at(path), hidden(type.getDimSize(outIn ? 0 : 1)), use(x), weight, bias,
      /*init=*/Value(), outIn ? builder.getUnitAttr() : UnitAttr(),
      /*shardings=*/ArrayAttr()));
}

Tensor ForwardBuilder::inOrderOf(const config::ParameterSpec &weight,
                                 Tensor x) {
  if (weight.order.empty())
    return x;
  std::string path = weight.order;
  if (layer)
    path.erase(0, layer->name.size() + llvm::StringRef(".0.").size());
  Value input = use(x);
  Value &made = reordered[{input.getAsOpaquePointer(), path}];
  if (!made)
    made = builder.create<nn::ReorderOp>(at(path), input.getType(), input,
                                         parameter(path),
                                         /*shardings=*/ArrayAttr());
  return wrap(made);
}

Tensor ForwardBuilder::linear(Tensor x, const std::string &path) {
  std::string first = layer ? layer->name + ".0." : "";
  const config::ParameterSpec &spec =
      *parameters.lookup(first + path + ".weight");
  Value weight = parameter(path + ".weight"), bias = parameter(path + ".bias");
  Tensor input = inOrderOf(spec, x);
  return output(linear(input, weight, bias, spec.outIn, path), path);
}

Tensor ForwardBuilder::head(Tensor x, const std::string &weight,
                            const std::string &path) {
  const config::ParameterSpec *table = parameters.lookup(weight + ".weight");
  Value read =
      builder.create<nn::GetOp>(at(path), floats(table->shape), table->name);
  return linear(inOrderOf(*table, x), read, parameter(path + ".bias"),
                /*outIn=*/true, path);
}

Tensor ForwardBuilder::layerNorm(Tensor x, double eps,
                                 const std::string &path) {
  Value weight = parameter(path + ".weight"), bias = parameter(path + ".bias");
  Value input = use(x);
  auto type = cast<RankedTensorType>(input.getType());
  Type statistics = floats(type.getShape().drop_back());
  auto made = builder.create<nn::LayerNormOp>(
      at(path), type, statistics, statistics, input, weight, bias,
      builder.getF64FloatAttr(eps), /*shardings=*/ArrayAttr());
  return output(wrap(made.getOutput()), path);
}

Value ForwardBuilder::rmsNorm(Value x, Value weight, double eps,
                              const std::string &path) {
  auto type = cast<RankedTensorType>(x.getType());
  auto made = builder.create<nn::RmsNormOp>(
      at(path), type, floats(type.getShape().drop_back()), x, weight,
      builder.getF64FloatAttr(eps), /*shardings=*/ArrayAttr());
  return made.getOutput();
}

Tensor ForwardBuilder::rmsNorm(Tensor x, double eps, const std::string &path,
                               double offset) {
  Value weight = parameter(path + ".weight");
  if (offset != 0)
    weight = map(weight, path, [&](nn::Scalars &s, ValueRange w) {
      return s.add(w[0], s.real(offset));
    });
  return output(wrap(rmsNorm(use(x), weight, eps, path)), path);
}

Value ForwardBuilder::reshape(Value x, ArrayRef<int64_t> shape,
                              const std::string &path) {
  return builder.create<nn::ReshapeOp>(at(path), floats(shape), x,
                                       /*shardings=*/ArrayAttr());
}

Tensor ForwardBuilder::headNorm(Tensor x, int64_t heads, double eps,
                                const std::string &path) {
  Value input = use(x);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(input.getType()).getShape();
  Value split =
      reshape(input, {shape[0], shape[1], heads, shape[2] / heads}, path);
  Value made = rmsNorm(split, parameter(path + ".weight"), eps, path);
  return output(wrap(reshape(made, shape, path)), path);
}

Value ForwardBuilder::map(
    ValueRange inputs, const std::string &path,
    llvm::function_ref<Value(nn::Scalars &, ValueRange)> body) {
  return nn::buildMap(builder, at(path), inputs, body);
}

Tensor ForwardBuilder::scale(Tensor x, double factor, const std::string &path) {
  Value input = use(x);
  // The scale factor is a tensor instead of a constant in nn.map, so that
  // passes that lower the model's precision round the factor, too.
  Value number = builder.create<nn::FillOp>(at(path), floats({}),
                                            builder.getF64FloatAttr(factor),
                                            /*shardings=*/ArrayAttr());
  return wrap(map({input, number}, path, [](nn::Scalars &s, ValueRange v) {
    return s.mul(v[0], v[1]);
  }));
}

Tensor ForwardBuilder::softcap(Tensor x, double cap, const std::string &path) {
  return wrap(map(use(x), path, [&](nn::Scalars &s, ValueRange v) {
    Value share = s.mul(v[0], s.real(1 / cap));
    return s.mul(s.real(cap), s.create<math::TanhOp>(share));
  }));
}

Tensor ForwardBuilder::rotary(Tensor x, Tensor positions, int64_t heads,
                              const config::Rotary &rotary,
                              const std::string &path) {
  using Ramp = config::Rotary::Ramp;
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  nn::RotaryScalingAttr scaling;
  if (rotary.ramp != Ramp::None) {
    nn::RotaryRamp ramp = rotary.ramp == Ramp::All     ? nn::RotaryRamp::All
                          : rotary.ramp == Ramp::Pairs ? nn::RotaryRamp::Pairs
                                                       : nn::RotaryRamp::Rates;
    scaling = nn::RotaryScalingAttr::get(
        builder.getContext(), ramp, number(rotary.factor), number(rotary.low),
        number(rotary.high), number(rotary.magnitude));
  }
  Value input = use(x);
  return wrap(builder.create<nn::RotaryOp>(
      at(path), input.getType(), input, use(positions),
      builder.getI64IntegerAttr(heads), builder.getI64IntegerAttr(rotary.dims),
      number(rotary.theta), scaling, /*inverse=*/UnitAttr(),
      /*shardings=*/ArrayAttr()));
}

Tensor ForwardBuilder::multiply(Tensor x, Tensor y, const std::string &path) {
  Value left = use(x), right = use(y);
  return wrap(builder.create<nn::MulOp>(at(path), left.getType(), left, right,
                                        /*shardings=*/ArrayAttr()));
}

Tensor ForwardBuilder::activation(Tensor x, const std::string &function,
                                  const std::string &path) {
  auto made = builder.create<nn::MapOp>(at(path), function, ValueRange(use(x)));
  return output(wrap(made.getResult(0)), path);
}

ForwardBuilder::Random ForwardBuilder::random(const std::string &path) {
  Value rng = input(nn::PortRole::Rng, ints({4}));
  Value microBatch = input(nn::PortRole::MicroBatch, builder.getIndexType());
  if (!layer)
    return {rng, indexConstant(0, path), microBatch};
  // Each of these three calls of `use` may add an argument to the layer's
  // function. Keep their order: it decides the order of the function's
  // arguments, and thus the IR that users and tests see.
  rng = use(rng);
  if (!layer->index)
    layer->index = layer->function.getBody().addArgument(
        builder.getIndexType(), layer->function.getLoc());
  return {rng, layer->index, use(microBatch)};
}

Tensor ForwardBuilder::dropout(Tensor x, double p, const std::string &path) {
  if (p == 0)
    return x;
  Random given = random(path);
  Value input = use(x);
  return wrap(builder.create<nn::DropoutOp>(
      at(path), input.getType(), input, given.rng, given.layer,
      given.microBatch, /*part=*/ValueRange(), builder.getF64FloatAttr(p),
      builder.getI32IntegerAttr(siteOf(path)),
      /*parts=*/DenseI64ArrayAttr(), /*inner=*/DenseI64ArrayAttr(),
      /*shardings=*/ArrayAttr()));
}

Tensor ForwardBuilder::attention(const std::vector<Tensor> &qkv,
                                 const config::AttentionShape &shape,
                                 const std::string &path, Tensor lengths) {
  auto operands = llvm::map_to_vector(qkv, [&](Tensor x) { return use(x); });
  int64_t width = cast<RankedTensorType>(operands[0].getType()).getDimSize(2);
  if (operands.size() == 1)
    width = width / (shape.heads + 2 * shape.kvHeads) * shape.heads;
  if (shape.window > 0 && layer && layer->layout)
    fail("H0143",
         "the attention of " + fullPath(path) +
             " has a sliding window of its family, and a layout",
         "give layouts only to layers without a window, by patterns as in "
         "--attention-layout 'h.1=FILE'");
  MLIRContext *context = builder.getContext();
  Random given;
  nn::DropoutAttr dropout;
  if (shape.dropout > 0) {
    given = random(path);
    dropout =
        nn::DropoutAttr::get(context, shape.dropout, siteOf(shape.dropoutPath));
  }
  auto made = builder.create<nn::AttentionOp>(
      at(path), hidden(width), floats({1, shape.heads, tokens}), operands,
      lengths.value ? use(lengths) : Value(), layer ? layer->layout : Value(),
      given.rng, given.layer, given.microBatch, /*part=*/Value(),
      /*place=*/Value(), /*turn=*/Value(),
      nn::HeadsAttr::get(context, shape.heads, shape.kvHeads, shape.scale,
                         shape.softcap),
      nn::MaskAttr::get(
          context, shape.causal ? nn::MaskKind::Causal : nn::MaskKind::Full,
          shape.window, layer ? layer->mask.block : 0,
          layer ? layer->mask.density : FloatAttr()),
      dropout, /*placement=*/nn::PlacementAttr(), /*shardings=*/ArrayAttr());
  return wrap(made.getOutput());
}

Tensor ForwardBuilder::add(Tensor x, Tensor y, const std::string &path) {
  Value left = use(x), right = use(y);
  return wrap(builder.create<nn::AddOp>(at(path), left.getType(), left, right,
                                        /*shardings=*/ArrayAttr()));
}
