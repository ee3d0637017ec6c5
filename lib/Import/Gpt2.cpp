//===- Gpt2.cpp - Builds the functions of a GPT-2 model -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pre-norm decoder blocks over learned positions (Radford et al., 2019), with
// the names of Hugging Face's modules as locations.
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"
#include <cmath>

using namespace heddle;
using namespace mlir;

namespace {

/// Which instance of the block a function is: calls that agree share one.
struct BlockVariant {
  int64_t batch = 0;
  bool dropout = false;
  std::vector<std::string> kept; ///< Module paths within the block.
  bool whole = false;            ///< No rank has a part of the tokens.
  bool operator<(const BlockVariant &other) const {
    return std::tie(batch, dropout, kept, whole) <
           std::tie(other.batch, other.dropout, other.kept, other.whole);
  }
};

using Role = nn::PortRole;

/// The random numbers' operands; null when there is no dropout.
struct Random {
  Value rng, layer, microBatch;
};

/// What a program asks of the shared parts.
struct Program {
  nn::ProgramKind kind;
  int64_t batch = 0;
  bool dropout = false;
  bool keeps = false; ///< Honour --keep.
  Random random;      ///< `layer` is not used.
};

constexpr llvm::StringRef blockParameters[] = {
    "ln_1.weight",      "ln_1.bias",          "attn.c_attn.weight",
    "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
    "ln_2.weight",      "ln_2.bias",          "mlp.c_fc.weight",
    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};

constexpr llvm::StringRef blockPaths[] = {
    "ln_1",     "attn.c_attn", "attn.c_proj", "attn", "ln_2",
    "mlp.c_fc", "mlp.act",     "mlp.c_proj",  "mlp"};

constexpr llvm::StringRef modelPaths[] = {"wte", "wpe", "drop", "ln_f"};

class Gpt2Builder {
public:
  Gpt2Builder(ModelWriter &writer, const config::Gpt2Config &config)
      : writer(writer), b(writer.builder), config(config),
        seq(writer.strategy.seq) {}

  bool build();

private:
  bool hasDropout() const {
    return config.residDropout > 0 || config.embedDropout > 0 ||
           config.attnDropout > 0;
  }
  void buildTrain();
  void buildEval();
  void buildGenerate();

  /// The block's function, made when it is first asked for.
  nn::FuncOp block(const BlockVariant &variant, nn::ProgramKind program);
  /// Fills the body of a block; the kept values by path.
  Value blockBody(const BlockVariant &variant, Block &body,
                  llvm::StringMap<Value> &outputs);
  Value attention(Value input, Value weight, Value bias, const Random &random,
                  llvm::StringMap<Value> &outputs);
  Value activation(Value input);
  Value dropout(Value input, double p, const Random &random,
                llvm::StringRef path, llvm::StringRef locationPath);
  Value layerNorm(Value input, Value weight, Value bias, llvm::StringRef path);
  Value linear(Value input, Value weight, Value bias, llvm::StringRef path);

  /// Embeddings and blocks: what `ln_f` reads.
  Value trunk(Value ids, const Program &program);
  Value callBlock(Value x, int64_t layer, const Program &program);
  /// ln_f and the head.
  Value head(Value x, const Program &program);
  void keep(Value value, llvm::StringRef path, const Program &program);

  ModelWriter &writer;
  OpBuilder &b;
  const config::Gpt2Config &config;
  int64_t seq;
  KeptPaths kept;
  std::map<BlockVariant, nn::FuncOp> blocks;
};

} // namespace

static std::string inBlock(llvm::StringRef path) {
  return ("h.*." + path).str();
}

//===----------------------------------------------------------------------===//
// The block
//===----------------------------------------------------------------------===//

Value Gpt2Builder::layerNorm(Value input, Value weight, Value bias,
                             llvm::StringRef path) {
  auto type = cast<RankedTensorType>(input.getType());
  Type statistics = writer.floats(type.getShape().drop_back());
  return b
      .create<nn::LayerNormOp>(writer.at(path), type, statistics, statistics,
                               input, weight, bias,
                               b.getF64FloatAttr(config.layerNormEps),
                               /*shardings=*/ArrayAttr())
      .getOutput();
}

Value Gpt2Builder::linear(Value input, Value weight, Value bias,
                          llvm::StringRef path) {
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(input.getType()).getShape());
  shape.back() = cast<RankedTensorType>(weight.getType()).getDimSize(1);
  return b.create<nn::LinearOp>(writer.at(path), writer.floats(shape), input,
                                weight, bias, /*transposed=*/UnitAttr(),
                                /*shardings=*/ArrayAttr());
}

