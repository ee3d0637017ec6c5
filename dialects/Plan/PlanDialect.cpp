//===- PlanDialect.cpp - Kernels, commands and memory ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"
#include "dialects/Dist/ComputeType.h"
#include "dialects/NN/FunctionSyntax.h"
#include "dialects/NN/Phases.h"
#include "dialects/NN/StateSources.h"
#include "heddle/PlanFormat/Memory.h"
#include "mlir/IR/DialectImplementation.h"
#include "nlohmann/json.hpp"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

#include "dialects/Plan/PlanDialect.cpp.inc"
#include "dialects/Plan/PlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.cpp.inc"

#include "dialects/Plan/PlanInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/PlanAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Plan/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// The attribute #plan.bytes: a size in bytes for each kind of memory
//===----------------------------------------------------------------------===//

int64_t BytesAttr::total() const {
  return std::accumulate(getCounts().begin(), getCounts().end(), int64_t(0));
}

Attribute BytesAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> counts(std::size(memoryKinds));
  auto parseCount = [&]() -> ParseResult {
    StringRef name;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<MemoryKind> kind = nn::symbolizeMemoryKind(name);
    if (!kind)
      return parser.emitError(loc, "unknown kind of memory '")
             << name << "'; known are device, host, pinned and file";
    return parser.parseInteger(counts[static_cast<unsigned>(*kind)]);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseCount))
    return {};
  return get(parser.getContext(), counts);
}

void BytesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(
      llvm::make_filter_range(memoryKinds,
                              [&](MemoryKind kind) { return of(kind) != 0; }),
      printer, [&](MemoryKind kind) {
        printer << stringifyMemoryKind(kind) << " " << of(kind);
      });
  printer << ">";
}

/// Parses `grid = [4, 1, 1]`.
static ParseResult parseSizes(AsmParser &parser, StringRef name,
                              SmallVectorImpl<int64_t> &sizes) {
  return failure(
      parser.parseKeyword(name) || parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parser.parseInteger(sizes.emplace_back());
      }));
}

Attribute GridLaunchAttr::parse(AsmParser &parser, Type) {
  std::string symbol;
  SmallVector<int64_t> grid, block, cluster;
  int64_t shared = 0;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&symbol) ||
      parser.parseComma() || parseSizes(parser, "grid", grid) ||
      parser.parseComma() || parseSizes(parser, "block", block))
    return {};
  bool hasMore = succeeded(parser.parseOptionalComma());
  if (hasMore && parser.parseOptionalKeyword("shared")) {
    if (parseSizes(parser, "cluster", cluster))
      return {};
    hasMore = succeeded(parser.parseOptionalComma());
    if (hasMore && parser.parseKeyword("shared"))
      return {};
  }
  if ((hasMore && (parser.parseEqual() || parser.parseInteger(shared))) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<GridLaunchAttr>(loc, parser.getContext(), symbol,
                                           grid, block, cluster, shared);
}

void GridLaunchAttr::print(AsmPrinter &printer) const {
  auto printSizes = [&](StringRef name, ArrayRef<int64_t> sizes) {
    printer << ", " << name << " = [";
    llvm::interleaveComma(sizes, printer);
    printer << "]";
  };
  printer << "<";
  printer.printString(getSymbol());
  printSizes("grid", getGrid());
  printSizes("block", getBlock());
  if (!getCluster().empty())
    printSizes("cluster", getCluster());
  if (getShared() != 0)
    printer << ", shared = " << getShared();
  printer << ">";
}

LogicalResult
GridLaunchAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                       ArrayRef<int64_t> grid, ArrayRef<int64_t> block,
                       ArrayRef<int64_t> cluster, int64_t shared) {
  auto isWrong = [](ArrayRef<int64_t> sizes) {
    return sizes.size() != 3 ||
           llvm::any_of(sizes, [](int64_t size) { return size < 1; });
  };
  if (isWrong(grid) || isWrong(block) || (!cluster.empty() && isWrong(cluster)))
    return emitError() << "a launch has three sizes of 1 or more each for "
                          "its grid, block and cluster";
  constexpr int64_t most = 8; // The limit on every chip that has clusters.
  int64_t blocks = 1;
  for (auto [all, together] : llvm::zip(grid, cluster)) {
    blocks *= together;
    if (all % together || blocks > most)
      return emitError() << "a cluster has " << most
                         << " blocks at most, and its sizes divide the grid's";
  }
  if (shared < 0)
    return emitError() << "shared memory of " << shared << " bytes";
  return success();
}

