//===- Units.cpp - Parameters that are stored side by side ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Transforms/Common/States.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

ReplicaAxes::ReplicaAxes(dist::MeshOp mesh)
    : context(mesh.getContext()),
      axes(mesh.getAxesWhere(
          [](dist::AxisRole role) { return dist::holdsReplicas(role); })),
      tensorAxes(mesh.getAxesOf(dist::AxisRole::Tensor)),
      ranks(mesh.getSize(axes)) {}

TensorShardingAttr heddle::shard::wholeSharding(MLIRContext *context,
                                                int64_t rank) {
  Builder builder(context);
  SmallVector<Attribute> dims(rank, builder.getArrayAttr({}));
  return TensorShardingAttr::get(context, builder.getArrayAttr(dims),
                                 builder.getArrayAttr({}));
}

TensorShardingAttr ReplicaAxes::partialSum(TensorShardingAttr whole) const {
  return TensorShardingAttr::get(context, whole.getDims(),
                                 ArrayAttr::get(context, axes));
}

TensorShardingAttr ReplicaAxes::partialSum(RankedTensorType type) const {
  return partialSum(wholeSharding(context, type.getRank()));
}

TensorShardingAttr ReplicaAxes::flat(bool tensor, bool split) const {
  Builder builder(context);
  SmallVector<Attribute> names;
  if (tensor)
    llvm::append_range(names, tensorAxes);
  if (split)
    names.append(axes.begin(), axes.end());
  return TensorShardingAttr::get(
      context, builder.getArrayAttr({builder.getArrayAttr(names)}),
      builder.getArrayAttr({}));
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

Units::Units(nn::ModelOp model, nn::StepOp step, const dist::Strategy &strategy,
             const ReplicaAxes &replicas, const TiledWeights &tiled)
    : model(model), step(step), strategy(strategy), replicas(replicas),
      tiled(tiled), symbols(model) {
  step.walk([&](nn::CallOp call) {
    for (Value operand : call.getOperands())
      if (auto get = operand.getDefiningOp<nn::GetOp>()) {
        auto state = symbols.lookup<nn::StateOp>(get.getState());
        StringRef parameter = state && state.getParameter()
                                  ? *state.getParameter()
                                  : get.getState();
        auto [path, isNew] = paths.try_emplace(parameter, call.getPath());
        if (!isNew && path->second != call.getPath())
          path->second = parameter.str(); // Of several: a unit of its own.
      }
  });
  if (strategy.zero == 3)
    choosePersistent();
  SmallVector<nn::UpdateOp> updates(step.getBody().getOps<nn::UpdateOp>());
  for (nn::UpdateOp update : updates)
    collect(update);
  for (Unit &unit : units)
    unit.elements = nn::paddedElements(unit.elements, replicas.ranks);
}

/// Whether a parameter's storage splits it over `tensor`.
static bool isTensorSplit(nn::StateOp state) {
  TensorShardingAttr storage = state.getStorageAttr();
  return storage && llvm::any_of(storage.getDims().getAsRange<ArrayAttr>(),
                                 [](ArrayAttr axes) { return !axes.empty(); });
}

/// The smallest parameters below the threshold, as many as may stay whole.
void Units::choosePersistent() {
  SmallVector<std::pair<int64_t, nn::StateOp>> small;
  for (auto state : model.getOps<nn::StateOp>()) {
    int64_t size = state.getTensorType().getNumElements();
    if (state.getRole() == nn::StateRole::Parameter &&
        size < strategy.paramPersistenceThreshold)
      small.push_back({size, state});
  }
  llvm::stable_sort(small, llvm::less_first());
  int64_t total = 0;
  for (auto [size, state] : small) {
    total += size;
    if (total > strategy.modelPersistenceThreshold)
      return;
    persistent.insert(state);
  }
}

/// What the optimizer's pass calls the parameters that it updates so.
static StringRef groupOf(nn::BucketOp bucket) {
  return bucket.getSymName().split('.').second;
}

std::string Units::unitOf(nn::StateOp parameter, StringRef group) {
  std::string name;
  if (strategy.zero >= 2) {
    StringRef module = parameter.getSymName().rsplit('.').first;
    auto path = paths.find(parameter.getSymName());
    name = path == paths.end() ? module.str() : path->second;
  }
  if (strategy.zero == 3 &&
      tiled.tilesOf(parameter.getSymName(), parameter.getType()) > 1)
    name = parameter.getSymName().str();
  auto add = [&](bool holds, StringRef what) {
    if (holds)
      name += (name.empty() ? "" : ".") + what.str();
  };
  // Most have weight decay, and no group.
  add(name.empty() || group != "decay", group);
  add(isTensorSplit(parameter), "tensor");
  add(persistent.contains(parameter), "persistent");
  return name;
}

void Units::collect(nn::UpdateOp update) {
  auto get = update.getParameter().getDefiningOp<nn::GetOp>();
  auto bucket = symbols.lookup<nn::BucketOp>(get.getState());
  if (!bucket)
    return; // A number that is kept for the next step.
  for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter = symbols.lookup<nn::StateOp>(member.getValue());
    std::string name = unitOf(parameter, groupOf(bucket));
    auto found = llvm::find_if(
        units, [&](const Unit &unit) { return unit.name == name; });
    if (found == units.end()) {
      units.emplace_back();
      units.back().name = name;
      units.back().update = update;
      units.back().tensor = isTensorSplit(parameter);
      units.back().persists = persistent.contains(parameter);
      found = std::prev(units.end());
    }
    found->parameters.push_back(parameter);
    found->elements +=
        nn::paddedElements(parameter.getTensorType().getNumElements());
  }
}