Value Gpt2Builder::dropout(Value input, double p, const Random &random,
                           llvm::StringRef path, llvm::StringRef locationPath) {
  if (p == 0 || !random.rng)
    return input;
  return b.create<nn::DropoutOp>(
      writer.at(locationPath), input.getType(), input, random.rng, random.layer,
      random.microBatch, /*part=*/ValueRange(), b.getF64FloatAttr(p),
      b.getI32IntegerAttr(int32_t(ModelWriter::siteOf(path))),
      /*parts=*/DenseI64ArrayAttr(), /*inner=*/DenseI64ArrayAttr(),
      /*shardings=*/ArrayAttr());
}

Value Gpt2Builder::attention(Value input, Value weight, Value bias,
                             const Random &random,
                             llvm::StringMap<Value> &outputs) {
  Value qkv = linear(input, weight, bias, inBlock("attn.c_attn"));
  outputs["attn.c_attn"] = qkv;
  auto type = cast<RankedTensorType>(input.getType());
  Type lse = writer.floats({type.getDimSize(0), config.heads, seq});
  double headSize = double(config.embed / config.heads);
  double scale = config.scaleAttention ? 1.0 / std::sqrt(headSize) : 1.0;
  bool drops = config.attnDropout > 0 && random.rng;
  uint32_t site = drops ? ModelWriter::siteOf("attn.attn_dropout") : 0;
  return b
      .create<nn::AttentionOp>(
          writer.at(inBlock("attn")), type, lse, ValueRange(qkv),
          drops ? random.rng : Value(), drops ? random.layer : Value(),
          drops ? random.microBatch : Value(), /*part=*/Value(),
          /*place=*/Value(), /*turn=*/Value(),
          b.getI64IntegerAttr(config.heads), b.getI64IntegerAttr(config.heads),
          b.getF64FloatAttr(scale), /*causal=*/b.getUnitAttr(),
          b.getF64FloatAttr(drops ? config.attnDropout : 0.0),
          b.getI32IntegerAttr(int32_t(site)), /*parts=*/IntegerAttr(),
          /*places=*/IntegerAttr(), /*ring=*/UnitAttr(),
          /*shardings=*/ArrayAttr())
      .getOutput();
}

Value Gpt2Builder::activation(Value input) {
  return b
      .create<nn::MapOp>(writer.at(inBlock("mlp.act")), config.activation,
                         ValueRange(input))
      .getResult(0);
}

Value Gpt2Builder::blockBody(const BlockVariant &variant, Block &body,
                             llvm::StringMap<Value> &outputs) {
  auto parameter = [&](unsigned index) { return body.getArgument(1 + index); };
  Random random;
  if (variant.dropout) {
    unsigned first = 1 + std::size(blockParameters);
    random = {body.getArgument(first), body.getArgument(first + 1),
              body.getArgument(first + 2)};
  }
  Value x = body.getArgument(0);
  Value normed = layerNorm(x, parameter(0), parameter(1), inBlock("ln_1"));
  outputs["ln_1"] = normed;
  Value mixed = attention(normed, parameter(2), parameter(3), random, outputs);
  Value projected =
      linear(mixed, parameter(4), parameter(5), inBlock("attn.c_proj"));
  outputs["attn.c_proj"] = projected;
  Value attended = dropout(projected, config.residDropout, random,
                           "attn.resid_dropout", inBlock("attn.resid_dropout"));
  outputs["attn"] = attended;
  x = b.create<nn::AddOp>(writer.at("h.*"), x.getType(), x, attended,
                          /*shardings=*/ArrayAttr());
  normed = layerNorm(x, parameter(6), parameter(7), inBlock("ln_2"));
  outputs["ln_2"] = normed;
  Value inner = linear(normed, parameter(8), parameter(9), inBlock("mlp.c_fc"));
  outputs["mlp.c_fc"] = inner;
  Value active = activation(inner);
  outputs["mlp.act"] = active;
  Value outer =
      linear(active, parameter(10), parameter(11), inBlock("mlp.c_proj"));
  outputs["mlp.c_proj"] = outer;
  Value dropped = dropout(outer, config.residDropout, random, "mlp.dropout",
                          inBlock("mlp.dropout"));
  outputs["mlp"] = dropped;
  return b.create<nn::AddOp>(writer.at("h.*"), x.getType(), x, dropped,
                             /*shardings=*/ArrayAttr());
}

