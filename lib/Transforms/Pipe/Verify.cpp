//===- Verify.cpp - Verifies stages and schedules -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Pipe/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include <map>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_PIPEVERIFY
#include "include/heddle/Transforms/Pipe/Passes.h.inc"
} // namespace heddle

/// Finds the entry of a layer in `layers`, which has an entry for each layer's
/// path. The path of `call` is the layer's path, or extends it if the call runs
/// only a part of the layer.
template <typename Map>
static typename Map::iterator findLayer(Map &layers, nn::CallOp call) {
  for (StringRef path = call.getPath();;
       path = path.take_front(path.rfind('.'))) {
    auto found = layers.find(StringAttr::get(call.getContext(), path));
    if (found != layers.end() || !path.contains('.'))
      return found;
  }
}

namespace {

using pipe::Action;

pipe::Schedule readLines(pipe::ScheduleOp schedule) {
  pipe::Schedule lines;
  for (pipe::LineAttr line : schedule.getStages().getLines())
    lines.push_back(line.getActions());
  return lines;
}

/// The sends and receives of one value in a step, between two ranks along the
/// mesh axis `pipe`.
struct Message {
  std::string step, channel;
  int64_t from = 0, to = 0;
  bool operator<(const Message &other) const {
    return std::tie(step, channel, from, to) <
           std::tie(other.step, other.channel, other.from, other.to);
  }
};

/// Verifies the models of all stages together.
class StagesVerifier {
public:
  explicit StagesVerifier(ArrayRef<nn::ModelOp> models) : models(models) {}

  LogicalResult run() {
    uint64_t number = 0;
    for (nn::ModelOp model : models) {
      if (*model.getStage() != number)
        return model.emitError("H0905: stands in place ")
               << number << " of the stages";
      ++number;
      for (auto stage : model.getOps<pipe::StageOp>())
        for (Attribute path : stage.getCalls())
          if (!stages.try_emplace(path, stage.getIndex()).second)
            return stage.emitError("H0905: has ")
                   << path << ", which another stage has too";
    }
    for (nn::ModelOp model : models)
      if (failed(verifyModel(model)))
        return failure();
    return matchMessages();
  }

private:
  /// Checks that attributes which describe the whole model are equal on all
  /// stages.
  LogicalResult verifyAttributes(nn::ModelOp model) {
    nn::ModelOp head = models.front();
    for (NamedAttribute attribute : head->getAttrs()) {
      StringAttr name = attribute.getName();
      if (name != model.getSymNameAttrName() &&
          name != model.getStageAttrName() &&
          model->getAttr(name) != attribute.getValue())
        return model.emitError("H0905: has another ")
               << name << " than the first stage";
    }
    return success();
  }

  LogicalResult verifyModel(nn::ModelOp model) {
    if (failed(verifyAttributes(model)))
      return failure();
    auto schedule = model.lookupSymbol<pipe::ScheduleOp>("schedule");
    if (!schedule || schedule.getStages().getLines().size() != models.size())
      return model.emitError("H0905: there is no schedule for ")
             << models.size() << " stages";
    nn::ModelOp head = models.front();
    auto first = head.lookupSymbol<pipe::ScheduleOp>("schedule");
    if (schedule->getAttrDictionary() != first->getAttrDictionary())
      return schedule.emitError("H0905: is not that of the first stage");
    line = schedule.getStages().getLines()[*model.getStage()].getActions();
    slotsOfChunk.clear();
    SymbolTable symbols(model);
    for (auto step : model.getOps<nn::StepOp>()) {
      for (auto fragments : step.getBody().getOps<pipe::FragmentsOp>())
        if (step.getKind() == nn::ProgramKind::Train &&
            failed(verifyLine(fragments)))
          return failure();
      auto verifyOne = [&](Operation *op) {
        return verify(model, symbols, step, op);
      };
      if (failed(verifyEach<Operation *>(step, verifyOne)))
        return failure();
    }
    return success();
  }

  /// Checks that the stage runs its forward and backward passes in the order of
  /// its line of the schedule. The last entry of the line, the optimizer, is
  /// not compared.
  LogicalResult verifyLine(pipe::FragmentsOp fragments) {
    ArrayRef<Action> actual = fragments.getLine().getActions();
    ArrayRef<Action> expected = ArrayRef(line).drop_back();
    if (actual == expected)
      return success();
    return fragments.emitError("H0905: runs \"")
           << pipe::printStage(actual) << "\", the schedule has \""
           << pipe::printStage(expected) << "\"";
  }

