//===- Reasons.cpp - Why values are sharded as they are -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The module path of the location, followed by `name` in parentheses.
static std::string withPath(Location loc, const std::string &name) {
  auto path = loc->findInstanceOf<NameLoc>();
  return path ? path.getName().str() + " (" + name + ")" : name;
}

std::string heddle::shard::nameOf(Operation *op) {
  std::string name = op->getName().getStringRef().str();
  if (auto set = dyn_cast<nn::SetOp>(op))
    return name + " " + set.getState().str();
  return withPath(op->getLoc(), name);
}

std::string heddle::shard::nameOfAddition(Operation *op) {
  return withPath(op->getLoc(), nn::AddOp::getOperationName().str());
}

/// Replaces the numbers of layers in paths by `*`: `h.3.attn` becomes
/// `h.*.attn`.
static std::string withoutLayers(StringRef text) {
  std::string out;
  while (!text.empty()) {
    StringRef digits = text.take_while(llvm::isDigit);
    StringRef rest = text.drop_front(digits.size());
    bool isPart = !digits.empty() && !out.empty() && out.back() == '.' &&
                  (rest.empty() || !llvm::isAlnum(rest.front()));
    out += isPart ? "*" : digits.str();
    if (!rest.empty())
      out += rest.front();
    text = rest.drop_front(rest.empty() ? 0 : 1);
  }
  return out;
}

std::string Reasons::nameOf(Value value) const {
  if (auto known = names.find(value); known != names.end())
    return known->second;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto step = dyn_cast<nn::StepOp>(argument.getOwner()->getParentOp());
    unsigned number = argument.getArgNumber();
    return step ? cast<nn::PortAttr>(step.getInputs()[number]).getKey().str()
                : "argument " + std::to_string(number);
  }
  Operation *op = value.getDefiningOp();
  unsigned number = cast<OpResult>(value).getResultNumber();
  if (auto get = dyn_cast<nn::GetOp>(op))
    return get.getState().str();
  if (isa<dist::ReshardOp, dist::StackOp, nn::MicroBatchOp>(op))
    return nameOf(op->getOperand(0));
  auto model = op->getParentOfType<nn::ModelOp>();
  if (auto call = dyn_cast<nn::CallOp>(op)) {
    auto callee = model.lookupSymbol<nn::FuncOp>(call.getCalleeAttr());
    return nameOf(callee.getBody().back().getTerminator()->getOperand(number));
  }
  if (auto unpack = dyn_cast<nn::UnpackOp>(op))
    if (auto bucket =
            model.lookupSymbol<nn::BucketOp>(nameOf(unpack.getFlat())))
      return cast<FlatSymbolRefAttr>(bucket.getMembers()[number])
          .getValue()
          .str();
  return shard::nameOf(op);
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

static std::string join(ArrayRef<Attribute> axes) {
  return llvm::join(llvm::map_range(axes,
                                    [](Attribute axis) {
                                      return cast<StringAttr>(axis).getValue();
                                    }),
                    " and ");
}

std::string heddle::shard::describe(TensorShardingAttr sharding) {
  SmallVector<std::string> parts;
  for (auto [dim, axes] :
       llvm::enumerate(sharding.getDims().getAsRange<ArrayAttr>()))
    if (!axes.empty())
      parts.push_back(join(axes.getValue()) + " on dim " + std::to_string(dim));
  if (!sharding.getUnreduced().empty())
    parts.push_back("a partial sum over " +
                    join(sharding.getUnreduced().getValue()));
  return parts.empty() ? "whole" : llvm::join(parts, ", ");
}

/// For each mesh axis, the dimension of the tensor that the axis splits.
static llvm::MapVector<Attribute, size_t> dimsOf(TensorShardingAttr sharding) {
  llvm::MapVector<Attribute, size_t> dims;
  for (auto [dim, axes] :
       llvm::enumerate(sharding.getDims().getAsRange<ArrayAttr>()))
    for (Attribute axis : axes)
      dims[axis] = dim;
  return dims;
}