LogicalResult LibraryProductAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t m, int64_t n,
    int64_t k, bool transA, bool transB, Type type, Type result, int64_t a,
    int64_t b, int64_t c, int64_t bias, int64_t d, int64_t aux, int64_t sumA,
    int64_t sumB, int64_t lda, int64_t ldb, int64_t ldc, int64_t ldd,
    int64_t ldaux, ProductEnd end, bool, int64_t workspace) {
  if (m < 1 || n < 1 || k < 1 || workspace < 0)
    return emitError() << "a product has sizes of 1 or more";
  for (Type element : {type, result})
    if (!dist::findComputeType(element))
      return emitError()
             << "a library's product is of f32, bf16 or f16, not of "
             << element;
  for (auto [leading, columns] :
       {std::pair(lda, transA ? m : k), std::pair(ldb, transB ? k : n),
        std::pair(ldc, n), std::pair(ldd, n), std::pair(ldaux, n)})
    if (leading != 0 && leading < columns)
      return emitError() << "rows of " << columns << " elements cannot begin "
                         << leading << " apart";
  for (int64_t needed : {a, b, d})
    if (needed < 0)
      return emitError() << "a product has the addresses a, b and d";
  if (llvm::any_of(ArrayRef<int64_t>{c, bias, aux, sumA, sumB},
                   [](int64_t address) { return address < -1; }))
    return emitError() << "an address is a number from 0 on, or -1";
  if ((sumA >= 0) + (sumB >= 0) + (bias >= 0 || end != ProductEnd::Plain) > 1)
    return emitError() << "a library sums a or b, and then adds no bias and "
                          "computes no function";
  if (end == ProductEnd::GeluTanhGrad ? aux < 0 || c >= 0 || bias >= 0
                                      : end == ProductEnd::Plain && aux >= 0)
    return emitError() << "what is added does not fit to "
                       << stringifyProductEnd(end);
  return success();
}

//===----------------------------------------------------------------------===//
// Programs and states
//===----------------------------------------------------------------------===//

RegionKind ProgramOp::getRegionKind(unsigned) { return RegionKind::Graph; }

/// Verifies that a size or an offset is a 64-bit integer of at least 0.
static LogicalResult verifyCount(Operation *op, uint64_t value,
                                 StringRef what) {
  if (static_cast<int64_t>(value) >= 0)
    return success();
  return op->emitOpError(what)
         << " is negative: " << static_cast<int64_t>(value);
}

/// Verifies that a program needs a plausible number of bytes of each kind of
/// memory: no machine has more than 2^60 bytes.
static LogicalResult verifyBytes(Operation *op, BytesAttr bytes,
                                 StringRef what) {
  for (MemoryKind kind : memoryKinds) {
    if (failed(verifyCount(op, bytes.of(kind), what)))
      return failure();
    if (bytes.of(kind) > int64_t(1) << 60)
      return op->emitOpError(what)
             << " is more than any machine has: " << bytes.of(kind);
  }
  return success();
}

/// Verifies that each offload file of a program has a role that the runtime
/// knows, such as parameters, and a number of bytes.
static LogicalResult verifyFiles(ProgramOp op) {
  for (NamedAttribute file : op.getFilesAttr() ? op.getFilesAttr().getValue()
                                               : ArrayRef<NamedAttribute>()) {
    auto bytes = dyn_cast<IntegerAttr>(file.getValue());
    if (!plan::parseName<plan::FileRole>(file.getName().str()))
      return op.emitOpError("has a file of unknown role ") << file.getName();
    if (!bytes || !bytes.getType().isInteger(64) || bytes.getInt() < 0)
      return op.emitOpError("has a file of role ")
             << file.getName() << " with " << file.getValue()
             << ", which is no number of bytes";
  }
  return success();
}

