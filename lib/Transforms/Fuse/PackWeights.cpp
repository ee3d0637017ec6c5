//===- PackWeights.cpp - Packs and quantizes weights for inference --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-pack-weights`: see Passes.td. It decides which
// weights of products are quantized to int4 or int8.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "heddle/Settings/QuantizeGroups.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEPACKWEIGHTS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

/// The format of a packed weight: the bits of a value, the number of inputs
/// that share a scale (0 if all inputs of an output share one), and whether
/// quantization is symmetric.
struct WeightFormat {
  int64_t bits = 32, group = 0;
  bool even = true;
};

/// The MLIR values that replace a weight: the packed weight, and, if it is
/// quantized, its scales and zero points.
using PackedValues = SmallVector<Value, 3>;

class Packer {
public:
  Packer(nn::ModelOp model, int64_t bits, int64_t group, bool even,
         bool roundsInputs, nn::PackedLayout layout,
         ArrayRef<llvm::GlobPattern> kept)
      : model(model), symbols(model), bits(bits), group(group), even(even),
        roundsInputs(roundsInputs), layout(layout), kept(kept) {
    model.walk([&](nn::SetOp set) { written.insert(set.getState()); });
    for (auto bucket : model.getOps<nn::BucketOp>())
      for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
        written.insert(member.getValue());
    model.walk([&](nn::CallOp call) {
      calls[symbols.lookup<nn::FuncOp>(call.getCallee())].push_back(call);
    });
  }

  LogicalResult run();
  int64_t numPacked = 0;

private:
  nn::StateOp weightOf(Value value);
  bool isWeight(Value value);
  bool isKept(nn::StateOp state);
  FailureOr<WeightFormat> formatOf(nn::StateOp state, nn::LinearOp user);
  void forEachWeight(Value value, llvm::function_ref<void(nn::StateOp)> visit);
  std::string whatDivides();
  PackedValues pack(Value value, nn::LinearOp user);
  nn::StateOp derive(nn::StateOp state, WeightFormat format,
                     nn::PackedPart part, bool transposed);
  LogicalResult check(Value value, nn::LinearOp user, WeightFormat &format,
                      nn::StateOp &first);
  void replace(nn::LinearOp linear);
  void eraseUnused();

  nn::ModelOp model;
  SymbolTable symbols;
  int64_t bits, group;
  bool even, roundsInputs;
  nn::PackedLayout layout;
  ArrayRef<llvm::GlobPattern> kept;
  llvm::StringSet<> written;
  /// The calls of each function.
  DenseMap<Operation *, SmallVector<nn::CallOp>> calls;
  std::map<std::pair<void *, bool>, PackedValues> packed;
  std::map<std::tuple<void *, int, bool>, nn::StateOp> derived;
};

} // namespace

/// Returns the matrix parameter that `value` is read from, if nothing writes
/// it; otherwise null.
nn::StateOp Packer::weightOf(Value value) {
  auto get = value.getDefiningOp<nn::GetOp>();
  if (!get || get.getSlot() || written.contains(get.getState()))
    return {};
  auto state = symbols.lookup<nn::StateOp>(get.getState());
  bool isMatrix = state && state.getRole() == nn::StateRole::Parameter &&
                  state.getTensorType().getRank() == 2;
  return isMatrix ? state : nn::StateOp();
}

/// Whether a value is a parameter. An argument of a function is a parameter if
/// all callers pass parameters.
bool Packer::isWeight(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return bool(weightOf(value));
  auto function = dyn_cast<nn::FuncOp>(argument.getOwner()->getParentOp());
  auto found = calls.find(function);
  return function && found != calls.end() &&
         llvm::all_of(found->second, [&](nn::CallOp call) {
           return isWeight(call.getArgOperands()[argument.getArgNumber()]);
         });
}

bool Packer::isKept(nn::StateOp state) {
  return llvm::any_of(kept, [&](const llvm::GlobPattern &pattern) {
    return isNamed(state, [&](StringRef name) { return pattern.match(name); });
  });
}