std::string heddle::shard::describeReshard(TensorShardingAttr from,
                                           TensorShardingAttr to) {
  auto before = dimsOf(from), after = dimsOf(to);
  SmallVector<Attribute> added, scattered, gathered, moved, split;
  for (Attribute axis : from.getUnreduced())
    if (after.contains(axis))
      scattered.push_back(axis);
    else if (!llvm::is_contained(to.getUnreduced(), axis))
      added.push_back(axis);
  for (auto [axis, dim] : before)
    if (!after.contains(axis))
      gathered.push_back(axis);
    else if (after.lookup(axis) != dim)
      moved.push_back(axis);
  for (auto [axis, dim] : after)
    if (!before.contains(axis) && !llvm::is_contained(scattered, axis))
      split.push_back(axis);
  SmallVector<std::string> parts;
  auto add = [&](ArrayRef<Attribute> axes, StringRef what, StringRef after) {
    if (!axes.empty())
      parts.push_back((what + join(axes) + after).str());
  };
  add(added, "adds up over ", "");
  add(scattered, "adds up over ", " and keeps a part");
  add(gathered, "gathers over ", "");
  add(moved, "moves ", " to another dimension");
  add(split, "takes a part along ", "");
  return llvm::join(parts, ", ");
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

void Reasons::add(const Twine &name, TensorShardingAttr sharding,
                  const Twine &reason) {
  std::string text = (name + ": " + describe(sharding) + ": " + reason).str();
  std::string shared = withoutLayers(text);
  auto [number, isNew] = numbers.insert({shared, lines.size()});
  if (isNew)
    lines.push_back({shared, text});
  Line &line = lines[number->second];
  line.isShared |= line.text != text;
}

void Reasons::print(raw_ostream &os) {
  for (const Line &line : lines)
    os << (line.isShared ? line.shared : line.text) << "\n";
  *this = Reasons();
}

/// The function or step that the operation is in.
static Operation *functionOf(Operation *op) {
  while (!isa<nn::FuncOp, nn::StepOp>(op))
    op = op->getParentOp();
  return op;
}

/// The prefix for names of values in a function or step: the name of the
/// function or step, and a space.
static std::string scopeOf(Operation *op) {
  return SymbolTable::getSymbolName(functionOf(op)).str() + " ";
}

void Reasons::addInput(BlockArgument argument, TensorShardingAttr sharding) {
  add(scopeOf(argument.getOwner()->getParentOp()) + nameOf(argument), sharding,
      sharding.getDims().size() < 2 ? "every rank has it"
                                    : "data splits rows and seq splits tokens");
}

void Reasons::addArgument(BlockArgument argument, TensorShardingAttr sharding,
                          Value from) {
  std::string source = withoutLayers(nameOf(from));
  bool isState = isa_and_nonnull<nn::GetOp, nn::UnpackOp>(from.getDefiningOp());
  if (isState)
    names[argument] = source;
  add(scopeOf(argument.getOwner()->getParentOp()) + "argument " +
          Twine(argument.getArgNumber()),
      sharding, (isState ? "the state " : "as the first call gives ") + source);
}

void Reasons::addResult(Operation *op, TensorShardingAttr sharding,
                        const Twine &reason) {
  add(scopeOf(op) + shard::nameOf(op), sharding, reason);
}

void Reasons::addResults(Operation *op, ArrayAttr shardings,
                         const Origins &origins) {
  std::string reason;
  for (const auto &[axis, origin] : origins)
    reason += (reason.empty() ? "" : ", ") + cast<StringAttr>(axis).str() +
              (origin.operand ? " with " + nameOf(origin.operand)
                              : ": " + origin.rule.str()) +
              ", along " + origin.factor +
              (origin.summed ? ", which is summed" : "");
  if (reason.empty())
    reason = "no operand is split";
  for (Attribute sharding :
       llvm::SetVector<Attribute>(shardings.begin(), shardings.end()))
    addResult(op, cast<TensorShardingAttr>(sharding), reason);
}

void Reasons::addAddition(Operation *op, TensorShardingAttr sharding) {
  add(scopeOf(op) + nameOfAddition(op), sharding,
      "it is added once, to the whole sum");
}

void Reasons::addReshard(Operation *op, Value value, TensorShardingAttr from,
                         TensorShardingAttr to, const Twine &reason) {
  add(scopeOf(op) + nameOf(value) + " -> dist.reshard", to,
      describeReshard(from, to) + " for " + reason);
}