LogicalResult ProgramOp::verify() {
  if (!nlohmann::json::accept(getConfig()))
    return emitOpError("has a config that is no JSON");
  if (failed(verifyFiles(*this)))
    return failure();
  if (failed(verifyBytes(*this, getPersistentBytes(), "persistent_bytes")) ||
      failed(verifyBytes(*this, getArenaBytes(), "arena_bytes")) ||
      failed(verifyCount(*this, getStagingBytes(), "staging_bytes")) ||
      failed(verifyCount(*this, getScratchOffset(), "scratch_offset")))
    return failure();
  if (failed(verifyCount(*this, getScratchBytesPerThread(),
                         "scratch_bytes_per_thread")))
    return failure();
  SmallVector<nn::ProgramPhase> programs;
  for (auto sequence : getOps<SequenceOp>())
    programs.push_back({sequence, sequence.getKind() == nn::ProgramKind::Train,
                        sequence.getPhaseAttr()});
  return nn::verifyPhases(programs);
}

LogicalResult StateOp::verify() {
  if (failed(nn::verifyStored(*this, getType(),
                              getLike().getAs<nn::SourceAttr>("source"),
                              getLike().getAs<TypeAttr>("whole"),
                              getLike().getAs<nn::PackedAttr>("packed"))))
    return failure();
  return verifyCount(*this, getOffset(), "offset");
}

/// If a state is stored inside of the flat tensor of a bucket (states that are
/// laid side by side), verifies that all of its elements lie inside of that
/// tensor.
LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!getFlat())
    return success();
  auto flat = tables.lookupNearestSymbolFrom<FlatOp>(*this, getFlatAttr());
  if (!flat)
    return emitOpError("lies in unknown tensor ") << getFlatAttr();
  auto type = cast<RankedTensorType>(getType());
  auto part = cast<RankedTensorType>(flat.getType());
  int64_t elements = flat.getElements();
  int64_t first = getOffset();
  if (type.getElementType() == part.getElementType() &&
      type.getNumElements() <= elements &&
      first <= elements - type.getNumElements())
    return success();
  return emitOpError("of type ")
         << type << " at element " << first << " does not lie in "
         << getFlatAttr() << ", which has " << elements << " elements of "
         << part.getElementType();
}

LogicalResult FlatOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() || type.getRank() != 1)
    return emitOpError("needs a static tensor type of rank 1, got ")
           << getType();
  if (static_cast<int64_t>(getElements()) < type.getNumElements())
    return emitOpError("has ") << static_cast<int64_t>(getElements())
                               << " elements, fewer than its part " << type;
  if (failed(dist::verifyAxes(*this, getAxes())))
    return failure();
  return verifyCount(*this, getOffset(), "offset");
}

LogicalResult StateRefOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *state = tables.lookupNearestSymbolFrom(*this, getStateAttr());
  if (!isa_and_nonnull<StateOp, FlatOp>(state))
    return emitOpError("refers to unknown state ") << getStateAttr();
  auto one = dyn_cast<StateOp>(state);
  if (one && one.getFlat())
    return emitOpError("refers to ")
           << getStateAttr() << ", of which a rank has what its part of "
           << one.getFlatAttr() << " has: refer to that";
  // A plan.state_ref yields either the memory of this state alone, with the
  // state's shape, or a one-dimensional range that begins with this state and
  // also covers states that follow in memory.
  auto stored = cast<RankedTensorType>(one ? one.getType()
                                           : cast<FlatOp>(state).getType());
  auto type = cast<MemRefType>(getResult().getType());
  bool isRun =
      type.getRank() == 1 && type.getNumElements() >= stored.getNumElements();
  if (type.getElementType() == stored.getElementType() &&
      (isRun || type.getShape() == stored.getShape()))
    return success();
  return emitOpError("has type ")
         << type << ", and " << getStateAttr() << " has type " << stored;
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

ParseResult SequenceOp::parse(OpAsmParser &parser, OperationState &result) {
  return nn::parseFunction<SequenceOp>(parser, result);
}

void SequenceOp::print(OpAsmPrinter &printer) {
  nn::printFunction(printer, *this);
}

void SequenceOp::build(OpBuilder &builder, OperationState &state,
                       StringRef name, FunctionType type, int64_t frameBytes) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getFrameBytesAttrName(state.name),
                     builder.getI64IntegerAttr(frameBytes));
  state.addRegion();
}

LogicalResult SequenceOp::verify() {
  if (!getBody().hasOneBlock() || getBody().front().empty() ||
      !isa<EndOp>(getBody().front().back()))
    return emitOpError("must end in plan.end");
  return verifyCount(*this, getFrameBytes(), "frame_bytes");
}