nn::BucketOp Units::addBucket(Unit &unit, StringRef what, StringRef suffix,
                              Type element, TensorShardingAttr storage) {
  OpBuilder builder(step);
  SmallVector<Attribute> members;
  for (nn::StateOp parameter : unit.parameters)
    members.push_back(FlatSymbolRefAttr::get(
        builder.getStringAttr(parameter.getSymName() + suffix)));
  auto bucket = builder.create<nn::BucketOp>(
      unit.update.getLoc(), (what + "." + unit.name).str(),
      builder.getArrayAttr(members),
      RankedTensorType::get({unit.elements}, element));
  bucket.setStorageAttr(storage);
  return bucket;
}

/// What the optimizer calls the states that a value is read from.
StringRef Units::quantityOf(Value value) {
  auto get = value.getDefiningOp<nn::GetOp>();
  StringRef state = statesOf(symbols, get.getState()).front();
  return symbols.lookup<nn::StateOp>(state).getQuantity();
}

void Units::addBuckets(Unit &unit) {
  Builder builder(model.getContext());
  Type f32 = builder.getF32Type();
  bool copies = strategy.precision != config::Precision::FP32;
  auto storage = [&](bool split) { return replicas.flat(unit.tensor, split); };
  // The optimizer reads parameters in f32: with copies for everything else they
  // are part of its state.
  bool splits = strategy.zero == 3 && !unit.persists;
  unit.values = addBucket(unit, "parameters", "", f32,
                          storage(copies ? strategy.zero >= 1 : splits));
  unit.gradients = addBucket(
      unit, "gradients", ".grad",
      getElementTypeOrSelf(unit.update.getGradient()),
      strategy.zero >= 2 ? storage(true) : replicas.partialSum(storage(false)));
  for (Value state : unit.update.getStates())
    unit.states.push_back(addBucket(unit, quantityOf(state),
                                    ("." + quantityOf(state)).str(), f32,
                                    storage(strategy.zero >= 1)));
  if (copies)
    unit.copies =
        addBucket(unit, "copies", std::string(".") + wordOf(strategy.precision),
                  builder.getBF16Type(), storage(splits));
}

Value Units::read(OpBuilder &builder, nn::BucketOp bucket) {
  return builder.create<nn::GetOp>(bucket.getLoc(), bucket.getType(),
                                   bucket.getSymName());
}

TypeAttr heddle::shard::wireOf(const dist::Strategy &strategy,
                               Builder builder) {
  FloatType type = dist::wireType(strategy, builder);
  return type.isF32() ? TypeAttr() : TypeAttr::get(type);
}

