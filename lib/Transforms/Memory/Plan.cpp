//===- Plan.cpp - Assigns memory and emits the plan -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `memory-plan`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "CarryStores.h"
#include "EmitSequence.h"
#include "Frame.h"
#include "Layout.h"
#include "Prefetch.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/Transforms/Memory/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

namespace heddle {
#define GEN_PASS_DEF_MEMORYPLAN
#include "include/heddle/Transforms/Memory/Passes.h.inc"
} // namespace heddle

namespace {

/// One attempt to plan a function: which values share memory, the commands, and
/// the offsets. A step is planned several times, with its transfers moved to
/// different positions, to find out which positions fit into memory.
struct Attempt {
  Attempt(FunctionOpInterface function, const SymbolTable &symbols,
          planir::ProgramOp program, bool library,
          function_ref<int64_t(StringRef)> frameOf)
      : storage(function, symbols),
        emitter(function, symbols, storage, program, library),
        sequence(emitter.emit()), planned(frame.plan(sequence, frameOf)) {}

  Storage storage;
  SequenceEmitter emitter;
  planir::SequenceOp sequence;
  Frame frame;
  /// Failure if commands on different streams are not ordered by waits.
  LogicalResult planned;
};

struct Plan : heddle::impl::MemoryPlanBase<Plan> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<planir::ProgramOp> programs;
    for (auto model :
         llvm::make_early_inc_range(getOperation().getOps<nn::ModelOp>())) {
      planir::ProgramOp program = plan(model);
      if (!program)
        return signalPassFailure();
      programs.push_back(program);
    }
    if (failed(checkBudgets(programs)))
      signalPassFailure();
  }

