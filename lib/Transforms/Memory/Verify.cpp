//===- Verify.cpp - Verifies the offsets of a plan ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `memory-verify`: see Passes.td. It reads the plan alone,
// and shares with `memory-plan` only the order in which commands run
// (dialects/Plan/Lifetimes.h).
//
//===----------------------------------------------------------------------===//

#include "Layout.h"
#include "VerifyText.h"
#include "dialects/Plan/Lifetimes.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Memory/Packing.h"
#include "heddle/Transforms/Memory/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace heddle;

using planir::MemoryKind;

namespace heddle {
#define GEN_PASS_DEF_MEMORYVERIFY
#include "include/heddle/Transforms/Memory/Passes.h.inc"
} // namespace heddle

namespace {

/// The bytes [offset, offset + bytes), which are in use from command `first` to
/// command `last`. Stores of the previous step may also use them until command
/// `settled`.
struct Region {
  Operation *op;
  int64_t offset, bytes, first, last;
  int64_t settled = -1;
  /// Whether all commands that use the bytes run after the stores of the
  /// previous step are done.
  bool followsCarried = false;

  bool meets(const Region &other) const {
    return (first <= other.last && other.first <= last) || finds(other) ||
           other.finds(*this);
  }

private:
  bool finds(const Region &left) const {
    return first <= left.settled && !followsCarried;
  }
};

/// Returns the end of a range of bytes. It is unsigned, so that an overflow is
/// defined.
uint64_t endOf(int64_t offset, int64_t bytes) {
  return static_cast<uint64_t>(offset) + static_cast<uint64_t>(bytes);
}

struct Verify : VerifyPass<heddle::impl::MemoryVerifyBase, Verify> {
  LogicalResult verify(planir::ProgramOp program) {
    if (failed(memory::verifyText(program)) || failed(verifyStates(program)))
      return failure();
    SymbolTable symbols(program);
    if (failed(verifyStateRefs(symbols, program)))
      return failure();
    DenseMap<Operation *, bool> finished;
    int64_t frames = 0;
    for (auto sequence : program.getOps<planir::SequenceOp>()) {
      if (!finished.contains(sequence) &&
          failed(verifyCalls(symbols, sequence, finished)))
        return failure();
      if (failed(verifySequence(symbols, sequence)))
        return failure();
      if (sequence.getKind())
        frames = std::max<int64_t>(frames, sequence.getFrameBytes());
    }
    int64_t staging = memory::stagingBytesOf(program);
    if (static_cast<int64_t>(program.getStagingBytes()) < staging)
      return program.emitError("H0913: copies go through ")
             << staging << " bytes of pinned memory, staging_bytes are "
             << program.getStagingBytes();
    const dist::Strategy &strategy = program.getStrategy().getValue();
    int64_t users = dist::scratchUsers(strategy);
    int64_t alignment = memory::alignmentFor(strategy);
    int64_t scratchOffset = program.getScratchOffset();
    if (scratchOffset % alignment)
      return program.emitError("H0913: scratch begins at ")
             << scratchOffset << ", which is no multiple of " << alignment;
    if (scratchOffset < frames)
      return program.emitError("H0913: scratch begins at ")
             << scratchOffset << ", inside the frames of " << frames
             << " bytes";
    int64_t arena = program.getArenaBytes().of(MemoryKind::Device);
    int64_t scratch = 0;
    if (llvm::MulOverflow<int64_t>(program.getScratchBytesPerThread(), users,
                                   scratch) ||
        scratchOffset > arena || scratch > arena - scratchOffset)
      return program.emitError("H0913: the arena has ")
             << arena << " bytes, frames and scratch need "
             << endOf(scratchOffset, scratch);
    return verifyScratch(program);
  }

  /// Checks that references to states end inside the persistent region, the
  /// memory that keeps its contents across steps.
  LogicalResult verifyStateRefs(const SymbolTable &symbols,
                                planir::ProgramOp program) {
    auto verifyOne = [&](planir::StateRefOp reference) -> LogicalResult {
      auto [memory, begin] = memory::placeOf(symbols, reference);
      int64_t bytes = dist::byteSize(reference.getBuffer().getType());
      int64_t size = program.getPersistentBytes().of(memory);
      if (bytes <= size && begin <= size - bytes)
        return success();
      return reference.emitError("H0913: bytes [")
             << begin << ", " << endOf(begin, bytes)
             << ") leave the persistent region of " << size << " bytes";
    };
    return verifyEach<planir::StateRefOp>(program, verifyOne);
  }

