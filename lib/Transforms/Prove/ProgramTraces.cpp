//===- ProgramTraces.cpp - Makes traces from plans ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/ProgramTraces.h"
#include "IndexNumber.h"
#include "KernelTraces.h"
#include "ProgramStates.h"
#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/Pipe/Schedule.h"
#include "heddle/runtime/core/Traffic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SaveAndRestore.h"
#include <map>

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

namespace {

/// A buffer, or a part of it, as a command uses it.
struct Operand {
  Access access;
  RankTerm ofRank;
};

/// What is known about the values in one call of a command sequence: addresses
/// of buffers, values of indices, numbers of tokens (asynchronous operations).
struct Scope {
  DenseMap<Value, Operand> places;
  DenseMap<Value, Number> numbers;
  DenseMap<Value, int32_t> tokens;
  int64_t frame = 0;
  int32_t path = -1;
  plan::Guard guard; ///< That of the calls around the commands.
};

class Unroller {
public:
  Unroller(planir::ProgramOp program, std::optional<int64_t> rank)
      : program(program), symbols(program), mesh(meshOf(program)), rank(rank) {
    trace().stage = program.getStage().value_or(0);
    const dist::Strategy &strategy = program.getStrategy().getValue();
    trace().sendsInOrder = factsOf(strategy.target).libraryIsNccl &&
                           strategy.collectives == config::Collectives::Library;
    for (auto sequence : program.getOps<planir::SequenceOp>())
      numberCommands(sequence);
    trace().states = statesOf(program);
    trace().members = membersOf(program);
  }

  FailureOr<ProgramTrace> unroll(planir::SequenceOp sequence) {
    Scope scope;
    ports = sequence.getPortsAttr();
    if (failed(walkStep(sequence.getBody().front(), scope)))
      return failure();
    endBody({});
    return std::move(result);
  }

private:
  Trace &trace() { return result.trace; }