/// If `value` is a parameter, calls `visit` for it. If `value` is an argument
/// of a function, calls `visit` for all parameters that callers pass for this
/// argument.
void Packer::forEachWeight(Value value,
                           llvm::function_ref<void(nn::StateOp)> visit) {
  if (nn::StateOp state = weightOf(value))
    return visit(state);
  auto argument = cast<BlockArgument>(value);
  for (nn::CallOp call : calls[argument.getOwner()->getParentOp()])
    forEachWeight(call.getArgOperands()[argument.getArgNumber()], visit);
}

/// Returns settings of --quantize-group and similar flags with which all
/// weights of the model could be quantized. The error about a weight that
/// cannot be quantized suggests them.
std::string Packer::whatDivides() {
  std::vector<config::QuantizeCandidate> weights;
  model.walk([&](nn::LinearOp linear) {
    if (!isWeight(linear.getWeight()))
      return;
    forEachWeight(linear.getWeight(), [&](nn::StateOp state) {
      int64_t inputs = state.getTensorType().getDimSize(linear.getTransposed());
      if (!isKept(state))
        weights.push_back({state.getSymName().str(), inputs});
    });
  });
  return config::flagsToQuantize(weights, 32 / bits, group);
}

FailureOr<WeightFormat> Packer::formatOf(nn::StateOp state, nn::LinearOp user) {
  WeightFormat format;
  format.bits = state.getTensorType().getElementType().isF32() ? 32 : 16;
  if (bits == 0 || isKept(state))
    return format;
  format = {bits, group, even};
  int64_t inputs = state.getTensorType().getDimSize(user.getTransposed());
  if (group == 0 || inputs % group == 0)
    return format;
  auto error = user.emitError("H0144: the weight \"")
               << state.getSymName() << "\" has " << inputs
               << " inputs here, which groups of " << group << " do not divide";
  error.attachNote() << "help: where the files have no codes, use "
                     << whatDivides()
                     << (state.getWhole() ? ", or try fewer tensor ranks" : "")
                     << "; with --quantize none it always compiles";
  return failure();
}

/// Checks the format of the weight `value`. If `value` is an argument of a
/// function, callers may pass different parameters for it. All of these must
/// have the same format, because one and the same product reads them.
LogicalResult Packer::check(Value value, nn::LinearOp user,
                            WeightFormat &format, nn::StateOp &first) {
  if (nn::StateOp state = weightOf(value)) {
    FailureOr<WeightFormat> found = formatOf(state, user);
    if (failed(found))
      return failure();
    if (first && found->bits != format.bits) {
      auto error = user.emitError("H0146: multiplies by \"")
                   << first.getSymName() << "\" with " << format.bits
                   << " bits and by \"" << state.getSymName() << "\" with "
                   << found->bits << ", but layers of one kind share it";
      error.attachNote() << "help: give --keep-16bit a pattern for all layers, "
                            "as *.mlp.down_proj.weight";
      return failure();
    }
    format = *found;
    first = state;
    return success();
  }
  auto argument = cast<BlockArgument>(value);
  for (nn::CallOp call : calls[argument.getOwner()->getParentOp()])
    if (failed(check(call.getArgOperands()[argument.getArgNumber()], user,
                     format, first)))
      return failure();
  return success();
}

nn::StateOp Packer::derive(nn::StateOp state, WeightFormat format,
                           nn::PackedPart part, bool transposed) {
  nn::StateOp &known = derived[{state, static_cast<int>(part), transposed}];
  if (known)
    return known;
  MLIRContext *context = model.getContext();
  auto attribute = nn::PackedAttr::get(
      context, part, state.getSymNameAttr(), state.getTensorType(), format.bits,
      format.group, format.even, transposed, layout);
  OpBuilder builder(context);
  // New states precede the parameter: packed values first, then scales and zero
  // points.
  builder.setInsertionPoint(state);
  auto copy = cast<nn::StateOp>(builder.clone(*state));
  std::string name =
      (state.getSymName() + "." + stringifyPackedPart(part)).str();
  while (symbols.lookup(name))
    name += transposed ? ".transposed" : ".plain";
  copy.setSymName(name);
  copy.setRole(nn::StateRole::Derived);
  copy.setType(attribute.getStateType(Float16Type::get(context)));
  copy.setPackedAttr(attribute);
  copy.setTrainable(false);
  copy.setCheckpointed(false);
  copy.setDecays(false);
  symbols.insert(copy);
  return known = copy;
}