  /// Checks that command sequences do not call themselves, directly or
  /// indirectly.
  LogicalResult verifyCalls(const SymbolTable &symbols,
                            planir::SequenceOp sequence,
                            DenseMap<Operation *, bool> &finished) {
    finished[sequence] = false;
    auto verifyOne = [&](planir::CallOp call) -> LogicalResult {
      auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
      auto known = finished.find(callee);
      if (known == finished.end())
        return verifyCalls(symbols, callee, finished);
      if (known->second)
        return success();
      return call.emitError("H0913: is in a circle of calls: ")
             << call.getSequenceAttr() << " calls itself";
    };
    LogicalResult result = verifyEach<planir::CallOp>(sequence, verifyOne);
    finished[sequence] = true;
    return result;
  }

  LogicalResult verifyScratch(planir::ProgramOp program) {
    for (auto kernel : program.getOps<planir::KernelOp>())
      if (uint64_t(kernel.mostScratchBytes()) >
          program.getScratchBytesPerThread())
        return kernel.emitError("H0913: needs ")
               << kernel.mostScratchBytes() << " bytes of scratch, there are "
               << program.getScratchBytesPerThread();
    return success();
  }

  /// Checks the division of the persistent region (the memory that keeps its
  /// contents across steps) into files: a file has whole pages, and no state
  /// lies in two files.
  LogicalResult verifyFiles(planir::ProgramOp program,
                            ArrayRef<Region> onFile) {
    plan::PerFile<int64_t> bytes = planir::fileBytesOf(program);
    int64_t size = program.getPersistentBytes().of(MemoryKind::File), end = 0;
    for (plan::FileRole role : plan::fileRoles) {
      if (bytes[role] % memory::pageBytes != 0 || bytes[role] > size - end)
        return program.emitError("H0913: the file of role ")
               << plan::nameOf(role) << " has " << bytes[role]
               << " bytes: no whole pages, or more than the persistent region";
      end += bytes[role];
      for (const Region &state : onFile)
        if (state.offset < end && end < state.offset + state.bytes)
          return state.op->emitError("H0913: bytes [")
                 << state.offset << ", " << state.offset + state.bytes
                 << ") leave the file of role " << plan::nameOf(role)
                 << ", which ends at " << end;
    }
    if (end != size)
      return program.emitError("H0913: files have ")
             << end << " bytes, the persistent region on file has " << size;
    return success();
  }

  LogicalResult verifyStates(planir::ProgramOp program) {
    for (MemoryKind kind : planir::memoryKinds) {
      SmallVector<Region> regions;
      auto add = [&](auto op) {
        if (op.getMemory() == kind)
          regions.push_back({op, static_cast<int64_t>(op.getOffset()),
                             dist::byteSize(op.getType()), 0, 0});
      };
      for (auto state : program.getOps<planir::StateOp>())
        if (!state.getFlat())
          add(state);
      for (auto flat : program.getOps<planir::FlatOp>())
        add(flat);
      if (failed(verifyRegions(regions, program.getPersistentBytes().of(kind),
                               "the persistent region")))
        return failure();
      if (kind == MemoryKind::File && failed(verifyFiles(program, regions)))
        return failure();
    }
    return success();
  }

  /// Checks that regions (such as buffers) lie inside of `size` bytes, are
  /// aligned, and do not overlap while in use.
  LogicalResult verifyRegions(MutableArrayRef<Region> regions, int64_t size,
                              StringRef where) {
    llvm::sort(regions, [](const Region &a, const Region &b) {
      return a.offset < b.offset;
    });
    for (auto [index, a] : llvm::enumerate(regions)) {
      if (a.offset < 0 || a.bytes > size || a.offset > size - a.bytes)
        return a.op->emitError("H0913: bytes [")
               << a.offset << ", " << endOf(a.offset, a.bytes) << ") leave "
               << where << " of " << size << " bytes";
      if (a.offset % 64 != 0)
        return a.op->emitError("H0913: offset ")
               << a.offset << " is not a multiple of 64";
      for (const Region &b : regions.drop_front(index + 1)) {
        if (b.offset >= a.offset + a.bytes)
          break;
        if (!a.meets(b) || a.bytes == 0 || b.bytes == 0)
          continue;
        auto diagnostic = a.op->emitError("H0913: bytes [")
                          << a.offset << ", " << a.offset + a.bytes
                          << ") are shared with another buffer that is in use "
                             "at the same command";
        diagnostic.attachNote(b.op->getLoc()) << "the other one";
        return diagnostic;
      }
    }
    return success();
  }