Value Units::reshard(OpBuilder &builder, Value value, TensorShardingAttr from,
                     TensorShardingAttr to, StringRef reason) {
  if (from == to)
    return value;
  TypeAttr wire;
  if (!from.getUnreduced().empty() && getElementTypeOrSelf(value).isF32())
    wire = wireOf(strategy, builder);
  return builder.create<dist::ReshardOp>(
      value.getLoc(), value.getType(), value, from, to,
      builder.getStringAttr(reason), wire, DenseI64ArrayAttr());
}

//===----------------------------------------------------------------------===//
// The optimizer
//===----------------------------------------------------------------------===//

/// Reduces the gradients, and makes their norm of sums of squares: those of
/// units that are split over more axes are summed over these first.
void Units::replaceNorm(nn::GlobalNormOp norm) {
  OpBuilder builder(norm);
  SmallVector<Value> sums[2];
  for (Unit &unit : units) {
    TensorShardingAttr from = unit.gradients.getStorageAttr();
    auto to = replicas.flat(unit.tensor, strategy.zero >= 1);
    unit.gradient = read(builder, unit.gradients);
    // Who asks for gradients gets the sum, not a replica's part of it.
    if (strategy.zero == 1 && llvm::is_contained(strategy.keep, "grads")) {
      auto whole = replicas.flat(unit.tensor, false);
      unit.gradient = reshard(builder, unit.gradient, from, whole, "--keep");
      from = whole;
    }
    unit.gradient = reshard(builder, unit.gradient, from, to, "nn.update");
    int64_t blocks = (unit.elements + nn::SquareSumsOp::blockSize - 1) /
                     nn::SquareSumsOp::blockSize;
    sums[unit.tensor].push_back(builder.create<nn::SquareSumsOp>(
        norm.getLoc(), RankedTensorType::get({blocks}, builder.getF32Type()),
        unit.gradient, ArrayAttr()));
  }
  SmallVector<Value> packed;
  for (ArrayRef<Value> parts : sums) {
    if (parts.empty())
      continue;
    int64_t elements = 0;
    for (Value part : parts)
      elements += nn::paddedElements(
          cast<RankedTensorType>(part.getType()).getNumElements());
    packed.push_back(builder.create<nn::PackOp>(
        norm.getLoc(), RankedTensorType::get({elements}, builder.getF32Type()),
        parts));
  }
  norm.getInputsMutable().assign(packed);
  norm.setSummed(true);
}

namespace {

/// Copies what is computed of the buckets of a group so that it is computed of
/// those of a unit.
class UnitCopier {
public:
  UnitCopier(OpBuilder &builder, Unit &unit) : builder(builder), unit(unit) {}

  /// `value` is the unit's `mine`.
  void map(Value value, Value mine) { mapping.map(value, mine); }

  /// What stands for the value; itself where it is computed of no bucket.
  Value copy(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (!op || !isOfBucket(op))
      return value;
    return write(op)->getResult(cast<OpResult>(value).getResultNumber());
  }

  Operation *write(Operation *op) {
    for (Value operand : op->getOperands())
      mapping.map(operand, copy(operand));
    Operation *mine = builder.clone(*op, mapping);
    if (mine->hasAttr("bucket"))
      mine->setAttr("bucket",
                    FlatSymbolRefAttr::get(unit.values.getSymNameAttr()));
    for (auto [old, result] : llvm::zip(op->getResults(), mine->getResults()))
      setShape(op, old, result);
    return mine;
  }

private:
  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  /// A result is as long as an operand is, or has one number for each
  /// parameter.
  void setShape(Operation *op, Value old, Value result) {
    auto type = cast<RankedTensorType>(result.getType());
    for (Value operand : op->getOperands())
      if (shapeOf(operand) == shapeOf(old)) {
        result.setType(type.clone(shapeOf(mapping.lookup(operand))));
        return;
      }
    result.setType(type.clone({static_cast<int64_t>(unit.parameters.size())}));
  }

  bool isOfBucket(Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return mapping.contains(operand) ? mapping.lookup(operand) != operand
                                       : maker && isOfBucket(maker);
    });
  }

  OpBuilder &builder;
  Unit &unit;
  IRMapping mapping;
};

} // namespace