nn::FuncOp Gpt2Builder::block(const BlockVariant &variant,
                              nn::ProgramKind program) {
  nn::FuncOp &function = blocks[variant];
  if (function)
    return function;
  OpBuilder::InsertionGuard guard(b);
  RankedTensorType x = writer.floats({variant.batch, seq, config.embed});
  int64_t c = config.embed, inner = config.inner;
  SmallVector<Type> arguments = {x};
  const SmallVector<int64_t> shapes[] = {
      {c}, {c}, {c, 3 * c}, {3 * c}, {c, c},     {c},
      {c}, {c}, {c, inner}, {inner}, {inner, c}, {c}};
  for (const SmallVector<int64_t> &shape : shapes)
    arguments.push_back(writer.floats(shape));
  if (variant.dropout)
    arguments.append({writer.rngType(), b.getIndexType(), b.getIndexType()});
  std::string name = "block";
  if (!variant.kept.empty())
    name += ".keep" + std::to_string(blocks.size());
  else if (program != nn::ProgramKind::Train)
    name += "." + stringifyProgramKind(program).str();
  // The results' types are known when the body is there.
  function = writer.beginFunction(name, arguments, {x}, "h.*");
  llvm::StringMap<Value> outputs;
  SmallVector<Value> results = {
      blockBody(variant, function.getBody().front(), outputs)};
  for (const std::string &path : variant.kept)
    results.push_back(outputs.lookup(path));
  b.create<nn::ReturnOp>(writer.at("h.*"), results);
  function.setFunctionTypeAttr(TypeAttr::get(
      b.getFunctionType(arguments, ValueRange(results).getTypes())));
  return function;
}

//===----------------------------------------------------------------------===//
// The whole model
//===----------------------------------------------------------------------===//

void Gpt2Builder::keep(Value value, llvm::StringRef path,
                       const Program &program) {
  if (program.keeps)
    b.create<nn::KeepOp>(writer.at(path), value, path);
}

Value Gpt2Builder::callBlock(Value x, int64_t layer, const Program &program) {
  std::string path = "h." + std::to_string(layer);
  // Ranks share out the rows and tokens of other programs.
  const dist::Strategy &strategy = writer.strategy;
  bool whole = program.kind == nn::ProgramKind::Generate &&
               strategy.data * strategy.sequence * strategy.tensor > 1;
  BlockVariant variant{program.batch, program.dropout, {}, whole};
  bool keepsOutput = false;
  if (auto found = kept.layers.find(layer);
      program.keeps && found != kept.layers.end()) {
    for (const std::string &inner : found->second)
      if (inner.empty())
        keepsOutput = true;
      else
        variant.kept.push_back(inner);
    llvm::sort(variant.kept);
  }
  nn::FuncOp callee = block(variant, program.kind);
  SmallVector<Value> operands = {x};
  for (llvm::StringRef parameter : blockParameters)
    operands.push_back(
        writer.get(path + "." + parameter.str(), path + "." + parameter.str()));
  if (program.dropout)
    operands.append({program.random.rng, writer.indexConstant(layer, path),
                     program.random.microBatch});
  auto call = b.create<nn::CallOp>(
      writer.at(path), callee.getResultTypes(), callee.getSymName(), operands,
      path, /*recompute=*/StringAttr(), /*arg_attrs=*/ArrayAttr(),
      /*res_attrs=*/ArrayAttr());
  for (auto [index, inner] : llvm::enumerate(variant.kept))
    keep(call.getResult(index + 1), path + "." + inner, program);
  if (keepsOutput)
    keep(call.getResult(0), path, program);
  return call.getResult(0);
}

Value Gpt2Builder::trunk(Value ids, const Program &program) {
  RankedTensorType hidden = writer.floats({program.batch, seq, config.embed});
  ArrayAttr none;
  Value tokens = b.create<nn::EmbeddingOp>(writer.at("wte"), hidden,
                                           writer.get("wte.weight", "wte"), ids,
                                           /*first=*/Value(), none);
  if (kept.model.contains("wte"))
    keep(tokens, "wte", program);
  Value numbers = b.create<nn::PositionsOp>(
      writer.at("wpe"), writer.ints({program.batch, seq}),
      /*first=*/Value(), b.getI64IntegerAttr(0), none);
  Value positions = b.create<nn::EmbeddingOp>(
      writer.at("wpe"), hidden, writer.get("wpe.weight", "wpe"), numbers,
      /*first=*/Value(), none);
  if (kept.model.contains("wpe"))
    keep(positions, "wpe", program);
  Value x =
      b.create<nn::AddOp>(writer.at("wpe"), hidden, tokens, positions, none);
  Random random = program.random;
  if (program.dropout && config.embedDropout > 0) {
    random.layer = writer.indexConstant(0, "drop");
    x = dropout(x, config.embedDropout, random, "drop", "drop");
  }
  if (kept.model.contains("drop"))
    keep(x, "drop", program);
  for (int64_t layer = 0; layer < config.layers; ++layer)
    x = callBlock(x, layer, program);
  return x;
}