  /// Names all commands for error messages. They are numbered as in the
  /// attribute `live` of plan.buffer.
  void numberCommands(planir::SequenceOp sequence) {
    int64_t number = 0;
    sequence.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!isa<planir::CommandOpInterface>(op))
        return;
      names[op] = op->getName().getStringRef().str() + ", command " +
                  std::to_string(number++) + " of @" +
                  sequence.getSymName().str();
    });
  }

  /// Ends the current body: the commands since the end of the previous body
  /// become an entry of Trace::bodies, and the index of this entry is returned.
  /// If `runs` is true, the trace next executes the body once; a body without
  /// commands then gets no entry, and -1 is returned.
  int32_t endBody(BodyRun run, bool runs = true) {
    run.body = trace().bodies.size();
    if (body.empty() && runs)
      return -1;
    trace().bodies.push_back(std::move(body));
    body.clear();
    if (runs)
      trace().runs.push_back(run);
    return run.body;
  }

  //===--------------------------------------------------------------------===//
  // Commands
  //===--------------------------------------------------------------------===//

  /// Translates the commands of the step into a trace. Each loop, and each
  /// forward or backward pass of a pipeline stage, becomes a body of the trace.
  LogicalResult walkStep(Block &block, Scope &scope) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<planir::LoopOp>(op)) {
        endBody({});
        FailureOr<int32_t> run = walkRegion(loop.getBody(), scope);
        if (failed(run))
          return failure();
        for (uint64_t i = 0; i < loop.getCount(); ++i)
          trace().runs.push_back({*run, static_cast<int64_t>(i), 0});
      } else if (auto fragments = dyn_cast<planir::FragmentsOp>(op)) {
        endBody({});
        if (failed(walkFragments(fragments, scope)))
          return failure();
      } else if (failed(walkCommand(op, scope))) {
        return failure();
      }
    }
    return success();
  }

  /// Translates a region into a body of the trace: a loop, or a forward or
  /// backward pass of the stage. Its addresses depend on the micro-batch, and
  /// on the slot (entry of a state) that saves values of the micro-batch.
  FailureOr<int32_t> walkRegion(Region &region, Scope &scope) {
    Number iteration, slot;
    iteration.perIteration = slot.perSlot = 1;
    scope.numbers[region.getArgument(0)] = iteration;
    if (region.getNumArguments() > 1)
      scope.numbers[region.getArgument(1)] = slot;
    // Inside a loop no command can wait for communication that was started
    // before the loop.
    auto outside = std::move(scope.tokens);
    scope.tokens.clear();
    for (Operation &op : region.front())
      if (failed(walkCommand(op, scope)))
        return failure();
    scope.tokens = std::move(outside);
    return endBody({}, /*runs=*/false);
  }

  LogicalResult walkFragments(planir::FragmentsOp fragments, Scope &scope) {
    SmallVector<int32_t> bodies;
    for (Region &region : fragments.getBodies()) {
      FailureOr<int32_t> body = walkRegion(region, scope);
      if (failed(body))
        return failure();
      bodies.push_back(*body);
    }
    pipe::LineAttr line = fragments.getLine();
    for (const pipe::Action &action : line.getActions()) {
      size_t kind = line.kindOf(action);
      trace().runs.push_back({bodies[kind], action.microBatch,
                              action.microBatch % fragments.getSlots()[kind]});
    }
    return success();
  }

  LogicalResult walkCommand(Operation &op, Scope &scope) {
    // The limit of commands after unrolling. Because of nested loops and calls,
    // even a small plan can execute very many commands.
    constexpr int64_t most = 1 << 24;
    if (++walked > most)
      return op.emitError("H0913: a step runs more than ")
             << most << " commands and definitions";
    if (!scope.guard.isAlways() && !(guardOf(op, scope) == scope.guard))
      return op.emitError("H0913: has another condition than the call that "
                          "runs it");
    if (isa<planir::BufferOp, planir::StateRefOp, planir::SliceOp,
            planir::ViewOp>(op))
      return place(op, scope);
    if (op.getNumResults() == 1 && op.getResult(0).getType().isIndex())
      return compute(op, scope);
    if (op.getNumResults() == 1 && isa<MemRefType>(op.getResult(0).getType()))
      return op.emitError("H0913: is no buffer of a plan");
    if (auto call = dyn_cast<planir::CallOp>(op))
      return enter(call, scope);
    if (auto loop = dyn_cast<planir::LoopOp>(op)) {
      llvm::SaveAndRestore<plan::Guard> around(scope.guard, guardOf(op, scope));
      for (uint64_t i = 0; i < loop.getCount(); ++i) {
        Number iteration;
        iteration.constant = i;
        scope.numbers[loop.getBody().getArgument(0)] = iteration;
        for (Operation &inner : loop.getBody().front())
          if (failed(walkCommand(inner, scope)))
            return failure();
      }
      return success();
    }
    if (isa<planir::FragmentsOp>(op))
      return op.emitError("H0905: runs a schedule that is not the step's own");
    if (auto rows = dyn_cast<planir::CopyRowsOp>(op);
        rows && failed(checkPart(rows, scope)))
      return failure();
    if (names.count(&op))
      command(op, scope);
    return success();
  }

  /// Checks the operand `first` of a table lookup, which is subtracted from
  /// each id. If ranks split the table's rows, it must be the index of this
  /// rank's first row. If every rank has the whole table, it may be any
  /// constant, as in OPT's table of positions.
  LogicalResult checkPart(planir::CopyRowsOp copy, const Scope &scope) {
    auto rows = cast<MemRefType>(copy.getSource().getType()).getDimSize(0);
    Access table = scope.places.lookup(copy.getSource()).access;
    std::vector<std::string> axes = rowAxesAt(program, table.begin);
    Value given = copy.getFirst();
    Number first = given ? scope.numbers.lookup(given) : Number();
    Number expected;
    if (axes.empty())
      expected.constant = first.constant;
    else
      expected.ofRank[axes] = rows;
    if (first.ofRank == expected.ofRank &&
        first.constant == expected.constant && first.perIteration == 0 &&
        first.perSlot == 0 && (given || axes.empty()))
      return success();
    auto error = copy.emitError("H0914: copies rows of a table ");
    if (axes.empty())
      return error << "that every rank has, as if they had parts of it";
    return error << "of which rank n has " << rows << " from n times as many "
                 << "on, and begins with others";
  }

  /// In which steps a command is executed. A command in a call or loop with a
  /// guard has that guard. Conditions are numbered by their order in the
  /// program, which is the same in all pipeline stages.
  plan::Guard guardOf(Operation &op, const Scope &scope) {
    planir::Guard guard = planir::guardOf(&op);
    if (!guard)
      return scope.guard;
    if (conditions.empty())
      for (auto condition : program.getOps<planir::ConditionOp>())
        conditions.try_emplace(condition.getSymName(), conditions.size());
    return {conditions.lookup(guard.condition.getValue()), guard.value};
  }

  LogicalResult enter(planir::CallOp call, Scope &scope) {
    auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
    Scope inner;
    inner.frame = scope.frame + call.getFrameOffset();
    inner.path = trace().paths.size();
    trace().paths.push_back(call.getPath().str());
    inner.guard = guardOf(*call, scope);
    for (auto [argument, operand] :
         llvm::zip(callee.getArguments(), call.getOperands())) {
      if (operand.getType().isIndex())
        inner.numbers[argument] = scope.numbers.lookup(operand);
      else
        inner.places[argument] = scope.places.lookup(operand);
    }
    for (Operation &op : callee.getBody().front())
      if (failed(walkCommand(op, inner)))
        return failure();
    return success();
  }

  Event &append(Event::Kind kind, Operation &op, const Scope &scope) {
    Event event;
    event.kind = kind;
    event.path = scope.path;
    event.guard = guardOf(op, scope);
    auto [origin, isNew] = origins.try_emplace(&op, trace().names.size());
    if (isNew) {
      auto name = names.find(&op);
      trace().names.push_back(name == names.end() ? "plan.buffer"
                                                  : name->second);
      result.origins.push_back(&op);
    }
    event.origin = origin->second;
    if (auto command = dyn_cast<planir::CommandOpInterface>(op)) {
      if (planir::Stream stream = command.getOwnStream();
          stream != planir::Stream::Communication)
        event.stream = planir::streamOf(stream);
      for (const planir::Access &used : command.getAccesses(symbols)) {
        Access access = scope.places.lookup(op.getOperand(used.operand)).access;
        access.writes = used.writes;
        access.operand = used.operand;
        event.accesses.push_back(access);
      }
    }
    body.push_back(std::move(event));
    return body.back();
  }

  void command(Operation &op, Scope &scope) {
    if (auto launch = dyn_cast<planir::LaunchOp>(op))
      return launched(launch, scope);
    if (auto started = dyn_cast<planir::CollectiveOp>(op))
      return start(started, scope);
    if (isa<planir::CopyOp>(op))
      append(Event::Kind::Copy, op, scope);
    if (auto rows = dyn_cast<planir::CopyRowsOp>(op)) {
      Event &event = append(Event::Kind::CopyRows, op, scope);
      if (rows.getFirst())
        event.rankAxes = axesOf(scope.numbers.lookup(rows.getFirst()).ofRank);
    }
    if (isa<planir::FillOp>(op))
      append(Event::Kind::Fill, op, scope);
    if (auto record = dyn_cast<planir::RecordOp>(op)) {
      Event &event = append(Event::Kind::Record, op, scope);
      event.carries = bool(record.getCarried());
      event.token = scope.tokens[record.getToken()] =
          event.carries ? carriedToken(*record.getCarried()) : trace().tokens++;
    }
    if (auto settle = dyn_cast<planir::SettleOp>(op))
      append(Event::Kind::Settle, op, scope).token =
          carriedToken(settle.getNumber());
    if (auto wait = dyn_cast<planir::WaitOp>(op)) {
      bool joins = wait.getToken().getDefiningOp<planir::RecordOp>();
      auto token = scope.tokens.find(wait.getToken());
      append(joins ? Event::Kind::Join : Event::Kind::Wait, op, scope).token =
          token == scope.tokens.end() ? -1 : token->second;
    }
    if (auto sent = dyn_cast<planir::SendOp>(op))
      message(Event::Kind::Send, sent, scope);
    if (auto received = dyn_cast<planir::RecvOp>(op))
      message(Event::Kind::Receive, received, scope);
    if (auto flush = dyn_cast<planir::FlushOp>(op)) {
      Event &event = append(Event::Kind::Flush, op, scope);
      event.number = trace().messages.size();
      event.left = flush.getLeft();
      trace().messages.push_back({{"", 0, flush.getChannel().str()}, 0, {}});
    }
  }

  /// Returns the token (the index that a wait names) of store `number`, which
  /// this step leaves unfinished. The next step waits with the same token.
  int32_t carriedToken(int64_t number) {
    auto [token, isNew] = carriedTokens.try_emplace(number, trace().tokens);
    trace().tokens += isNew;
    return token->second;
  }

  void launched(planir::LaunchOp launch, const Scope &scope) {
    auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
    Event &event = append(Event::Kind::Launch, *launch, scope);
    for (Operation &op : kernel.getBody().front()) {
      event.updates |= op.hasTrait<nn::Updates>();
      event.writesCache |= isa<nn::CacheWriteOp>(op);
      event.readsCache |= isa<nn::PagedAttentionOp>(op);
    }
    auto [code, isNew] = kernels.try_emplace(kernel, trace().kernels.size());
    if (isNew)
      trace().kernels.push_back(describe(kernel));
    event.kernel = code->second;
    for (Value operand : launch.getOperands())
      if (operand.getType().isIndex())
        event.rankAxes |= axesOf(scope.numbers.lookup(operand).ofRank);
  }

  void start(planir::CollectiveOp op, Scope &scope) {
    Collective collective;
    collective.what = planir::collectiveOf(op);
    collective.targetBytes = dist::byteSize(op.getTarget().getType());
    collective.sourceBytes = dist::byteSize(op.getSource().getType());
    collective.stagingBytes = dist::byteSize(op.getStaging().getType());
    collective.reason = op.getReason().str();
    Operand target = scope.places.lookup(op.getTarget());
    collective.targetBuffer = target.access.buffer;
    collective.targetBegin = target.ofRank.empty()
                                 ? target.access.begin
                                 : target.access.choices.begin;
    Event &event = append(Event::Kind::Start, *op, scope);
    event.number = trace().collectives.size();
    trace().collectives.push_back(std::move(collective));
    event.token = scope.tokens[op.getToken()] = trace().tokens++;
  }

  template <typename MessageOp>
  void message(Event::Kind kind, MessageOp op, const Scope &scope) {
    Event &event = append(kind, *op, scope);
    event.number = trace().messages.size();
    Type type = op.getBuffer().getType();
    trace().messages.push_back(
        {{op.getAxis().str(), static_cast<int64_t>(op.getDelta()),
          op.getChannel().str()},
         dist::byteSize(type),
         planir::dtypeOf(cast<MemRefType>(type).getElementType())});
  }

  //===--------------------------------------------------------------------===//
  // Addresses of operands
  //===--------------------------------------------------------------------===//

  LogicalResult place(Operation &op, Scope &scope) {
    Value value = op.getResult(0);
    if (auto view = dyn_cast<planir::ViewOp>(op)) {
      Operand part = scope.places.lookup(view.getSource());
      part.access.bytes = dist::byteSize(value.getType());
      int64_t width = dist::byteSize(getElementTypeOrSelf(value));
      part.access.begin += static_cast<int64_t>(view.getElement()) * width;
      scope.places[value] = part;
      return success();
    }
    if (auto slice = dyn_cast<planir::SliceOp>(op)) {
      scope.places[value] = sliceOf(slice, scope);
      return success();
    }
    Operand whole;
    Access &access = whole.access;
    access.bytes = dist::byteSize(value.getType());
    access.buffer = trace().buffers.size();
    if (auto ref = dyn_cast<planir::StateRefOp>(op)) {
      access.space = Space::Persistent;
      access.begin = firstOf(symbols, ref.getState());
      access.inSlot = isSaved(ref.getState());
    } else {
      auto buffer = cast<planir::BufferOp>(op);
      bool onDevice = buffer.getMemory() == planir::MemoryKind::Device;
      access.begin =
          onDevice ? scope.frame + buffer.getOffset()
                   : firstOf(program.getArenaBytes(), buffer.getMemory()) +
                         buffer.getOffset();
    }
    trace().buffers.push_back({access.begin, access.begin + access.bytes});
    if (access.space == Space::Arena) {
      Event &event = append(Event::Kind::Fresh, op, scope);
      auto buffer = cast<planir::BufferOp>(op);
      nn::PortAttr port = buffer.getPort();
      access.writes = bool(buffer.getInput());
      event.accesses.push_back(access);
      if (port)
        trace().ports.push_back({planir::roleOf(port.getRole()),
                                 port.getKey().str(), access.buffer,
                                 event.origin, axesOfPort(port.getKey()),
                                 bool(buffer.getOutput())});
    }
    scope.places[value] = whole;
    return success();
  }

  /// Whether the state holds activations between forward and backward pass.
  bool isSaved(StringRef name) {
    auto state = symbols.lookup<planir::StateOp>(name);
    return state && planir::roleOf(state) == nn::StateRole::Saved;
  }

  Operand sliceOf(planir::SliceOp slice, Scope &scope) {
    Operand part = scope.places.lookup(slice.getSource());
    Access &access = part.access;
    prove::Range whole = {access.begin, access.begin + access.bytes};
    bool chosen = access.varies() || !part.ofRank.empty();
    access.bytes = dist::byteSize(slice.getBuffer().getType());
    Number number = scope.numbers.lookup(slice.getIndex()).times(access.bytes);
    access.begin = sum(access.begin, number.constant);
    access.perIteration = sum(access.perIteration, number.perIteration);
    access.perSlot = sum(access.perSlot, number.perSlot);
    access.inSlot |= number.perSlot != 0 && access.space == Space::Persistent;
    if (!chosen && !number.isConstant())
      access.choices = whole;
    if (number.ofRank.empty())
      return part;
    for (const auto &[axes, factor] : number.ofRank)
      part.ofRank[axes] = sum(part.ofRank[axes], factor);
    access.rankAxes |= axesOf(number.ofRank);
    int64_t first = 0, last = 0;
    for (const auto &[axes, factor] : number.ofRank) {
      auto [low, high] = coordinates(axes);
      first = sum(first, product(low, factor));
      last = sum(last, product(high, factor));
    }
    access.begin = sum(access.begin, first);
    access.spread = sum(access.spread, last - first);
    if (access.spread != 0)
      access.rankTerm = rankTerms.try_emplace(part.ofRank, rankTerms.size() + 1)
                            .first->second;
    return part;
  }

  Axes axesOfPort(StringRef port) {
    auto split = ports ? ports.getAs<DictionaryAttr>(port) : DictionaryAttr();
    return split ? prove::axesOf(
                       split.getAs<dist::TensorShardingAttr>("sharding"))
                 : 0;
  }

  /// Returns the lowest and the highest coordinate along `axes` of the ranks
  /// that this trace represents.
  std::pair<int64_t, int64_t>
  coordinates(const std::vector<std::string> &axes) {
    if (rank)
      return {mesh.coordinate(*rank, axes), mesh.coordinate(*rank, axes)};
    int64_t perStage = mesh.ranks() / mesh.stages();
    int64_t first = trace().stage * perStage;
    return {mesh.coordinate(first, axes),
            mesh.coordinate(first + perStage - 1, axes)};
  }

  //===--------------------------------------------------------------------===//
  // Indices
  //===--------------------------------------------------------------------===//

  LogicalResult compute(Operation &op, Scope &scope) {
    Number &number = scope.numbers[op.getResult(0)];
    auto operand = [&](unsigned index) {
      return scope.numbers.lookup(op.getOperand(index));
    };
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      number.constant = std::clamp(
          cast<IntegerAttr>(constant.getValue()).getInt(), -tooMany, tooMany);
    else if (auto own = dyn_cast<planir::RankOp>(op))
      number.ofRank[planir::namesOf(own.getAxes())] = 1;
    else if (isa<arith::AddIOp>(op))
      number = operand(0).plus(operand(1));
    else if (isa<arith::MulIOp>(op) && operand(1).isConstant())
      number = operand(0).times(operand(1).constant);
    else if (isa<arith::MulIOp>(op) && operand(0).isConstant())
      number = operand(1).times(operand(0).constant);
    else
      return op.emitError("H0913: is no sum of multiples of numbers that are "
                          "known when a plan is loaded");
    return success();
  }

  planir::ProgramOp program;
  /// The numbers of conditions, by their names.
  llvm::StringMap<int64_t> conditions;
  SymbolTable symbols;
  plan::Mesh mesh;
  std::optional<int64_t> rank;
  ProgramTrace result;
  Body body; ///< The events of the body that is being unrolled.
  int64_t walked = 0;
  DenseMap<Operation *, std::string> names;
  DenseMap<Operation *, int32_t> origins, kernels;
  DictionaryAttr ports; ///< The shardings of the step's inputs and outputs.
  std::map<RankTerm, int32_t> rankTerms;
  std::map<int64_t, int32_t> carriedTokens;
};

} // namespace

