//===- Wgmma.cpp - Matrix products of a warpgroup -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements wgmma. Each warp computes 16 of the 64 rows of its warpgroup's
// product, independently of the other warps. At the end of the block, the four
// warps must have issued the same products. A product is computed when the warp
// waits for it. Until then, its accumulators are NaN, and a change of its
// operands is an error or changes the result.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Fragments.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
constexpr int rowsOfWarp = 16, chunkBytes = 16, depthBytes = 32;
constexpr int mostColumns = 256, mostDepth = 32;

/// Bits of Op::flags for wgmma. The lowest 9 bits (ColumnMask) are the number
/// of columns N, and the bits from KindShift on are a Kind.
enum ProductFlags {
  ColumnMask = 0x1ff,
  TransposedA = 1 << 9,
  TransposedB = 1 << 10,
  NegatedA = 1 << 11,
  NegatedB = 1 << 12,
  RegistersOfA = 1 << 13,
  HalfSums = 1 << 14,
  Saturates = 1 << 15,
  NegatedScale = 1 << 16,
  KindShift = 17
};
enum Kind { KindBFloat16, KindHalf, KindTf32, KindBytes };
/// For products of 8-bit integers, these bits of Op::imm say which operands are
/// signed.
enum Signs { SignedA = 1, SignedB = 2 };

/// The bits of a matrix descriptor that may be set: start, leading and stride
/// offsets, and the swizzle. The emulator requires the base offset 0.
constexpr uint64_t fieldBits = 0xc0003fff3fff3fff;
constexpr uint64_t baseOffsetBits = 0x000e000000000000;

/// A decoded matrix descriptor.
struct Matrix {
  int64_t start, leading, stride;
  int64_t width; ///< Bytes of a row that is swizzled; 0 if there is no swizzle.

  explicit Matrix(uint64_t bits)
      : start(field(bits, 0)), leading(field(bits, 16)),
        stride(field(bits, 32)) {
    constexpr int64_t widths[] = {0, 128, 64, 32};
    width = widths[bits >> 62];
  }

  /// Returns the address of a chunk of 16 bytes of a matrix. The chunks divide
  /// the contiguous dimension, which is K unless the matrix is transposed.
  /// `chunk` is the index along this dimension, and `at` the index along the
  /// other one.
  int64_t address(bool isTransposed, int64_t at, int64_t chunk) const {
    int64_t group = at / 8, row = at % 8;
    if (width) {
      int64_t inRow = width / chunkBytes;
      int64_t linear = start + group * stride + row * width +
                       chunk % inRow * chunkBytes +
                       (isTransposed ? chunk / inRow * leading : 0);
      int64_t mask = inRow - 1;
      return linear ^ ((linear >> 7 & mask) << 4);
    }
    int64_t along = isTransposed ? stride : leading;
    int64_t across = isTransposed ? leading : stride;
    return start + chunk * along + group * across + row * chunkBytes;
  }

private:
  static int64_t field(uint64_t bits, int at) {
    return static_cast<int64_t>(bits >> at & 0x3fff) * chunkBytes;
  }
};

int columnsOf(const Op &op) { return static_cast<int>(op.flags & ColumnMask); }
Kind kindOf(const Op &op) { return static_cast<Kind>(op.flags >> KindShift); }
int elementBytes(const Op &op) {
  Kind kind = kindOf(op);
  return kind == KindTf32 ? 4 : kind == KindBytes ? 1 : 2;
}

/// Calls f(offset, at, chunk) for each 16-byte chunk that the warp reads of an
/// operand in shared memory. The warp reads `rows` rows of A, or `rows` columns
/// of B, beginning with number `first`. `offset` is the chunk's offset in the
/// block's shared memory. `at` is the row or column minus `first`, and `chunk`
/// counts chunks along k. If the operand is transposed, `at` is the index along
/// k, and `chunk` counts chunks along the rows or columns from `first` on.
template <class F>
void forChunks(const Op &op, uint64_t bits, bool isTransposed, int first,
               int rows, F f) {
  Matrix matrix(bits);
  int bytes = elementBytes(op);
  int begin = isTransposed ? 0 : first;
  int end = isTransposed ? depthBytes / bytes : first + rows;
  int firstChunk = isTransposed ? first * bytes / chunkBytes : 0;
  int chunks =
      isTransposed ? rows * bytes / chunkBytes : depthBytes / chunkBytes;
  for (int at = begin; at < end; ++at)
    for (int chunk = firstChunk; chunk < firstChunk + chunks; ++chunk)
      f(matrix.address(isTransposed, at, chunk) - sharedBase, at - begin,
        chunk - firstChunk);
}