LogicalResult BufferOp::verify() {
  auto first = static_cast<int64_t>(getFirst());
  auto last = static_cast<int64_t>(getLast());
  if (first < 0 || last < first)
    return emitOpError("lives in [")
           << first << ", " << last << "], which is no range of commands";
  if (getSettled() && failed(verifyCount(*this, *getSettled(), "settled")))
    return failure();
  if (getInput() && getOutput())
    return emitOpError("is an input and an output");
  return verifyCount(*this, getOffset(), "offset");
}

/// Whether a buffer of shape `whole` can be cut into equal parts of shape
/// `part` along its first dimension whose size is not 1.
static bool holdsParts(ArrayRef<int64_t> whole, ArrayRef<int64_t> part) {
  if (whole.empty() || whole.size() != part.size())
    return false;
  while (whole.size() > 1 && whole.front() == 1 && part.front() == 1) {
    whole = whole.drop_front();
    part = part.drop_front();
  }
  return whole.drop_front() == part.drop_front() && part.front() > 0 &&
         whole.front() % part.front() == 0;
}

LogicalResult SliceOp::verify() {
  auto whole = cast<MemRefType>(getSource().getType());
  auto part = cast<MemRefType>(getBuffer().getType());
  if (holdsParts(whole.getShape(), part.getShape()) &&
      whole.getElementType() == part.getElementType())
    return success();
  if (whole.getRank() == 0 ||
      whole.getShape().drop_front() != part.getShape() ||
      whole.getElementType() != part.getElementType())
    return emitOpError("gives ")
           << part << ", but a slice of " << whole
           << " along its first dimension has its other dimensions";
  return success();
}

LogicalResult RankOp::verify() { return dist::verifyAxes(*this, getAxes()); }
LogicalResult SendOp::verify() { return dist::verifyAxis(*this, getAxis()); }
LogicalResult RecvOp::verify() { return dist::verifyAxis(*this, getAxis()); }
LogicalResult FlushOp::verify() {
  return verifyCount(*this, getLeft(), "left");
}

LogicalResult ViewOp::verify() {
  auto whole = cast<MemRefType>(getSource().getType());
  auto part = cast<MemRefType>(getBuffer().getType());
  auto first = static_cast<int64_t>(getElement());
  if (whole.getElementType() == part.getElementType() && first >= 0 &&
      first <= whole.getNumElements() - part.getNumElements())
    return success();
  return emitOpError("gives ")
         << part << " from element " << first << " of " << whole;
}

/// Verifies that a buffer of `count` elements consists of `outer` rows of equal
/// size, and that the sizes in `segments` add up to the size of a row.
static LogicalResult verifyRows(Operation *op, uint64_t outer,
                                std::optional<ArrayRef<int64_t>> segments,
                                int64_t count) {
  auto rows = static_cast<int64_t>(outer);
  if (rows < 1 || count % rows != 0)
    return op->emitOpError("has ")
           << rows << " rows in a buffer of " << count << " elements";
  if (!segments || segments->empty())
    return success();
  int64_t left = count / rows;
  for (int64_t segment : *segments) {
    if (segment < 0 || segment > left)
      return op->emitOpError("has a segment of ")
             << segment << " elements where " << left << " are left";
    left -= segment;
  }
  if (left == 0)
    return success();
  return op->emitOpError("has segments that leave out ")
         << left << " elements of " << count / rows;
}

LogicalResult CollectiveOp::verify() {
  CollectiveKind kind = getKind();
  auto target = cast<MemRefType>(getTarget().getType());
  auto source = cast<MemRefType>(getSource().getType());
  if (target.getElementType() != source.getElementType())
    return emitOpError("gives ") << target << " from " << source;
  int64_t in = source.getNumElements(), out = target.getNumElements();
  bool fits = kind == CollectiveKind::AllGather       ? in > 0 && out % in == 0
              : kind == CollectiveKind::ReduceScatter ? out > 0 && in % out == 0
                                                      : in == out;
  if (!fits)
    return emitOpError("makes ") << target << " of " << source;
  if (failed(dist::verifyAxes(*this, getAxes())))
    return failure();
  // The number of elements of the larger one of the collective's two buffers.
  // That buffer consists of one part for each rank. In an all_to_all both
  // buffers have this size.
  int64_t whole = std::max(in, out);
  bool exchanges = kind == CollectiveKind::AllToAll;
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::Rotate)
    return success();
  if (failed(verifyRows(*this, getOuter(), getSegments(), whole)))
    return failure();
  return exchanges ? verifyRows(*this, getSplitOuter().value_or(1),
                                getSplitSegments(), whole)
                   : success();
}

