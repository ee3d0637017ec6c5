//===- AddCache.cpp - Attention over a cache in programs that serve -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds key-value caches to programs that compute a part of a sequence at a
// time, for serving. The attention of such a program writes its keys and values
// into a cache, and reads the keys and values of all earlier tokens from the
// cache. A layer gets the caches of its attention operations as arguments and
// returns their new values.
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "dialects/Dist/ComputeType.h"
#include "heddle/PlanFormat/CachePages.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/Plan.h"
#include "heddle/Settings/Groups.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Import/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <map>

using namespace mlir;
using namespace heddle;
using nn::PortRole;

namespace heddle {
#define GEN_PASS_DEF_IMPORTADDCACHE
#include "include/heddle/Transforms/Import/Passes.h.inc"
} // namespace heddle

namespace {

/// The shape of the cache of one attention operation.
struct CacheShape {
  std::string path; ///< Its path within the function; "" for the first one.
  int64_t heads, dims;
};

/// The tensors of a cache: keys, values and, with an int8 cache, their scales.
using CacheValues = SmallVector<Value, 3>;
constexpr StringLiteral cacheNames[] = {"keys", "values", "scales"};

/// The inputs that paged attention needs besides the cache. They are the
/// indices of each row's pages, the positions of the tokens, and the lengths of
/// the rows.
struct CacheInputs {
  Value pages, positions, lengths;
};

/// Gives a key-value cache to the attention of programs that serve.
class CacheAdder {
public:
  /// `pages` is the number of pages of the cache. If it is 0, choosePages
  /// computes the number from the settings.
  CacheAdder(nn::ModelOp model, int64_t pages)
      : model(model), symbols(model), builder(model.getContext()),
        strategy(model.getStrategy().getValue()), pages(pages) {}

  LogicalResult run();

private:
  int64_t pagesOfSequence(ArrayRef<nn::FuncOp> programs);
  LogicalResult choosePages(ArrayRef<nn::FuncOp> programs);
  void rewriteProgram(nn::FuncOp program);
  const SmallVector<CacheShape> &rewriteLayer(nn::FuncOp layer);
  SmallVector<CacheShape> findCaches(nn::FuncOp function);
  RankedTensorType tokensOf(nn::FuncOp layer);
  void
  rewriteBody(nn::FuncOp function, CacheInputs inputs,
              llvm::function_ref<CacheValues(Operation *, StringRef)> read,
              llvm::function_ref<void(StringRef, const CacheValues &)> write);
  CacheValues rewriteAttention(nn::AttentionOp attention, CacheInputs inputs,
                               const CacheValues &cache);
  void replacePositions(nn::PositionsOp positions, Value given);
  SmallVector<RankedTensorType> typesOf(const CacheShape &shape);
  nn::StateOp stateOf(const Twine &name, Type type);

  nn::ModelOp model;
  SymbolTable symbols;
  OpBuilder builder;
  const dist::Strategy strategy;
  int64_t pages;
  std::map<Operation *, SmallVector<CacheShape>> layers;
};

} // namespace

/// Whether the function is a program that computes a part of a sequence and has
/// no cache yet.
static bool lacksCache(nn::FuncOp function) {
  if (!function.getProgram())
    return false;
  for (auto port : function.getInputsAttr().getAsRange<nn::PortAttr>())
    if (port.getRole() == PortRole::Pages)
      return false;
  switch (*function.getProgram()) {
  case nn::ProgramKind::Prefill:
  case nn::ProgramKind::Score:
  case nn::ProgramKind::Decode:
    return true;
  default:
    return false;
  }
}

//===----------------------------------------------------------------------===//
// The caches of a function
//===----------------------------------------------------------------------===//

SmallVector<CacheShape> CacheAdder::findCaches(nn::FuncOp function) {
  auto known = layers.find(function);
  if (known != layers.end())
    return known->second;
  SmallVector<CacheShape> caches;
  function.walk([&](Operation *op) {
    if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
      std::string path =
          caches.empty() ? "" : std::to_string(caches.size()) + ".";
      auto interface = cast<nn::AttentionOpInterface>(op);
      caches.push_back(
          {path, attention.getHeads().getKv(), interface.getHeadDim()});
    }
    if (auto call = dyn_cast<nn::CallOp>(op))
      for (CacheShape shape :
           findCaches(symbols.lookup<nn::FuncOp>(call.getCallee()))) {
        shape.path = (call.getPath() + "." + shape.path).str();
        caches.push_back(shape);
      }
  });
  return caches;
}