  LogicalResult verifySequence(const SymbolTable &symbols,
                               planir::SequenceOp sequence) {
    plan::PerMemory<SmallVector<Region>> regions;
    if (failed(verifyViews(sequence)))
      return failure();
    planir::Lifetimes lifetimes;
    if (failed(lifetimes.find(sequence)))
      return failure();
    auto uses = lifetimes.uses();
    for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
      auto found = uses.find(buffer.getBuffer());
      regions[planir::memoryOf(buffer.getMemory())].push_back(
          {buffer, static_cast<int64_t>(buffer.getOffset()),
           dist::byteSize(buffer.getBuffer().getType()),
           static_cast<int64_t>(buffer.getFirst()),
           static_cast<int64_t>(buffer.getLast()), settledOf(buffer),
           found != uses.end() && lifetimes.followsCarried(found->second)});
    }
    for (const auto &[op, span] : lifetimes.all())
      if (auto call = dyn_cast<planir::CallOp>(op)) {
        auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
        regions[plan::MemoryKind::Device].push_back(
            {op, static_cast<int64_t>(call.getFrameOffset()),
             static_cast<int64_t>(callee.getFrameBytes()), span.number,
             span.number});
      }
    for (const auto &[buffer, all] : uses)
      for (const planir::Span &use : all)
        if (failed(verifyUse(buffer.getDefiningOp<planir::BufferOp>(), use)))
          return failure();
    // In the device's memory, the buffers of a command sequence must lie in its
    // frame, because its caller may use the memory outside of the frame. In
    // other kinds of memory only the step's own sequence has buffers, not the
    // sequences that it calls. Its buffers may lie anywhere in the program's
    // arena.
    auto program = cast<planir::ProgramOp>(sequence->getParentOp());
    for (MemoryKind kind : planir::memoryKinds) {
      int64_t size = kind == MemoryKind::Device
                         ? static_cast<int64_t>(sequence.getFrameBytes())
                         : program.getArenaBytes().of(kind);
      if (failed(verifyRegions(regions[planir::memoryOf(kind)], size,
                               "the frame")))
        return failure();
    }
    return success();
  }

  /// Checks that views which kernels access are aligned like buffers: kernels
  /// rely on that.
  LogicalResult verifyViews(planir::SequenceOp sequence) {
    auto verifyOne = [](planir::ViewOp view) -> LogicalResult {
      int64_t width = dist::byteSize(getElementTypeOrSelf(view.getBuffer()));
      int64_t begin = static_cast<int64_t>(view.getElement()) * width;
      if (begin % 64 == 0 ||
          llvm::none_of(view->getUsers(),
                        llvm::IsaPred<planir::LaunchOp, planir::CallOp>))
        return success();
      return view.emitError("H0913: begins at byte ")
             << begin << " of its buffer, which is not a multiple of 64";
    };
    return verifyEach<planir::ViewOp>(sequence, verifyOne);
  }

  /// The command until which asynchronous stores that the previous step has
  /// started may still read the buffer; -1 if there are no such stores.
  static int64_t settledOf(planir::BufferOp buffer) {
    return buffer.getSettled() ? static_cast<int64_t>(*buffer.getSettled())
                               : -1;
  }

  /// Checks that a buffer is live as long as a command that uses it may run:
  /// during the commands from `use.first` to `use.last`.
  LogicalResult verifyUse(planir::BufferOp buffer, const planir::Span &use) {
    int64_t first = buffer.getFirst(), last = buffer.getLast();
    if (use.settled > settledOf(buffer))
      return use.op->emitError(
                 "H0913: leaves to the next run, up to its command ")
             << use.settled << ", a buffer that is not live there";
    if (use.first >= first && use.number <= last && use.last <= last)
      return success();
    bool tooEarly = use.first < first || use.number > last;
    auto diagnostic =
        (tooEarly ? use.op : use.end)->emitError("H0913: command ")
        << (tooEarly ? use.number : use.last)
        << " uses a buffer that is live in [" << first << ", " << last << "]";
    if (tooEarly && use.first < use.number)
      diagnostic.attachNote()
          << "it may run as soon as command " << use.first << " is done";
    if (use.op->getNumRegions() > 0)
      diagnostic.attachNote() << "its commands run again, with what they and "
                                 "those around them left there";
    return diagnostic;
  }
};

} // namespace