plan::Mesh heddle::prove::meshOf(planir::ProgramOp program) {
  return dist::meshOf(program.getStrategy().getValue());
}

SmallVector<planir::ProgramOp> heddle::prove::programsOf(ModuleOp module) {
  SmallVector<planir::ProgramOp> programs;
  for (auto program : module.getOps<planir::ProgramOp>())
    programs.push_back(program);
  llvm::stable_sort(programs, [](planir::ProgramOp a, planir::ProgramOp b) {
    return a.getStage().value_or(0) < b.getStage().value_or(0);
  });
  return programs;
}

FailureOr<ProgramTrace> heddle::prove::traceOf(planir::ProgramOp program,
                                               planir::SequenceOp sequence,
                                               std::optional<int64_t> rank) {
  return Unroller(program, rank).unroll(sequence);
}

void heddle::prove::report(const Fault &fault, ArrayRef<ProgramTrace> traces) {
  auto origin = [&](const Fault::Source &source) {
    return traces[source.trace].origins[source.origin];
  };
  InFlightDiagnostic diagnostic = origin(fault.sources.front())->emitError()
                                  << codeOf(fault.kind) << ": " << fault.text;
  for (const Fault::Source &source : ArrayRef(fault.sources).drop_front())
    diagnostic.attachNote(origin(source)->getLoc()) << "the other one";
}