/// The number of pages that the longest sequence needs. If every layer has
/// sliding-window attention, fewer pages are needed: a page is reused as soon
/// as no window contains any of its tokens.
int64_t CacheAdder::pagesOfSequence(ArrayRef<nn::FuncOp> programs) {
  plan::CachePages sizes = {plan::cachePageTokens, /*window=*/0};
  bool seesAll = false;
  model.walk([&](nn::AttentionOp attention) {
    sizes.window = std::max(sizes.window, attention.getMask().getWindow());
    seesAll |= attention.getMask().getWindow() == 0;
  });
  if (seesAll)
    sizes.window = 0;
  int64_t chunk = 1;
  for (nn::FuncOp program : programs) {
    auto ids = cast<RankedTensorType>(program.getArgumentTypes()[0]);
    chunk = std::max(chunk, ids.getDimSize(1));
  }
  return sizes.mostOf(strategy.maxContext, chunk);
}

/// Sets the number of pages. With `--kv-cache` the cache has as many pages as
/// fit into the given memory. Otherwise it has enough pages for all sequences
/// that a group of ranks generates at a time, each with the greatest length.
/// Fails (H0204, H0205) if not even one sequence fits.
LogicalResult CacheAdder::choosePages(ArrayRef<nn::FuncOp> programs) {
  int64_t pageBytes = 0, given = std::exchange(pages, 1);
  for (const CacheShape &cache : findCaches(programs.front()))
    for (RankedTensorType type : typesOf(cache))
      pageBytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
  int64_t ofSequence = pagesOfSequence(programs);
  pages = given > 0 ? given
          : strategy.cacheBytes == 0
              ? ofSequence * config::textsOfGroup(strategy)
              : strategy.cacheBytes / pageBytes;
  if (pages >= ofSequence)
    return success();
  if (given > 0) {
    InFlightDiagnostic error = model.emitError("H0205: a cache of ")
                               << pages << " pages has no room for a text of "
                               << strategy.maxContext << " tokens, which needs "
                               << ofSequence << " where no window lets them go";
    error.attachNote() << "help: use a draft whose windows are no larger than "
                          "its target's, or a larger --kv-cache";
    return error;
  }
  InFlightDiagnostic error = model.emitError("H0204: a cache of ")
                             << plan::formatExactBytes(strategy.cacheBytes)
                             << " has no room for a text of "
                             << strategy.maxContext << " tokens, which needs "
                             << plan::formatExactBytes(ofSequence * pageBytes);
  error.attachNote() << "help: give it --kv-cache " << ofSequence * pageBytes
                     << ", or a smaller --max-context";
  return error;
}

static Type elementOf(config::CacheType type, OpBuilder &builder) {
  if (type == config::CacheType::Int8)
    return builder.getI8Type();
  for (const dist::ComputeType &each : dist::computeTypes())
    if (each.cache == type)
      return each.get(builder.getContext());
  return builder.getF32Type();
}

/// The types of the cache's states, in the order of `cacheNames`. NNCacheOps.td
/// explains their layout.
SmallVector<RankedTensorType> CacheAdder::typesOf(const CacheShape &shape) {
  constexpr int64_t tokens = plan::cachePageTokens;
  Type element = elementOf(strategy.cacheType, builder);
  SmallVector<RankedTensorType> types = {
      RankedTensorType::get({pages, shape.heads, shape.dims, tokens}, element),
      RankedTensorType::get({pages, shape.heads, tokens, shape.dims}, element)};
  if (strategy.cacheType == config::CacheType::Int8)
    types.push_back(RankedTensorType::get({pages, shape.heads, 2, tokens},
                                          builder.getF16Type()));
  return types;
}