/// Returns the values that replace `value` as the weight of `user`.
PackedValues Packer::pack(Value value, nn::LinearOp user) {
  bool transposed = user.getTransposed();
  auto [found, isNew] =
      packed.try_emplace({value.getAsOpaquePointer(), transposed});
  if (!isNew)
    return found->second;
  PackedValues parts;
  OpBuilder builder(model.getContext());
  if (nn::StateOp state = weightOf(value)) {
    WeightFormat format = *formatOf(state, user);
    SmallVector<nn::PackedPart> kinds = {nn::PackedPart::Words};
    if (format.bits < 16)
      kinds.push_back(nn::PackedPart::Scales);
    if (format.bits < 16 && !format.even)
      kinds.push_back(nn::PackedPart::Zeros);
    builder.setInsertionPointAfterValue(value);
    for (nn::PackedPart kind : kinds) {
      nn::StateOp part = derive(state, format, kind, transposed);
      parts.push_back(builder.create<nn::GetOp>(value.getLoc(), part.getType(),
                                                part.getSymName()));
    }
    return packed[{value.getAsOpaquePointer(), transposed}] = parts;
  }
  auto argument = cast<BlockArgument>(value);
  auto function = cast<nn::FuncOp>(argument.getOwner()->getParentOp());
  for (nn::CallOp call : calls[function]) {
    PackedValues given =
        pack(call.getArgOperands()[argument.getArgNumber()], user);
    if (parts.empty())
      for (Value part : given) {
        unsigned at = function.getNumArguments();
        function.insertArgument(at, part.getType(), {}, value.getLoc());
        parts.push_back(function.getArgument(at));
      }
    SmallVector<Value> operands(call.getArgOperands());
    operands.append(given);
    call->setOperands(operands);
  }
  return packed[{value.getAsOpaquePointer(), transposed}] = parts;
}

/// Returns how many inputs of a product share a scale when the kernel quantizes
/// the inputs. In general as many inputs share a scale as weight values do. If
/// more than 256 weight values share one, only 128 inputs do, so that one large
/// input makes fewer others less precise.
static int64_t inputBlockOf(int64_t groupLength, int64_t perWord) {
  constexpr int64_t longest = 256, cut = 128;
  return groupLength > longest ? cut : llvm::alignTo(groupLength, perWord);
}

void Packer::replace(nn::LinearOp linear) {
  PackedValues parts = pack(linear.getWeight(), linear);
  OpBuilder builder(linear);
  bool hasCodes = parts.size() > 1;
  IntegerAttr bitsAttr, blockAttr;
  int64_t inputs = linear.getInput().getType().getShape().back();
  if (hasCodes)
    bitsAttr = builder.getI64IntegerAttr(bits);
  if (hasCodes && roundsInputs) {
    auto scales = cast<RankedTensorType>(parts[1].getType());
    blockAttr = builder.getI64IntegerAttr(
        inputBlockOf(inputs / scales.getDimSize(1), 32 / bits));
  }
  auto packedLinear = builder.create<nn::PackedLinearOp>(
      linear.getLoc(), linear.getType(), linear.getInput(), parts[0],
      hasCodes ? parts[1] : Value(), parts.size() > 2 ? parts[2] : Value(),
      linear.getBias(), bitsAttr, blockAttr, layout, ArrayAttr());
  linear.replaceAllUsesWith(packedLinear.getOutput());
  linear.erase();
  ++numPacked;
}