void Units::replaceUpdate(Unit &unit) {
  OpBuilder builder(unit.update);
  UnitCopier copier(builder, unit);
  copier.map(unit.update.getParameter(), read(builder, unit.values));
  copier.map(unit.update.getGradient(), unit.gradient);
  for (auto [state, bucket] : llvm::zip(unit.update.getStates(), unit.states))
    copier.map(state, read(builder, bucket));
  auto update = cast<nn::UpdateOp>(copier.write(unit.update));
  SmallVector<nn::BucketOp> written = {unit.values};
  llvm::append_range(written, unit.states);
  if (unit.copies)
    written.push_back(unit.copies);
  for (auto [bucket, value] : llvm::zip(written, update.getOutputs()))
    builder.create<nn::SetOp>(update.getLoc(), bucket.getSymName(), value);
}

void Units::replaceUpdates() {
  // What goes, before the units, which may have the same names, come.
  SmallVector<nn::BucketOp> old(model.getOps<nn::BucketOp>());
  llvm::StringSet<> gone;
  for (nn::BucketOp bucket : old)
    gone.insert(bucket.getSymName());
  llvm::SetVector<Operation *> dead;
  bool clears = false;
  step.walk([&](Operation *op) {
    if (auto get = dyn_cast<nn::GetOp>(op);
        get && gone.contains(get.getState()))
      dead.insert(op);
    auto set = dyn_cast<nn::SetOp>(op);
    if (!set || !gone.contains(set.getState()))
      return;
    clears |= isa<nn::FillOp>(set.getValue().getDefiningOp());
    dead.insert(set.getValue().getDefiningOp());
    dead.insert(op);
  });
  for (Unit &unit : units)
    addBuckets(unit);
  for (auto norm :
       llvm::make_early_inc_range(step.getBody().getOps<nn::GlobalNormOp>()))
    replaceNorm(norm);
  for (Unit &unit : units)
    replaceUpdate(unit);
  for (Operation &op : step.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return dead.contains(operand.getDefiningOp());
        }))
      dead.insert(&op);
  for (Operation *op : llvm::reverse(dead)) {
    op->dropAllUses();
    op->erase();
  }
  for (nn::BucketOp bucket : old)
    bucket.erase();
  if (clears)
    clearGradients(*step.getBody().getOps<nn::MicroBatchesOp>().begin());
}