nn::StateOp CacheAdder::stateOf(const Twine &name, Type type) {
  std::string symbol = name.str();
  if (auto known = symbols.lookup<nn::StateOp>(symbol))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  Operation *last = nullptr;
  for (auto state : model.getOps<nn::StateOp>())
    last = state;
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(model.getBodyBlock());
  auto state =
      builder.create<nn::StateOp>(NameLoc::get(builder.getStringAttr(symbol)),
                                  symbol, nn::StateRole::Cache, type);
  symbols.insert(state);
  return state;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Inserts an operation that writes the new keys and values into the cache, and
/// replaces the attention by paged attention, which reads the cache. Returns
/// the cache after the write.
CacheValues CacheAdder::rewriteAttention(nn::AttentionOp attention,
                                         CacheInputs inputs,
                                         const CacheValues &cache) {
  builder.setInsertionPoint(attention);
  Location loc = attention.getLoc();
  Value scales = cache.size() > 2 ? cache[2] : Value();
  auto write = builder.create<nn::CacheWriteOp>(
      loc, cache[0].getType(), cache[1].getType(),
      scales ? scales.getType() : Type(), cache[0], cache[1], scales,
      attention.getQkv(), inputs.pages, inputs.positions, inputs.lengths,
      attention.getHeadsAttr(), /*shardings=*/ArrayAttr());
  auto paged = builder.create<nn::PagedAttentionOp>(
      loc, attention.getOutput().getType(), write.getNewKeys(),
      write.getNewValues(), write.getNewScales(), attention.getQkv(),
      inputs.pages, inputs.positions, inputs.lengths, attention.getHeadsAttr(),
      attention.getLayout(), attention.getPart(), attention.getMaskAttr(),
      /*inParts=*/UnitAttr(),
      /*shardings=*/ArrayAttr());
  attention.getOutput().replaceAllUsesWith(paged.getOutput());
  attention.erase();
  builder.setInsertionPointAfter(paged);
  return CacheValues(write.getResults());
}

/// Replaces an nn.positions by `given`, the program's input of positions. The
/// nn.positions may add an offset to the positions, but `given` has no offset.
/// So each embedding that reads the nn.positions adds the offset itself: the
/// first row of its table gets the index -offset.
void CacheAdder::replacePositions(nn::PositionsOp positions, Value given) {
  auto offset = static_cast<int64_t>(positions.getOffset());
  for (Operation *user : positions.getOutput().getUsers()) {
    auto embedding = dyn_cast<nn::EmbeddingOp>(user);
    if (offset == 0 || !embedding || embedding.getFirst())
      continue;
    builder.setInsertionPoint(embedding);
    embedding.getFirstMutable().assign(
        builder.create<arith::ConstantIndexOp>(positions.getLoc(), -offset));
  }
  positions.getOutput().replaceAllUsesWith(given);
  positions.erase();
}

/// Rewrites the attention, calls and positions of a function. A cache has a
/// path, which names the layer calls that lead to its attention. `read(op,
/// path)` must return the value that the cache at `path` has before the
/// attention or call `op`. `write(path, values)` receives the cache's new
/// value, which `op` returns.
void CacheAdder::rewriteBody(
    nn::FuncOp function, CacheInputs inputs,
    llvm::function_ref<CacheValues(Operation *, StringRef)> read,
    llvm::function_ref<void(StringRef, const CacheValues &)> write) {
  int64_t number = 0;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto positions = dyn_cast<nn::PositionsOp>(op)) {
      replacePositions(positions, inputs.positions);
    } else if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
      std::string path = number ? std::to_string(number) + "." : "";
      ++number;
      CacheValues cache = read(attention, path);
      write(path, rewriteAttention(attention, inputs, cache));
    } else if (auto call = dyn_cast<nn::CallOp>(op)) {
      auto layer = symbols.lookup<nn::FuncOp>(call.getCallee());
      const SmallVector<CacheShape> &caches = rewriteLayer(layer);
      if (caches.empty())
        continue;
      SmallVector<Value> operands(call.getOperands());
      for (const CacheShape &cache : caches)
        llvm::append_range(
            operands, read(call, (call.getPath() + "." + cache.path).str()));
      operands.append({inputs.pages, inputs.positions, inputs.lengths});
      builder.setInsertionPoint(call);
      auto made = builder.create<nn::CallOp>(call.getLoc(), layer, operands,
                                             call.getPathAttr(),
                                             call.getRecomputeAttr());
      unsigned results = call.getNumResults();
      call.replaceAllUsesWith(made.getResults().take_front(results));
      ValueRange written = made.getResults().drop_front(results);
      size_t each = written.size() / caches.size();
      for (auto [index, cache] : llvm::enumerate(caches))
        write((call.getPath() + "." + cache.path).str(),
              CacheValues(written.slice(each * index, each)));
      number += static_cast<int64_t>(caches.size());
      call.erase();
    }
  }
}

/// The type [rows, tokens, features] of the results of the attention in a
/// layer.
RankedTensorType CacheAdder::tokensOf(nn::FuncOp layer) {
  for (Operation &op : layer.getBody().front()) {
    if (auto attention = dyn_cast<nn::AttentionOp>(op))
      return attention.getOutput().getType();
    if (auto call = dyn_cast<nn::CallOp>(op))
      if (auto type = tokensOf(symbols.lookup<nn::FuncOp>(call.getCallee())))
        return type;
  }
  return {};
}