Value Gpt2Builder::head(Value x, const Program &program) {
  Value scale = writer.get("ln_f.weight", "ln_f");
  Value shift = writer.get("ln_f.bias", "ln_f");
  x = layerNorm(x, scale, shift, "ln_f");
  if (kept.model.contains("ln_f"))
    keep(x, "ln_f", program);
  SmallVector<int64_t> shape(cast<RankedTensorType>(x.getType()).getShape());
  shape.back() = config.vocabSize;
  Value weight =
      writer.get(config.tied ? "wte.weight" : "lm_head.weight", "lm_head");
  return b.create<nn::LinearOp>(writer.at("lm_head"), writer.floats(shape), x,
                                weight, /*bias=*/Value(),
                                /*transposed=*/b.getUnitAttr(),
                                /*shardings=*/ArrayAttr());
}

void Gpt2Builder::buildTrain() {
  Program program{
      nn::ProgramKind::Train, writer.rows(), hasDropout(), true, {}};
  RankedTensorType ids = writer.ints({program.batch, seq});
  RankedTensorType losses = writer.floats({program.batch, seq});
  SmallVector<Type> arguments = {ids, ids};
  SmallVector<Role> inputs = {Role::Ids, Role::Labels};
  if (program.dropout) {
    arguments.append({writer.rngType(), b.getIndexType()});
    inputs.append({Role::Rng, Role::MicroBatch});
  }
  SmallVector<Type> results = {losses};
  SmallVector<Role> outputs = {Role::Losses};
  if (kept.logits) {
    results.push_back(writer.floats({program.batch, seq, config.vocabSize}));
    outputs.push_back(Role::Logits);
  }
  nn::FuncOp function =
      writer.beginFunction("forward", arguments, results, "gpt2");
  writer.setProgram(function, program.kind, inputs, outputs);
  Block &body = function.getBody().front();
  if (program.dropout)
    program.random = {body.getArgument(2), Value(), body.getArgument(3)};
  Value logits = head(trunk(body.getArgument(0), program), program);
  auto loss = b.create<nn::CrossEntropyOp>(writer.at("loss"), losses, losses,
                                           logits, body.getArgument(1),
                                           /*shardings=*/ArrayAttr());
  SmallVector<Value> returned = {loss.getLosses()};
  if (kept.logits)
    returned.push_back(logits);
  b.create<nn::ReturnOp>(writer.at("loss"), returned);
}

void Gpt2Builder::buildEval() {
  Program program{nn::ProgramKind::Eval, writer.rows(), false, false, {}};
  RankedTensorType ids = writer.ints({program.batch, seq});
  RankedTensorType losses = writer.floats({program.batch, seq});
  nn::FuncOp function =
      writer.beginFunction("evaluate", {ids, ids}, {losses}, "gpt2");
  writer.setProgram(function, program.kind, {Role::Ids, Role::Labels},
                    {Role::Losses});
  Block &body = function.getBody().front();
  Value logits = head(trunk(body.getArgument(0), program), program);
  auto loss = b.create<nn::CrossEntropyOp>(writer.at("loss"), losses, losses,
                                           logits, body.getArgument(1),
                                           /*shardings=*/ArrayAttr());
  b.create<nn::ReturnOp>(writer.at("loss"), ValueRange(loss.getLosses()));
}

void Gpt2Builder::buildGenerate() {
  Program program{nn::ProgramKind::Generate, 1, false, false, {}};
  RankedTensorType ids = writer.ints({1, seq});
  RankedTensorType logitsType = writer.floats({1, 1, config.vocabSize});
  nn::FuncOp function = writer.beginFunction("generate", {ids, writer.ints({})},
                                             {logitsType}, "gpt2");
  writer.setProgram(function, program.kind, {Role::Ids, Role::Position},
                    {Role::Logits});
  Block &body = function.getBody().front();
  Value x = trunk(body.getArgument(0), program);
  // Only the last position's logits are asked for: the head sees one row.
  Value row = b.create<nn::TakeRowOp>(
      writer.at("lm_head"), writer.floats({1, 1, config.embed}), x,
      body.getArgument(1), /*shardings=*/ArrayAttr());
  b.create<nn::ReturnOp>(writer.at("lm_head"), head(row, program));
}

bool Gpt2Builder::build() {
  if (!sortKeptPaths(*writer.context(), writer.strategy.keep, "transformer.",
                     "h", config.layers, blockPaths, modelPaths, kept))
    return false;
  buildTrain();
  buildEval();
  buildGenerate();
  return true;
}

bool heddle::buildGpt2(ModelWriter &writer, const config::Gpt2Config &config) {
  return Gpt2Builder(writer, config).build();
}