  /// The fragment (forward or backward pass of the stage) that an operation is
  /// in; nullopt outside of fragments.
  static std::optional<Action> fragmentOf(Operation *op) {
    auto fragments = dyn_cast<pipe::FragmentsOp>(op->getParentOp());
    if (!fragments)
      return std::nullopt;
    return fragments.getLine()
        .getKinds()[op->getParentRegion()->getRegionNumber()];
  }

  LogicalResult verify(nn::ModelOp model, const SymbolTable &symbols,
                       nn::StepOp step, Operation *op) {
    if (auto call = dyn_cast<nn::CallOp>(op))
      return verifyCall(model, call);
    if (auto part = dyn_cast<nn::MicroBatchOp>(op))
      return verifyMicroBatch(part);
    if (auto get = dyn_cast<nn::GetOp>(op); get && get.getSlot())
      return verifySlot(symbols, op, get.getState(), get.getSlot());
    if (auto set = dyn_cast<nn::SetOp>(op); set && set.getSlot())
      return verifySlot(symbols, op, set.getState(), set.getSlot());
    int64_t here = *model.getStage(), count = models.size();
    if (auto send = dyn_cast<dist::SendOp>(op)) {
      int64_t to = here + static_cast<int64_t>(send.getDelta());
      sent[{step.getSymName().str(), send.getChannel().str(), here,
            (to + count) % count}]
          .push_back(op);
    }
    if (auto received = dyn_cast<dist::RecvOp>(op)) {
      int64_t from = here + static_cast<int64_t>(received.getDelta());
      awaited[{step.getSymName().str(), received.getChannel().str(),
               (from + count) % count, here}]
          .push_back(op);
    }
    return success();
  }

  LogicalResult verifyCall(nn::ModelOp model, nn::CallOp call) {
    int64_t here = *model.getStage(), count = models.size();
    auto stage = findLayer(stages, call);
    auto fragment = fragmentOf(call);
    bool right = stage != stages.end() && stage->second % count == here &&
                 (!fragment || stage->second / count == fragment->chunk);
    if (right)
      return success();
    return call.emitError("H0905: is in a stage that does not have ")
           << call.getPathAttr();
  }

  /// Checks that an input is split into as many parts as there are
  /// micro-batches.
  static LogicalResult verifyMicroBatch(nn::MicroBatchOp part) {
    int64_t count = pipe::microBatchesAt(part);
    int64_t parts = cast<ShapedType>(part.getInput().getType()).getDimSize(0);
    if (parts == count)
      return success();
    return part.emitError("H0905: takes one of ")
           << parts << " micro-batches, its stage runs " << count;
  }

  /// Checks that two micro-batches in flight at the same time never use the
  /// same slot (entry of a state that saves values of one micro-batch).
  LogicalResult verifySlot(const SymbolTable &symbols, Operation *op,
                           StringRef name, Value slot) {
    auto fragments = dyn_cast<pipe::FragmentsOp>(op->getParentOp());
    auto fragment = fragmentOf(op);
    if (!fragments || !fragment)
      return op->emitError("H0905: uses a slot outside of fragments");
    if (slot != op->getBlock()->getArgument(1))
      return op->emitError("H0905: uses another slot than its micro-batch's");
    int64_t slots =
        fragments.getSlots()[op->getParentRegion()->getRegionNumber()];
    int64_t held =
        symbols.lookup<nn::StateOp>(name).getTensorType().getDimSize(0);
    auto [known, isNew] = slotsOfChunk.try_emplace(fragment->chunk, 0);
    if (isNew)
      known->second = pipe::slotsNeeded(line, fragment->chunk);
    int64_t needed = known->second;
    if (held == slots && slots >= needed)
      return success();
    return op->emitError("H0905: has slot numbers below ")
           << slots << ", the state " << held << " slots; " << needed
           << " are needed";
  }

  /// Checks that each send has exactly one receive. If the send is in a forward
  /// pass, for example, the receive must be in a forward pass, too.
  LogicalResult matchMessages() {
    for (auto &[message, ops] : sent)
      if (failed(match(message, ops, awaited[message])))
        return failure();
    for (auto &[message, ops] : awaited)
      if (!sent.count(message))
        return ops.front()->emitError("H0905: awaits what stage ")
               << message.from << " does not send";
    return success();
  }