/// Calls f for the 16-byte chunks of those operands that are in shared memory.
/// The argument of f is the offset in the block's shared memory.
template <class F>
void forOperands(const Warp &warp, const WarpProduct &made, F f) {
  const Op &op = *made.op;
  auto each = [&](int64_t offset, int, int) { f(offset); };
  if (!(op.flags & RegistersOfA))
    forChunks(op, made.a, op.flags & TransposedA, warp.index % 4 * rowsOfWarp,
              rowsOfWarp, each);
  forChunks(op, made.b, op.flags & TransposedB, 0, columnsOf(op), each);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// The elements of both operands, converted to float or int32_t.
template <class T> struct Operands {
  T a[rowsOfWarp][mostDepth], b[mostDepth][mostColumns];
};

template <class A, class B, class T>
void loadOperands(Warp &warp, const WarpProduct &made, Operands<T> &to) {
  const Op &op = *made.op;
  constexpr int count = A::count, inChunk = 4 * count;
  const char *shared = warp.cluster->shared.data() + warp.block->firstShared;
  auto words = [&](int64_t offset) {
    std::array<uint32_t, 4> bits;
    std::memcpy(bits.data(), shared + offset, chunkBytes);
    return bits;
  };
  bool isTransposed = op.flags & TransposedA;
  if (op.flags & RegistersOfA) {
    for (int r = 0; r < 4; ++r)
      for (int lane = 0; lane < warpSize; ++lane)
        for (int i = 0; i < count; ++i)
          to.a[lane / 4 + r % 2 * 8][r / 2 * inChunk + lane % 4 * count + i] =
              A::get(made.ofRegisters[r][lane], i);
  } else {
    forChunks(op, made.a, isTransposed, warp.index % 4 * rowsOfWarp, rowsOfWarp,
              [&](int64_t offset, int at, int chunk) {
                auto bits = words(offset);
                for (int i = 0; i < inChunk; ++i) {
                  T value = A::get(bits[i / count], i % count);
                  int along = chunk * inChunk + i;
                  (isTransposed ? to.a[along][at] : to.a[at][along]) = value;
                }
              });
  }
  isTransposed = op.flags & TransposedB;
  forChunks(op, made.b, isTransposed, 0, columnsOf(op),
            [&](int64_t offset, int at, int chunk) {
              auto bits = words(offset);
              for (int i = 0; i < inChunk; ++i) {
                T value = B::get(bits[i / count], i % count);
                int along = chunk * inChunk + i;
                (isTransposed ? to.b[at][along] : to.b[along][at]) = value;
              }
            });
}

/// The position of an element of D in the registers of a warp: the index of the
/// register, and the lane.
struct AccumulatorElement {
  int index, lane;
};
AccumulatorElement elementAt(int row, int column) {
  return {column / 8 * 4 + row / 8 * 2 + column % 2,
          row % 8 * 4 + column % 8 / 2};
}

uint32_t &wordOf(Warp &warp, const Op &op, int index, int lane) {
  return warp.products.accumulators.at(op.rows[index])[lane];
}

template <class T> T readSum(Warp &warp, const Op &op, AccumulatorElement at) {
  T value;
  if (op.flags & HalfSums) {
    uint32_t bits = wordOf(warp, op, at.index / 2, at.lane);
    return static_cast<T>(
        widenNarrow<Half>(static_cast<uint16_t>(bits >> (at.index % 2 * 16))));
  }
  std::memcpy(&value, &wordOf(warp, op, at.index, at.lane), sizeof(value));
  return value;
}

template <class T>
void writeSum(Warp &warp, const Op &op, AccumulatorElement at, T value) {
  if (op.flags & HalfSums) {
    uint32_t &bits = wordOf(warp, op, at.index / 2, at.lane);
    int shift = at.index % 2 * 16;
    bits = (bits & ~(0xffffu << shift)) |
           uint32_t(roundToNarrow<Half>(static_cast<float>(value))) << shift;
    return;
  }
  std::memcpy(&wordOf(warp, op, at.index, at.lane), &value, sizeof(value));
}

/// Adds products in the order of k, as the emulated mma.sync does. The products
/// are exact.
template <class A, class B, class T>
void compute(Warp &warp, const WarpProduct &made) {
  static thread_local Operands<T> operands;
  const Op &op = *made.op;
  loadOperands<A, B>(warp, made, operands);
  int columns = columnsOf(op), depth = depthBytes / elementBytes(op);
  bool isNegated = bool(op.flags & NegatedA) != bool(op.flags & NegatedB);
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, int64_t>;
  alignas(64) Sum sums[mostColumns];
  for (int row = 0; row < rowsOfWarp; ++row) {
    for (int column = 0; column < columns; ++column)
      sums[column] =
          made.adds ? readSum<T>(warp, op, elementAt(row, column)) : T();
    for (int k = 0; k < depth; ++k) {
      T left = isNegated ? -operands.a[row][k] : operands.a[row][k];
      for (int column = 0; column < columns; ++column)
        if constexpr (std::is_same_v<T, float>)
          sums[column] =
              __builtin_fmaf(left, operands.b[k][column], sums[column]);
        else
          sums[column] += Sum(left) * operands.b[k][column];
    }
    for (int column = 0; column < columns; ++column) {
      Sum sum = sums[column];
      if constexpr (std::is_same_v<T, float>)
        sum = canonical(sum);
      else if (op.flags & Saturates)
        sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      writeSum<T>(warp, op, elementAt(row, column), static_cast<T>(sum));
    }
  }
  warp.worker->counters.tensorOperations +=
      uint64_t(2) * rowsOfWarp * columns * depth;
}

void computeProduct(Warp &warp, const WarpProduct &made) {
  using S = ByteElements<int8_t>;
  using U = ByteElements<uint8_t>;
  switch (kindOf(*made.op)) {
  case KindBFloat16:
    return compute<BFloat16Elements, BFloat16Elements, float>(warp, made);
  case KindHalf:
    return compute<HalfElements, HalfElements, float>(warp, made);
  case KindTf32:
    return compute<Tf32Elements, Tf32Elements, float>(warp, made);
  case KindBytes:
    bool a = made.op->imm & SignedA, b = made.op->imm & SignedB;
    return a   ? b ? compute<S, S, int32_t>(warp, made)
                   : compute<S, U, int32_t>(warp, made)
             : b ? compute<U, S, int32_t>(warp, made)
               : compute<U, U, int32_t>(warp, made);
  }
}

//===----------------------------------------------------------------------===//
// Issue and wait
//===----------------------------------------------------------------------===//

Row &registerRow(Warp &warp, uint32_t row) {
  return *reinterpret_cast<Row *>(warp.registers + row);
}

/// Returns the value that accumulators have while a product is in flight: NaN
/// in all lanes.
Row unknownRow() {
  Row row;
  row.fill(~uint32_t(0));
  return row;
}

/// Fails if a thread has written a register since the last wgmma.fence. Such a
/// register must not be an operand of a product.
void checkFenced(Warp &warp, uint32_t row) {
  const std::map<uint32_t, Row> &fenced = warp.products.fenced;
  auto found = fenced.find(row);
  if (!warp.products.hasFence || found == fenced.end() ||
      found->second != registerRow(warp, row))
    warp.fail("registers were written after the last wgmma.fence", allLanes);
}

uint64_t descriptorOf(Warp &warp, const Op &op, int row) {
  const uint64_t *values = warp.row<uint64_t>(op, row);
  uint64_t value = values[0];
  for (int lane = 1; lane < warpSize; ++lane)
    if (values[lane] != value)
      warp.fail("lanes of a warp differ in the descriptor of a matrix",
                uint32_t(1) << lane);
  if (value & baseOffsetBits)
    warp.fail("a descriptor with a base offset: the machine does not know it",
              allLanes);
  if (uint64_t unknown = value & ~(fieldBits | baseOffsetBits))
    warp.fail("bit " + std::to_string(__builtin_ctzll(unknown)) +
                  " of a descriptor is set, which is in none of its fields",
              allLanes);
  return value;
}

/// Checks that the operands in shared memory are written, and that the writes
/// have passed a proxy fence. Records the asynchronous reads.
void beginReads(Warp &warp, const WarpProduct &made) {
  Cluster &cluster = *warp.cluster;
  forOperands(warp, made, [&](int64_t offset) {
    if (offset < 0 || offset + chunkBytes > cluster.sharedBytes)
      warp.fail("a matrix reaches to byte " + std::to_string(offset) +
                    ", outside of shared memory",
                allLanes);
    std::string wrong = cluster.shared.beginRead(
        warp.block->firstShared + offset, chunkBytes, warp.member(0));
    if (!wrong.empty())
      warp.fail(wrong, allLanes);
  });
}

/// Issues a product. The op's operands are: D as the result, D as an operand, A
/// (registers or a descriptor), B, and whether to add to D.
void issue(Warp &warp, const Op &op) {
  if (!meetAll(warp))
    return;
  Products &products = warp.products;
  size_t group = warp.index / 4 * 4;
  if (warp.block->warps.size() < group + 4)
    warp.fail("a warpgroup needs four warps", allLanes);
  WarpProduct made;
  made.op = &op;
  made.at = warp.current;
  int next = 2 * op.results;
  if (op.flags & RegistersOfA) {
    for (int r = 0; r < 4; ++r) {
      checkFenced(warp, op.rows[next]);
      made.ofRegisters[r] = registerRow(warp, op.rows[next++]);
    }
  } else {
    made.a = descriptorOf(warp, op, next++);
  }
  made.b = descriptorOf(warp, op, next++);
  uint32_t adds = warp.predicate(op, next);
  made.adds = (op.flags & NegatedScale ? ~adds : adds) & 1;
  beginReads(warp, made);
  for (int i = 0; i < op.results; ++i) {
    uint32_t row = op.rows[i];
    if (products.accumulators.count(row))
      continue;
    if (made.adds)
      checkFenced(warp, row);
    products.accumulators[row] = registerRow(warp, row);
    registerRow(warp, row) = unknownRow();
  }
  if (!products.hasFence)
    warp.fail("the first wgmma needs a wgmma.fence before it", allLanes);
  warp.mixTrace(static_cast<uint64_t>(warp.current) + 1);
  warp.mixTrace(made.a);
  warp.mixTrace(made.b);
  warp.mixTrace(made.adds);
  products.open.push_back(std::move(made));
}

/// wgmma.fence: records the values of the registers that products use, to
/// detect later changes.
void fence(Warp &warp, const Op &) {
  if (!meetAll(warp))
    return;
  Products &products = warp.products;
  products.hasFence = true;
  for (uint32_t row : warp.worker->program->pinned)
    products.fenced[row] = registerRow(warp, row);
}

void commit(Warp &warp, const Op &) {
  if (!meetAll(warp))
    return;
  warp.products.groups.push_back(std::move(warp.products.open));
  warp.products.open.clear();
}

/// Writes the sums of completed products to their accumulator registers.
/// Registers that a product in flight still changes stay NaN.
void giveSums(Warp &warp) {
  Products &products = warp.products;
  auto isUsed = [&](uint32_t row) {
    auto uses = [&](const WarpProduct &made) {
      const uint32_t *rows = made.op->rows;
      return std::count(rows, rows + made.op->results, row) > 0;
    };
    bool used = std::any_of(products.open.begin(), products.open.end(), uses);
    for (const std::vector<WarpProduct> &group : products.groups)
      used |= std::any_of(group.begin(), group.end(), uses);
    return used;
  };
  for (auto it = products.accumulators.begin();
       it != products.accumulators.end();) {
    auto [row, sums] = *it;
    if (isUsed(row)) {
      ++it;
      continue;
    }
    if (registerRow(warp, row) != unknownRow())
      warp.fail("an accumulator was written before wgmma.wait_group", allLanes);
    registerRow(warp, row) = products.fenced[row] = sums;
    it = products.accumulators.erase(it);
  }
}

void wait(Warp &warp, const Op &op) {
  if (!meetAll(warp))
    return;
  auto &groups = warp.products.groups;
  auto pending = static_cast<size_t>(op.imm);
  if (groups.size() <= pending)
    return;
  while (groups.size() > pending) {
    for (const WarpProduct &made : groups.front()) {
      computeProduct(warp, made);
      forOperands(warp, made, [&](int64_t offset) {
        warp.cluster->shared.endRead(warp.block->firstShared + offset,
                                     chunkBytes, warp.member(0));
      });
    }
    groups.erase(groups.begin());
  }
  giveSums(warp);
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

/// Parses the opcode's modifiers for the types and the shape of the product,
/// and sets Op::flags.
bool takeForm(Decode &d, bool &halfSums) {
  std::string shape = d.takePrefix("m64n");
  size_t k = shape.find('k');
  if (shape.empty() || k == shape.npos)
    return false;
  int columns = std::stoi(shape.substr(4, k - 4));
  int depth = std::stoi(shape.substr(k + 1));
  Type result = d.type(), a = d.type(), b = d.type();
  halfSums = result.kind == Type::Float && result.width == 16;
  Kind kind = a.kind == Type::BFloat  ? KindBFloat16
              : a.kind == Type::Tf32  ? KindTf32
              : a.kind == Type::Float ? KindHalf
                                      : KindBytes;
  bool isByte = kind == KindBytes;
  int width = kind == KindTf32 ? 32 : isByte ? 8 : 16;
  bool fits =
      isByte ? result == Type{Type::Signed, 32} && a.lanes == 1 &&
                   b.width == 8 && a.kind != Type::Bits && b.kind != Type::Bits
             : b == a && a.lanes == 1 &&
                   (result == f32Type ||
                    (halfSums && kind == KindHalf && result.lanes == 1));
  d.op.flags = static_cast<uint32_t>(columns) |
               static_cast<uint32_t>(kind) << KindShift |
               (halfSums ? HalfSums : 0);
  if (isByte)
    d.op.imm = (a.kind == Type::Signed ? SignedA : 0) |
               (b.kind == Type::Signed ? SignedB : 0);
  // A wgmma of 8-bit integers exists only for 8, 24 or a multiple of 16
  // columns, all others for every multiple of 8.
  bool isKnown =
      columns % 8 == 0 && columns >= 8 && columns <= mostColumns &&
      (!isByte || columns == 8 || columns == 24 || columns % 16 == 0);
  return fits && isKnown && a.width == width && depth == depthBytes * 8 / width;
}

/// Consumes the operand that says whether a matrix is negated: -1 if it is,
/// otherwise 1.
uint32_t takeSign(Decode &d, size_t index, uint32_t flag) {
  int64_t value = d.number(index);
  if (value != 1 && value != -1)
    d.fail("operand " + std::to_string(index + 1) + " of '" + d.name() +
           "' is neither 1 nor -1");
  return value < 0 ? flag : 0;
}

void decodeProduct(Decode &d) {
  bool halfSums = false;
  if (!d.take("sync") || !d.take("aligned") || !takeForm(d, halfSums))
    d.failUnknown();
  uint32_t flags = d.op.flags | (d.take("satfinite") ? Saturates : 0);
  Kind kind = static_cast<Kind>(d.op.flags >> KindShift);
  int columns = static_cast<int>(flags & ColumnMask);
  std::vector<Operand> sums = Decode::elements(d.operand(0));
  bool inRegisters = d.operand(1).kind == Operand::Vector;
  if (sums.size() != static_cast<size_t>(columns / (halfSums ? 4 : 2)) ||
      (inRegisters && d.operand(1).elements.size() != 4))
    d.fail("'" + d.name() + "' takes other numbers of registers");
  for (const Operand &sum : sums)
    d.result(sum, b32Type);
  for (const Operand &sum : sums) {
    d.use(sum, b32Type);
    d.pin(sum);
  }
  if (inRegisters) {
    flags |= RegistersOfA;
    for (const Operand &element : d.operand(1).elements) {
      d.use(element, b32Type);
      d.pin(element);
    }
  } else {
    d.use(1, b64Type);
  }
  d.use(2, b64Type);
  d.use(3, predType);
  if (d.operand(3).negated)
    flags |= NegatedScale;
  bool isWide = kind == KindBFloat16 || kind == KindHalf;
  size_t transposes = !isWide ? 0 : inRegisters ? 1 : 2;
  size_t signs = kind == KindBytes ? 0 : 2;
  d.expectOperands(4 + signs + transposes);
  if (signs)
    flags |= takeSign(d, 4, NegatedA) | takeSign(d, 5, NegatedB);
  if (transposes == 2 && d.number(6))
    flags |= TransposedA;
  if (transposes && d.number(5 + transposes))
    flags |= TransposedB;
  d.op.flags = flags;
  d.op.run = issue;
}

void decodeWgmma(Decode &d) {
  d.requireTarget({"sm_90a"});
  if (d.take("mma_async"))
    return decodeProduct(d);
  int kind = d.takeOneOf({"fence", "commit_group", "wait_group"});
  if (kind < 0 || !d.take("sync") || !d.take("aligned"))
    d.failUnknown();
  d.expectOperands(kind == 2 ? 1 : 0);
  if (kind == 2)
    d.op.imm = d.number(0);
  d.op.run = kind == 0 ? fence : kind == 1 ? commit : wait;
}
} // namespace

const Opcode wgmmaOpcodes[] = {{"wgmma", Class::Tensor, decodeWgmma},
                               {nullptr, Class::Tensor, nullptr}};

} // namespace heddle::emulator