private:
  /// Returns functions and steps, callees before callers.
  SmallVector<FunctionOpInterface> inOrder(nn::ModelOp model,
                                           const SymbolTable &symbols) {
    SmallVector<FunctionOpInterface> order;
    DenseSet<Operation *> done;
    std::function<void(FunctionOpInterface)> visit =
        [&](FunctionOpInterface function) {
          if (!done.insert(function).second)
            return;
          function->walk([&](nn::CallOp call) {
            visit(symbols.lookup<nn::FuncOp>(call.getCallee()));
          });
          order.push_back(function);
        };
    for (auto function : model.getOps<nn::FuncOp>())
      visit(cast<FunctionOpInterface>(function.getOperation()));
    for (auto step : model.getOps<nn::StepOp>())
      visit(cast<FunctionOpInterface>(step.getOperation()));
    return order;
  }

  planir::ProgramOp createProgram(nn::ModelOp model) {
    OpBuilder builder(model);
    IntegerAttr zero = builder.getI64IntegerAttr(0);
    auto none = planir::BytesAttr::get(model.getContext(), 0);
    auto program = builder.create<planir::ProgramOp>(
        model.getLoc(), model.getSymNameAttr(), model.getFamilyAttr(),
        model.getPhaseAttr(), model.getStrategy(), model.getConfigAttr(),
        model.getWeights(), none, none, zero, zero, zero,
        builder.getDictionaryAttr({}), model.getStageAttr(),
        /*files=*/DictionaryAttr());
    program.getBody().emplaceBlock();
    builder.setInsertionPointToStart(program.getBodyBlock());
    for (auto condition : model.getOps<nn::ConditionOp>())
      builder.create<planir::ConditionOp>(
          condition.getLoc(), condition.getSymName(), condition.getHolds());
    return program;
  }

  /// Plans one model. Emits an error and returns null if the commands of a
  /// function cannot be ordered.
  planir::ProgramOp plan(nn::ModelOp model) {
    const dist::Strategy &strategy = model.getStrategy().getValue();
    planir::ProgramOp program = createProgram(model);
    MemoryMap map = layOutStates(model, program);
    SymbolTable symbols(model);
    llvm::StringMap<int64_t> frames;
    auto frameOf = [&](StringRef name) { return frames.lookup(name); };
    plan::PerMemory<int64_t> arena;
    int64_t scratch = scratchOf(model, alignmentFor(strategy));
    int64_t room = roomOf(map, strategy);
    auto fits = [&](int64_t frame) {
      return strategy.memoryBudget == 0 ||
             arenaBytesOf(frame, scratch, strategy) <= room;
    };
    // The collectives of an MPI library may need more staging memory in the
    // plan than Heddle's own collectives do. Those of NCCL need none in the
    // plan: NCCL allocates its staging memory itself.
    bool library = strategy.collectives == config::Collectives::Library &&
                   !factsOf(strategy.target).libraryIsNccl;
    for (FunctionOpInterface function : inOrder(model, symbols)) {
      auto step = dyn_cast<nn::StepOp>(function.getOperation());
      auto attempt = [&] {
        return std::make_unique<Attempt>(function, symbols, program, library,
                                         frameOf);
      };
      if (step)
        useRoom(step, symbols, strategy, attempt, fits);
      while (true) {
        std::unique_ptr<Attempt> last = attempt();
        if (failed(last->planned))
          return {};
        const Frame &frame = last->frame;
        if (step && !fits(frame.numBytes()) &&
            delayAhead(last->emitter, frame)) {
          last->sequence.erase();
          continue;
        }
        if (auto layer = dyn_cast<nn::FuncOp>(function.getOperation()))
          layer.setTies(last->storage.ties);
        frames[function.getName()] = frame.numBytes();
        numCopies += last->emitter.numCopies;
        if (step && frame.numBytes() >= arena[plan::MemoryKind::Device])
          map.arenaOwners = frame.peak().owners;
        for (nn::MemoryKind kind : planir::memoryKinds) {
          int64_t &most = arena[planir::memoryOf(kind)];
          most = std::max(most, step ? frame.numBytes(kind) : 0);
        }
        break;
      }
    }
    moveKernels(model, program);
    finish(program, map, arena, scratch, strategy);
    model.erase();
    return program;
  }

  /// Whether the host's memory counts as the device's memory. On a CPU it does,
  /// unless the user gives a budget for the host's memory.
  static bool hostCounts(const dist::Strategy &strategy) {
    return !factsOf(strategy.target).hasDeviceMemory &&
           strategy.hostBudget == 0;
  }

  /// Returns the bytes of the device's memory budget that remain for temporary
  /// memory, after the states that live across steps.
  static int64_t roomOf(const MemoryMap &map, const dist::Strategy &strategy) {
    auto pages = [&](plan::MemoryKind kind) {
      return alignTo(map.persistentBytes[kind], pageBytes);
    };
    int64_t room = strategy.memoryBudget - pages(plan::MemoryKind::Device);
    if (hostCounts(strategy))
      room -= pages(plan::MemoryKind::Host) + pages(plan::MemoryKind::Pinned);
    return room;
  }

  /// Starts fetches of offloaded states earlier, and waits for stores later, as
  /// far as the step still fits the memory budget. Without a budget, the step
  /// may not need more memory than before.
  void useRoom(nn::StepOp step, const SymbolTable &symbols,
               const dist::Strategy &strategy,
               function_ref<std::unique_ptr<Attempt>()> attempt,
               function_ref<bool(int64_t)> fits) {
    // The size of the step's frame (its temporary memory) before this function
    // moves any fetch or store to another place in the step.
    std::optional<int64_t> first;
    bool mayFit = true;
    // A copy of the original step, made if the original step exceeds the memory
    // budget. The copy is restored if moving transfers does not help.
    OwningOpRef<nn::StepOp> before;
    auto planNow = [&] {
      std::unique_ptr<Attempt> now = attempt();
      if (!first && succeeded(now->planned)) {
        first = now->frame.numBytes();
        // The frame may exceed the budget only because of unused bytes between
        // its buffers. Moving transfers can reduce these bytes, so try it if
        // the bytes in use alone fit.
        mayFit = fits(now->frame.peak().numBytes());
        if (!fits(*first))
          before = step.clone();
      }
      now->sequence.erase();
      return now;
    };
    auto mayBe = [&] {
      std::unique_ptr<Attempt> now = planNow();
      if (failed(now->planned) || !mayFit)
        return false;
      bool hasRoom = strategy.memoryBudget > 0 && !before;
      int64_t bytes = now->frame.numBytes();
      return hasRoom ? fits(bytes) : bytes <= *first;
    };
    // On a GPU a step is a CUDA graph, which ends only when all of its copies
    // are done. No store can then continue during the next step. For other
    // targets, decide about stores before fetches, because tiles that are
    // fetched early would take the memory that continuing stores need.
    size_t carried = 0;
    if (!factsOf(strategy.target).stepIsGraph)
      carried = carryStores(step, symbols, mayBe);
    size_t early = prefetch(step, symbols, mayBe);
    if (before && !fits(planNow()->frame.numBytes())) {
      step.getBody().takeBody(before->getBody());
      return;
    }
    numCarried += carried;
    numEarly += early;
  }

  /// Called if a step exceeds the memory budget. Delays the all-gathers and
  /// fetches that are in flight at the peak of memory, until just before the
  /// first use of their results. Returns whether any of them moved.
  bool delayAhead(const SequenceEmitter &emitter, const Frame &frame) {
    int64_t peak = frame.peak().command;
    SmallVector<std::pair<Operation *, Operation *>> ahead;
    for (auto [op, command] : emitter.started) {
      if (!isa<dist::AllGatherOp, dist::FetchOp, dist::FetchRowsOp>(op) ||
          !op->hasAttr("pending"))
        continue;
      Operation *wait = *op->getUsers().begin();
      const planir::Span &span = frame.spanOf(command);
      bool isAhead =
          op->getNextNode() != wait && span.first <= peak && peak < span.last;
      if (isAhead)
        ahead.push_back({op, wait});
    }
    for (auto [op, wait] : ahead)
      op->moveBefore(wait);
    numDelayed += ahead.size();
    return !ahead.empty();
  }

  /// The most scratch memory that any kernel of the model needs: per thread on
  /// a CPU, per launch on a GPU.
  int64_t scratchOf(nn::ModelOp model, int64_t alignment) {
    int64_t scratch = 0;
    for (auto kernel : model.getOps<planir::KernelOp>())
      scratch = std::max(scratch, kernel.mostScratchBytes());
    return alignTo(scratch, alignment);
  }

  /// Moves what a plan needs of its model into `program`: kernels, their
  /// compiled code (plan.object), the mesh and the schedule.
  void moveKernels(nn::ModelOp model, planir::ProgramOp program) {
    for (Operation &op : llvm::make_early_inc_range(*model.getBodyBlock()))
      if (!isa<nn::NNDialect>(op.getDialect()))
        op.moveBefore(program.getBodyBlock(), program.getBodyBlock()->end());
  }

  static int64_t arenaBytesOf(int64_t frame, int64_t scratch,
                              const dist::Strategy &strategy) {
    return alignTo(alignTo(frame, alignmentFor(strategy)) +
                       scratch * dist::scratchUsers(strategy),
                   pageBytes);
  }

  void finish(planir::ProgramOp program, MemoryMap &map,
              const plan::PerMemory<int64_t> &arena, int64_t scratch,
              const dist::Strategy &strategy) {
    int64_t frame = arena[plan::MemoryKind::Device];
    int64_t offset = alignTo(frame, alignmentFor(strategy));
    int64_t scratchBytes = scratch * dist::scratchUsers(strategy);
    int64_t arenaBytes = arenaBytesOf(frame, scratch, strategy);
    SmallVector<int64_t> arenas, persistent;
    for (nn::MemoryKind kind : planir::memoryKinds) {
      int64_t bytes = alignTo(arena[planir::memoryOf(kind)], pageBytes);
      bool isDevice = kind == nn::MemoryKind::Device;
      arenas.push_back(isDevice ? arenaBytes - shrink * pageBytes : bytes);
      if (!isDevice && bytes > 0) // Buffers for transfers.
        map.owners["windows of states in " +
                   nn::stringifyMemoryKind(kind).str() + " memory"] += bytes;
    }
    for (int64_t bytes : map.persistentBytes.values) {
      persistent.push_back(alignTo(bytes, pageBytes));
      map.owners["padding to pages"] += persistent.back() - bytes;
    }
    program.setPersistentBytesAttr(
        planir::BytesAttr::get(&getContext(), persistent));
    program.setArenaBytesAttr(planir::BytesAttr::get(&getContext(), arenas));
    setFiles(program, map.fileBytes);
    int64_t staging = stagingBytesOf(program);
    program.setStagingBytes(staging);
    if (staging > 0)
      map.owners["copies between files and the device"] = staging;
    program.setScratchOffset(offset);
    program.setScratchBytesPerThread(scratch);
    int64_t owned = scratchBytes;
    for (auto &[owner, bytes] : map.arenaOwners) {
      map.owners[owner] += bytes;
      owned += bytes;
    }
    map.owners[factsOf(strategy.target).hasScratchPerThread
                   ? plan::scratchOwner
                   : "scratch of kernels"] = scratchBytes;
    map.owners[plan::unusedOwner] = arenaBytes - owned;
    Builder builder(&getContext());
    NamedAttrList owners;
    for (auto &[owner, bytes] : map.owners)
      owners.append(owner, builder.getI64IntegerAttr(bytes));
    program.setOwnersAttr(owners.getDictionary(&getContext()));
  }

  static void setFiles(planir::ProgramOp program,
                       const plan::PerFile<int64_t> &bytes) {
    Builder builder(program.getContext());
    NamedAttrList files;
    for (plan::FileRole role : plan::fileRoles)
      if (bytes[role] > 0)
        files.append(plan::nameOf(role),
                     builder.getI64IntegerAttr(bytes[role]));
    if (!files.empty())
      program.setFilesAttr(files.getDictionary(program.getContext()));
  }

  /// The size that a program needs of one kind of memory, and the budget that
  /// limits it.
  struct Bound {
    planir::ProgramOp program;
    /// The name of the kind of memory, for error messages. Empty for the
    /// device's memory.
    StringRef what;
    int64_t bytes = 0, budget = 0;

    // The limit that is used if there is no budget. No machine has more memory.
    // The prove phase relies on it, because its arithmetic on addresses
    // saturates at this number.
    static constexpr int64_t most = int64_t(1) << 42;
    bool hasBudget() const { return budget > 0 && budget < most; }
    int64_t limit() const { return hasBudget() ? budget : most; }
    int64_t excess() const { return bytes - limit(); }
  };

  static std::array<Bound, 3> boundsOf(planir::ProgramOp program) {
    using planir::MemoryKind;
    const dist::Strategy &strategy = program.getStrategy().getValue();
    auto peak = [&](MemoryKind kind) {
      return program.getPersistentBytes().of(kind) +
             program.getArenaBytes().of(kind);
    };
    Bound device = {program, "", peak(MemoryKind::Device),
                    strategy.memoryBudget};
    Bound host = {program, " in the host's memory",
                  peak(MemoryKind::Host) + peak(MemoryKind::Pinned) +
                      static_cast<int64_t>(program.getStagingBytes()),
                  strategy.hostBudget};
    if (hostCounts(strategy)) {
      device.bytes += host.bytes;
      host.bytes = 0;
    }
    return {device, host,
            Bound{program, " on file", peak(MemoryKind::File),
                  strategy.fileBudget}};
  }

  /// Reports the first kind of memory whose budget is too small, for the stage
  /// that exceeds this budget most. Does not suggest a change of settings: the
  /// driver does, because it can try other plans.
  LogicalResult checkBudgets(ArrayRef<planir::ProgramOp> programs) {
    std::array<Bound, 3> worst;
    for (planir::ProgramOp program : programs)
      for (auto [bound, most] : llvm::zip_equal(boundsOf(program), worst))
        if (!most.program || bound.excess() > most.excess())
          most = bound;
    for (const Bound &bound : worst)
      if (bound.program && bound.excess() > 0)
        return tell(bound);
    return success();
  }

  static InFlightDiagnostic tell(const Bound &bound) {
    planir::ProgramOp program = bound.program;
    InFlightDiagnostic diagnostic = program.emitError("H0201: the plan needs ")
                                    << plan::formatExactBytes(bound.bytes)
                                    << bound.what;
    if (auto stage = program.getStage())
      diagnostic << " in stage " << *stage;
    diagnostic << (bound.hasBudget() ? ", the budget is "
                                     : ", a rank has at most ")
               << plan::formatExactBytes(bound.limit());
    for (NamedAttribute owner : program.getOwners())
      diagnostic.attachNote()
          << owner.getName().getValue() << ": "
          << plan::formatExactBytes(
                 cast<IntegerAttr>(owner.getValue()).getInt());
    return diagnostic;
  }
};

} // namespace