  LogicalResult match(const Message &message, ArrayRef<Operation *> from,
                      ArrayRef<Operation *> to) {
    if (from.size() != 1 || to.size() != 1)
      return from.front()->emitError("H0905: the channel \"")
             << message.channel << "\" has " << from.size() << " sends and "
             << to.size() << " receives between stages " << message.from
             << " and " << message.to;
    Type type = to[0]->getResult(0).getType();
    if (from[0]->getOperand(0).getType() != type)
      return from[0]->emitError("H0905: sends ")
             << from[0]->getOperand(0).getType() << ", stage " << message.to
             << " receives " << type;
    auto sender = fragmentOf(from[0]), receiver = fragmentOf(to[0]);
    if (sender.has_value() != receiver.has_value() ||
        (sender && sender->kind != receiver->kind))
      return from[0]->emitError("H0905: is received in another kind of "
                                "fragment");
    return success();
  }

  ArrayRef<nn::ModelOp> models;
  /// The virtual stage of each layer. The key is the layer's path.
  DenseMap<Attribute, int64_t> stages;
  /// The schedule's actions (forward pass, backward pass, ...), in order, for
  /// the stage whose model is being verified.
  pipe::Line line;
  /// For each virtual stage (chunk) in `line`, the most micro-batches whose
  /// values it must save at the same time.
  DenseMap<int64_t, int64_t> slotsOfChunk;
  std::map<Message, SmallVector<Operation *>> sent, awaited;
};

/// Whether the model has the shapes of one rank, as it has after the phase
/// `spmd`. Shardings and operations on the whole model do not exist any more
/// then, so only the schedule is verified.
bool isLocal(nn::ModelOp model) {
  return llvm::is_contained({"spmd", "fuse", "kernels"}, model.getPhase());
}

struct Verify : VerifyPass<heddle::impl::PipeVerifyBase, Verify> {
  LogicalResult verify(ModuleOp module) {
    SmallVector<nn::ModelOp> stages;
    for (auto model : module.getOps<nn::ModelOp>()) {
      if (!isLocal(model) && (failed(verifyStates(model, "H0905")) ||
                              failed(shard::verifyShardings(model, "H0905"))))
        return failure();
      if (model.getStage()) {
        stages.push_back(model);
        continue;
      }
      for (auto step : model.getOps<nn::StepOp>())
        if (step.getKind() == nn::ProgramKind::Train &&
            failed(verifyTraining(model, step)))
          return failure();
    }
    return stages.empty() ? success() : StagesVerifier(stages).run();
  }

  LogicalResult verifyTraining(nn::ModelOp model, nn::StepOp step) {
    auto schedule = model.lookupSymbol<pipe::ScheduleOp>("schedule");
    if (!schedule)
      return step.emitError("H0905: the training step has no schedule");
    llvm::DenseMap<Attribute, int> staged;
    int64_t stages = 0;
    for (auto stage : model.getOps<pipe::StageOp>()) {
      if (static_cast<int64_t>(stage.getIndex()) != stages)
        return stage.emitError("H0905: stands in place ") << stages;
      ++stages;
      for (Attribute path : stage.getCalls())
        ++staged[path];
    }
    pipe::Schedule lines = readLines(schedule);
    int64_t chunks = pipe::chunksOf(lines), count = lines.size();
    if (count * chunks != stages)
      return schedule.emitError("H0905: has ")
             << count << " lines of " << chunks << " chunks for " << stages
             << " stages";
    auto verifyOne = [&](Operation *op) -> LogicalResult {
      if (auto loop = dyn_cast<nn::MicroBatchesOp>(op);
          loop && loop.getCount() != schedule.getMicroBatches())
        return op->emitError("H0905: runs ")
               << loop.getCount() << " micro-batches, the schedule "
               << schedule.getMicroBatches();
      auto call = dyn_cast<nn::CallOp>(op);
      if (!call)
        return success();
      auto found = findLayer(staged, call);
      int times = found == staged.end() ? 0 : found->second;
      if (times == 1)
        return success();
      return call.emitError("H0905: is in ")
             << times << " stages; one is right";
    };
    return verifyEach<Operation *>(step, verifyOne);
  }
};

} // namespace