/// Erases arguments, reads and parameters that were replaced.
void Packer::eraseUnused() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto &[operation, sites] : calls) {
      auto function = cast<nn::FuncOp>(operation);
      for (unsigned i = function.getNumArguments(); i-- > 0;) {
        BlockArgument argument = function.getArgument(i);
        void *key = argument.getAsOpaquePointer();
        bool isReplaced =
            packed.count({key, false}) || packed.count({key, true});
        if (!isReplaced || !argument.use_empty())
          continue;
        function.eraseArgument(i);
        for (nn::CallOp call : sites)
          call->eraseOperand(i);
        changed = true;
      }
    }
  }
  eraseUnusedReads(model);
  llvm::StringSet<> read;
  model.walk([&](nn::GetOp get) { read.insert(get.getState()); });
  llvm::StringSet<> replaced;
  for (auto &[key, state] : derived)
    replaced.insert(state.getPacked()->getName().getValue());
  for (auto state : llvm::make_early_inc_range(model.getOps<nn::StateOp>()))
    if (state.getRole() == nn::StateRole::Parameter &&
        replaced.contains(state.getSymName()) &&
        !read.contains(state.getSymName()))
      state.erase();
}

LogicalResult Packer::run() {
  SmallVector<nn::LinearOp> products;
  model.walk([&](nn::LinearOp linear) {
    if (isWeight(linear.getWeight()))
      products.push_back(linear);
  });
  for (nn::LinearOp product : products) {
    WeightFormat format;
    nn::StateOp first;
    if (failed(check(product.getWeight(), product, format, first)))
      return failure();
  }
  for (nn::LinearOp product : products)
    replace(product);
  eraseUnused();
  return success();
}

namespace {
struct PackWeights : heddle::impl::FusePackWeightsBase<PackWeights> {
  using Base::Base;

  void runOnOperation() override {
    for (auto model : getOperation().getOps<nn::ModelOp>())
      if (failed(packIn(model)))
        return signalPassFailure();
  }

private:
  /// Takes the values of the pass's options from the settings of the
  /// compilation (`strategy`), unless the options were given to the pass
  /// itself.
  void choose(const dist::Strategy &strategy) {
    if (bits >= 0)
      return;
    bits = strategy.quantize == config::Quantize::Int8   ? 8
           : strategy.quantize == config::Quantize::Int4 ? 4
                                                         : 0;
    group = strategy.quantizeGroup;
    even = !strategy.quantizeZeros;
    roundInputs =
        strategy.quantizeActivations == config::QuantizeActivations::Int8;
    if (group == 0 && bits == 4)
      group = 64;
    keep = strategy.keep16bit;
  }

  LogicalResult refuseGroup(nn::ModelOp model) {
    InFlightDiagnostic error = model.emitError("H0147: groups of ")
                               << static_cast<int64_t>(group)
                               << " inputs are no whole words of " << 32 / bits
                               << " codes";
    error.attachNote() << "help: choose a multiple of " << 32 / bits;
    return error;
  }

  LogicalResult packIn(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    if (bits < 0 && strategy.mode == config::Mode::Train)
      return success();
    choose(strategy);
    if (bits > 0 && group % (32 / bits) != 0)
      return refuseGroup(model);
    SmallVector<llvm::GlobPattern> patterns;
    for (const std::string &text : keep) {
      llvm::Expected<llvm::GlobPattern> pattern =
          llvm::GlobPattern::create(text);
      if (!pattern) {
        InFlightDiagnostic error = model.emitError("H0145: \"")
                                   << text
                                   << "\" of --keep-16bit is no pattern: "
                                   << llvm::toString(pattern.takeError());
        error.attachNote() << "help: end what a bracket begins, as in "
                              "h.[0-3].*; [[] is a bracket itself";
        return error;
      }
      patterns.push_back(std::move(*pattern));
    }
    FailureOr<codegen::FusionRules> rules = fuse::rulesOf(model);
    if (failed(rules))
      return failure();
    Packer packer(model, bits, group, even, roundInputs, rules->packedLayout,
                  patterns);
    if (failed(packer.run()))
      return failure();
    numPacked += packer.numPacked;
    return success();
  }
};
} // namespace