/// Returns the shapes of the caches of a layer, and rewrites the layer when
/// this function first gets it. A layer is rewritten once, although several
/// programs may call it.
const SmallVector<CacheShape> &CacheAdder::rewriteLayer(nn::FuncOp layer) {
  auto known = layers.find(layer);
  if (known != layers.end())
    return known->second;
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<CacheShape> caches = findCaches(layer);
  if (caches.empty())
    return layers[layer];
  Block &body = layer.getBody().front();
  std::map<std::string, CacheValues> current;
  for (const CacheShape &cache : caches)
    for (Type type : typesOf(cache))
      current[cache.path].push_back(body.addArgument(type, layer.getLoc()));
  RankedTensorType tokens = tokensOf(layer);
  int64_t rows = tokens.getDimSize(0);
  CacheInputs inputs;
  auto add = [&](ArrayRef<int64_t> shape) {
    return body.addArgument(RankedTensorType::get(shape, builder.getI32Type()),
                            layer.getLoc());
  };
  inputs.pages = add({rows, int64_t(llvm::divideCeil(strategy.maxContext,
                                                     plan::cachePageTokens))});
  inputs.positions = add({rows, tokens.getDimSize(1)});
  inputs.lengths = add({rows});
  rewriteBody(
      layer, inputs,
      [&](Operation *, StringRef path) { return current[path.str()]; },
      [&](StringRef path, const CacheValues &cache) {
        current[path.str()] = cache;
      });
  auto end = cast<nn::ReturnOp>(body.getTerminator());
  for (const CacheShape &cache : caches)
    end.getOperandsMutable().append(current[cache.path]);
  updateFunctionType(layer);
  return layers[layer] = std::move(caches);
}

void CacheAdder::rewriteProgram(nn::FuncOp program) {
  Block &body = program.getBody().front();
  SmallVector<Attribute> ports(program.getInputsAttr().getValue());
  auto add = [&](PortRole role, ArrayRef<int64_t> shape) {
    ports.push_back(nn::PortAttr::get(builder.getContext(), role));
    return body.addArgument(RankedTensorType::get(shape, builder.getI32Type()),
                            program.getLoc());
  };
  auto ids = cast<RankedTensorType>(body.getArgument(0).getType());
  int64_t rows = ids.getDimSize(0);
  CacheInputs inputs;
  inputs.positions = add(PortRole::Positions, ids.getShape());
  inputs.lengths = add(PortRole::Lengths, {rows});
  inputs.pages = add(PortRole::Pages,
                     {rows, int64_t(llvm::divideCeil(strategy.maxContext,
                                                     plan::cachePageTokens))});
  llvm::StringMap<SmallVector<RankedTensorType>> types;
  for (const CacheShape &cache : findCaches(program))
    types[cache.path] = typesOf(cache);
  auto get = [&](const Twine &name, Type type) -> Value {
    nn::StateOp state = stateOf(name, type);
    return builder.create<nn::GetOp>(program.getLoc(), type,
                                     state.getSymName());
  };
  rewriteBody(
      program, inputs,
      [&](Operation *op, StringRef path) {
        builder.setInsertionPoint(op);
        CacheValues cache;
        for (auto [name, type] : llvm::zip(cacheNames, types[path]))
          cache.push_back(get(path + name, type));
        return cache;
      },
      [&](StringRef path, const CacheValues &cache) {
        for (auto [name, value] : llvm::zip(cacheNames, cache))
          builder.create<nn::SetOp>(program.getLoc(), (path + name).str(),
                                    value);
      });
  program.setInputsAttr(builder.getArrayAttr(ports));
  updateFunctionType(program);
}

LogicalResult CacheAdder::run() {
  SmallVector<nn::FuncOp> programs;
  for (auto function : model.getOps<nn::FuncOp>())
    if (lacksCache(function))
      programs.push_back(function);
  if (programs.empty())
    return success();
  if (failed(choosePages(programs)))
    return failure();
  for (nn::FuncOp program : programs)
    rewriteProgram(program);
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct AddCache : heddle::impl::ImportAddCacheBase<AddCache> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(CacheAdder(getOperation(), pages).run()))
      signalPassFailure();
  }
};

} // namespace