LogicalResult LoopOp::verify() {
  // Loops have at most as many iterations as a schedule has micro-batches. A
  // limit is needed because tools that check a plan execute its loops.
  constexpr int64_t most = 1 << 20;
  auto count = static_cast<int64_t>(getCount());
  if (count < 1 || count > most)
    return emitOpError("runs ")
           << count << " times; 1 to " << most << " are possible";
  Block &block = getBody().front();
  if (block.getNumArguments() != 1 || !block.getArgument(0).getType().isIndex())
    return emitOpError("needs one argument of type index");
  return success();
}

LogicalResult FragmentsOp::verify() {
  return pipe::verifyFragments(*this, getLine(), getSlots());
}

/// Verifies that a plan.record or plan.wait is not on the stream for
/// communication, which runs only collectives and messages.
static LogicalResult verifyStream(Operation *op, Stream stream) {
  if (stream != Stream::Communication)
    return success();
  return op->emitOpError("is on the stream communication, which runs "
                         "collectives and messages alone; use compute, copy or "
                         "store");
}

/// Verifies that a copy or fill is not on the stream `host`, which runs only
/// kernels on the host.
static LogicalResult verifyMoving(Operation *op, Stream stream) {
  if (stream == Stream::Host)
    return op->emitOpError("is on the stream host, which runs kernels alone; "
                           "use compute, copy or store");
  return verifyStream(op, stream);
}

LogicalResult FillOp::verify() { return verifyMoving(*this, getStream()); }
LogicalResult RecordOp::verify() {
  if (getCarried() && failed(verifyCount(*this, *getCarried(), "carried")))
    return failure();
  if (getCarried() && getStream() != Stream::Store)
    return emitOpError("leaves work of the stream ")
           << stringifyStream(getStream())
           << " to the next run; store alone can";
  return verifyStream(*this, getStream());
}

LogicalResult SettleOp::verify() {
  if (failed(verifyCount(*this, getNumber(), "number")))
    return failure();
  if (getStream() != Stream::Compute && getStream() != Stream::Copy)
    return emitOpError("is on the stream ")
           << stringifyStream(getStream()) << "; compute and copy alone wait "
           << "for what the run before has left";
  return success();
}

LogicalResult WaitOp::verify() {
  if (getStream() != Stream::Compute &&
      getToken().getDefiningOp<CollectiveOp>())
    return emitOpError("lets the stream ")
           << stringifyStream(getStream())
           << " wait for a collective; compute alone can";
  return verifyStream(*this, getStream());
}

LogicalResult CopyOp::verify() {
  if (failed(verifyMoving(*this, getStream())))
    return failure();
  auto target = cast<MemRefType>(getTarget().getType());
  auto source = cast<MemRefType>(getSource().getType());
  if (target.getElementType() == source.getElementType() &&
      target.getNumElements() == source.getNumElements())
    return success();
  return emitOpError("copies ") << source << " to " << target;
}

LogicalResult CopyRowsOp::verify() {
  if (failed(verifyMoving(*this, getStream())))
    return failure();
  auto target = cast<MemRefType>(getTarget().getType());
  auto source = cast<MemRefType>(getSource().getType());
  auto ids = cast<MemRefType>(getIds().getType());
  if (source.getRank() == 2 && ids.getElementType().isInteger(32) &&
      target.getElementType() == source.getElementType() &&
      target.getNumElements() == ids.getNumElements() * source.getDimSize(1))
    return success();
  return emitOpError("copies rows of ")
         << source << " at " << ids << " to " << target;
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto sequence =
      tables.lookupNearestSymbolFrom<SequenceOp>(*this, getSequenceAttr());
  if (!sequence)
    return emitOpError("runs unknown sequence ") << getSequenceAttr();
  if (TypeRange(sequence.getArgumentTypes()) != getOperandTypes())
    return emitOpError("does not fit the arguments of ") << getSequenceAttr();
  return success();
}