void Units::clearGradients(nn::MicroBatchesOp loop) {
  OpBuilder builder(loop);
  for (Unit &unit : units) {
    Value zero =
        builder.create<nn::FillOp>(loop.getLoc(), unit.gradients.getType(),
                                   builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loop.getLoc(), unit.gradients.getSymName(), zero);
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

static TensorShardingAttr storageOf(nn::StateOp state) {
  if (TensorShardingAttr storage = state.getStorageAttr())
    return storage;
  return wholeSharding(state.getContext(), state.getTensorType().getRank());
}

void Units::keepGradientsApart() {
  for (Unit &unit : units)
    for (nn::StateOp parameter : unit.parameters) {
      auto gradient =
          symbols.lookup<nn::StateOp>((parameter.getSymName() + ".grad").str());
      gradient.setStorageAttr(replicas.partialSum(storageOf(parameter)));
    }
}

void Units::scatterUnit(Unit &unit, nn::MicroBatchesOp loop) {
  Block &body = loop.getBody().front();
  llvm::StringMap<nn::SetOp> sets;
  for (auto set : body.getOps<nn::SetOp>())
    sets[set.getState()] = set;
  SmallVector<Value> members;
  Operation *last = nullptr;
  for (nn::StateOp parameter : unit.parameters) {
    nn::SetOp set = sets.lookup((parameter.getSymName() + ".grad").str());
    Value value = set.getValue();
    set.erase();
    // The sum over micro-batches is made of the reduced parts.
    if (auto add = value.getDefiningOp<nn::AddOp>())
      if (auto before = add.getLhs().getDefiningOp<nn::GetOp>();
          before &&
          before.getState() == (parameter.getSymName() + ".grad").str()) {
        value = add.getRhs();
        add.erase();
        before.erase();
      }
    members.push_back(value);
    Operation *definition = value.getDefiningOp();
    if (!last || last->isBeforeInBlock(definition))
      last = definition;
  }
  OpBuilder builder(model.getContext());
  builder.setInsertionPointAfter(last);
  Value flat = builder.create<nn::PackOp>(last->getLoc(),
                                          unit.gradients.getType(), members);
  auto split = replicas.flat(unit.tensor, true);
  Value part = reshard(builder, flat,
                       replicas.partialSum(replicas.flat(unit.tensor, false)),
                       split, unit.name);
  if (strategy.accumulate > 1)
    part = builder.create<nn::AddOp>(last->getLoc(), part.getType(),
                                     read(builder, unit.gradients), part,
                                     ArrayAttr());
  builder.create<nn::SetOp>(last->getLoc(), unit.gradients.getSymName(), part);
}

void Units::scatterGradients() {
  auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
  for (Unit &unit : units)
    scatterUnit(unit, loop);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Gathers the unit before an operation and hands its members to `uses`, which
/// read them from states now.
void Units::gather(Unit &unit, Operation *before, ArrayRef<OpOperand *> uses) {
  OpBuilder builder(before);
  nn::BucketOp bucket = unit.copies ? unit.copies : unit.values;
  Value flat =
      reshard(builder, read(builder, bucket), replicas.flat(unit.tensor, true),
              replicas.flat(unit.tensor, false), unit.name);
  SmallVector<Type> types;
  SmallVector<Attribute> shardings;
  llvm::StringMap<unsigned> numbers;
  for (auto [number, member] :
       llvm::enumerate(bucket.getMembers().getAsRange<FlatSymbolRefAttr>())) {
    auto state = symbols.lookup<nn::StateOp>(member.getValue());
    types.push_back(state.getType());
    shardings.push_back(storageOf(unit.parameters[number]));
    numbers[member.getValue()] = number;
  }
  auto unpack = builder.create<nn::UnpackOp>(before->getLoc(), types, flat,
                                             builder.getArrayAttr(shardings));
  for (OpOperand *use : uses) {
    auto get = use->get().getDefiningOp<nn::GetOp>();
    use->set(unpack.getResult(numbers.lookup(get.getState())));
  }
}

/// Whether what two operations use stays gathered between them: the layers
/// there gather less than the strategy's distance.
bool Units::staysGathered(Operation *from, Operation *to,
                          const UnitUses &uses) {
  llvm::SmallDenseSet<Operation *> layers;
  for (Operation *op = from; op != to; op = op->getNextNode())
    if (isa<nn::CallOp>(op))
      layers.insert(op);
  int64_t elements = 0;
  for (auto &[key, operands] : uses)
    if (layers.contains(key.second))
      elements += key.first->elements;
  return layers.empty() || elements < strategy.maxReuseDistance;
}

void Units::gatherParameters(nn::StepOp reader) {
  llvm::StringMap<Unit *> unitsByState;
  for (Unit &unit : units)
    if (!unit.persists)
      for (auto member : (unit.copies ? unit.copies : unit.values)
                             .getMembers()
                             .getAsRange<FlatSymbolRefAttr>())
        unitsByState[member.getValue()] = &unit;
  // An instance of a layer gathers for itself; what is read outside of layers
  // is gathered for all that read it in a block and are close together.
  UnitUses uses;
  SmallVector<nn::GetOp> gets;
  reader.walk([&](nn::GetOp get) {
    Unit *unit = unitsByState.lookup(get.getState());
    if (!unit)
      return;
    gets.push_back(get);
    for (OpOperand &use : get.getValue().getUses()) {
      Operation *user = use.getOwner();
      if (isa<nn::CallOp>(user))
        uses[{unit, user}].push_back(&use);
      else
        uses[{unit, user->getBlock()->getParentOp()}].push_back(&use);
    }
  });
  for (auto &[key, operands] : uses) {
    llvm::stable_sort(operands, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() != b->getOwner() &&
             a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    for (ArrayRef<OpOperand *> rest = operands; !rest.empty();) {
      size_t count = 1;
      while (count < rest.size() &&
             staysGathered(rest[count - 1]->getOwner(), rest[count]->getOwner(),
                           uses))
        ++count;
      gather(*key.first, rest[0]->getOwner(), rest.take_front(count));
      rest = rest.drop_front(count);
    }
  }
  for (nn::GetOp get : gets)
    if (get.getValue().use_empty())
      get.erase();
}
