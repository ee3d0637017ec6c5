//===- Tensor.cpp - Matrix instructions of a warp -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements ldmatrix, stmatrix and mma.sync. A matrix is distributed over the
// lanes of a warp as the PTX ISA says. Let g = lane / 4 and t = lane % 4, and
// let a 32-bit register hold E elements.
// - Register r of A holds row g + 8 (r % 2), columns E t + 4 E (r / 2) and
//   following.
// - Register r of B holds rows E t + 4 E r and following, column g.
// - Register r of C and D holds row g + 8 (r / 2), column 2 t + r % 2.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Fragments.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
//===----------------------------------------------------------------------===//
// ldmatrix and stmatrix: tiles of 8x8 16-bit elements
//===----------------------------------------------------------------------===//

enum MatrixFlags { Transposed = 256 };

/// Returns the addresses of the rows of `tiles` tiles. Lane 8 i + j has the
/// address of row j of tile i; the addresses of the remaining lanes are
/// ignored.
Access rowsOfTiles(Warp &warp, const Op &op, int tiles, int row) {
  warp.mask = tiles == 4 ? allLanes : (uint32_t(1) << (8 * tiles)) - 1;
  Access access(warp, op, row);
  access.resolve(warp, static_cast<Space>(op.flags & SpaceMask), 16);
  if (!access.isShared)
    warp.fail("rows of matrices have to be in shared memory", warp.mask);
  countRequest(warp, access, 16);
  return access;
}

/// Transposes a tile.
void transpose(__m128i (&rows)[8]) {
  __m128i pairs[8], fours[8];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    pairs[4 + i] = _mm_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 2; ++i) {
      const __m128i *from = pairs + 4 * half + 2 * i;
      fours[4 * half + i] = _mm_unpacklo_epi32(from[0], from[1]);
      fours[4 * half + 2 + i] = _mm_unpackhi_epi32(from[0], from[1]);
    }
  for (int i = 0; i < 4; ++i) {
    rows[2 * i] = _mm_unpacklo_epi64(fours[2 * i], fours[2 * i + 1]);
    rows[2 * i + 1] = _mm_unpackhi_epi64(fours[2 * i], fours[2 * i + 1]);
  }
}

void loadMatrix(Warp &warp, const Op &op) {
  if (!meetAll(warp))
    return;
  int tiles = op.results;
  Access access = rowsOfTiles(warp, op, tiles, tiles);
  access.noteRead(warp, 16);
  for (int tile = 0; tile < tiles; ++tile) {
    __m128i rows[8];
    for (int i = 0; i < 8; ++i)
      rows[i] = _mm_loadu_si128(
          reinterpret_cast<const __m128i *>(access.host[8 * tile + i]));
    if (op.flags & Transposed)
      transpose(rows);
    // A row of a tile has 16 bytes: two elements, or 4 bytes, for each of four
    // adjacent lanes. So the eight rows, one after the other, are the contents
    // of a register of all 32 lanes.
    std::memcpy(warp.row<uint32_t>(op, tile), rows, sizeof(rows));
  }
}

void storeMatrix(Warp &warp, const Op &op) {
  if (!meetAll(warp))
    return;
  int tiles = op.operands - 1;
  Access access = rowsOfTiles(warp, op, tiles, 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const uint32_t *from = warp.row<uint32_t>(op, 1 + tile);
    uint16_t rows[8][8];
    for (int lane = 0; lane < warpSize; ++lane) {
      int g = lane / 4, t = lane % 4 * 2;
      for (int i = 0; i < 2; ++i) {
        auto value = static_cast<uint16_t>(from[lane] >> (16 * i));
        (op.flags & Transposed ? rows[t + i][g] : rows[g][t + i]) = value;
      }
    }
    for (int row = 0; row < 8; ++row) {
      int lane = 8 * tile + row;
      access.noteWrite(warp, lane, 16, reinterpret_cast<char *>(rows[row]));
      std::memcpy(access.host[lane], rows[row], 16);
    }
  }
}

void decodeMatrix(Decode &d, bool isLoad) {
  bool known = d.take("sync") && d.take("aligned") && d.take("m8n8");
  int log = d.takeOneOf({"x1", "x2", "x4"});
  uint32_t transposed = d.take("trans") ? Transposed : 0;
  Space space = takeSpace(d);
  if (!known || log < 0 || !d.take("b16"))
    d.failUnknown();
  d.expectOperands(2);
  size_t vector = isLoad ? 0 : 1;
  std::vector<Operand> elements = Decode::elements(d.operand(vector));
  if (elements.size() != size_t(1) << log)
    d.fail("'" + d.name() + "' takes " + std::to_string(1 << log) +
           " registers");
  if (isLoad)
    for (const Operand &element : elements)
      d.result(element, b32Type);
  uint32_t flags = addressFlags(d, space, d.address(1 - vector));
  if (!isLoad)
    for (const Operand &element : elements)
      d.use(element, b32Type);
  d.op.flags = flags | transposed;
  d.op.run = isLoad ? loadMatrix : storeMatrix;
}

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

enum MmaFlags { HalfSums = 1, Saturates = 2 };

/// Copies the sums of C from registers, which hold f32, s32 or pairs of f16, to
/// `sums`, a matrix with eight columns. In each lane, the registers r and r + 1
/// hold adjacent columns.
template <class Sum>
void loadSums(Warp &warp, const Op &op, int first, Sum (*sums)[8]) {
  for (int half = 0; half < 2; ++half) {
    Sum *to = sums[8 * half];
    if (op.flags & HalfSums) {
      const uint16_t *from = warp.row<uint16_t>(op, first + half);
      for (int i = 0; i < 2 * warpSize; ++i)
        to[i] = static_cast<Sum>(widenNarrow<Half>(from[i]));
      continue;
    }
    const Sum *even = warp.row<Sum>(op, first + 2 * half);
    const Sum *odd = warp.row<Sum>(op, first + 2 * half + 1);
    for (int lane = 0; lane < warpSize; ++lane) {
      to[2 * lane] = even[lane];
      to[2 * lane + 1] = odd[lane];
    }
  }
}

template <class Sum> void storeSums(Warp &warp, const Op &op, Sum (*sums)[8]) {
  for (int half = 0; half < 2; ++half) {
    const Sum *from = sums[8 * half];
    if (op.flags & HalfSums) {
      uint16_t *to = warp.row<uint16_t>(op, half);
      for (int i = 0; i < 2 * warpSize; ++i)
        to[i] = roundToNarrow<Half>(from[i]);
      continue;
    }
    Sum *even = warp.row<Sum>(op, 2 * half);
    Sum *odd = warp.row<Sum>(op, 2 * half + 1);
    for (int lane = 0; lane < warpSize; ++lane) {
      even[lane] = from[2 * lane];
      odd[lane] = from[2 * lane + 1];
    }
  }
}

/// Adds products in the order of k, and rounds each sum to f32. The products
/// are exact. NVIDIA does not document in which order a tensor core adds; this
/// order is a possible one.
template <int K>
void multiply(const float (*a)[K], const float (*b)[8], float (*sums)[8],
              const Op &) {
  constexpr int rows = 4; // Together, so that they share loads of b.
  for (int row = 0; row < 16; row += rows) {
    alignas(32) float sum[rows][8];
    std::memcpy(sum, sums[row], sizeof(sum));
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < rows; ++i)
        for (int column = 0; column < 8; ++column)
          sum[i][column] =
              __builtin_fmaf(a[row + i][k], b[k][column], sum[i][column]);
    for (int i = 0; i < rows; ++i)
      for (int column = 0; column < 8; ++column)
        sums[row + i][column] = canonical(sum[i][column]);
  }
}

template <int K>
void multiply(const int32_t (*a)[K], const int32_t (*b)[8], int32_t (*sums)[8],
              const Op &op) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int64_t sum = sums[row][column];
      for (int k = 0; k < K; ++k)
        sum += int64_t(a[row][k]) * b[k][column];
      sums[row][column] = op.flags & Saturates
                              ? static_cast<int32_t>(std::clamp<int64_t>(
                                    sum, INT32_MIN, INT32_MAX))
                              : static_cast<int32_t>(sum);
    }
}

/// Executes mma with the shape m16n8kK. A has K / (4 E) * 2 registers, where E
/// is the number of elements in a register. B has half as many.
template <class A, class B, int K> void mma(Warp &warp, const Op &op) {
  if (!meetAll(warp))
    return;
  using Value = typename A::Value;
  constexpr int count = A::count, registersOfB = K / (4 * count);
  alignas(64) Value a[16][K];
  alignas(64) Value b[K][8];
  alignas(64) Value sums[16][8];
  int first = op.results;
  // In one register, four adjacent lanes together hold `width` elements of a
  // row: `count` elements in each lane.
  constexpr int width = 4 * count;
  for (int r = 0; r < 2 * registersOfB; ++r) {
    const uint32_t *bits = warp.row<uint32_t>(op, first + r);
    for (int g = 0; g < 8; ++g)
      for (int j = 0; j < width; ++j)
        a[g + r % 2 * 8][r / 2 * width + j] =
            A::get(bits[4 * g + j / count], j % count);
  }
  first += 2 * registersOfB;
  for (int r = 0; r < registersOfB; ++r) {
    const uint32_t *bits = warp.row<uint32_t>(op, first + r);
    Value columns[8][width];
    for (int g = 0; g < 8; ++g)
      for (int j = 0; j < width; ++j)
        columns[g][j] = B::get(bits[4 * g + j / count], j % count);
    for (int j = 0; j < width; ++j)
      for (int g = 0; g < 8; ++g)
        b[r * width + j][g] = columns[g][j];
  }
  loadSums<Value>(warp, op, first + registersOfB, sums);
  multiply<K>(a, b, sums, op);
  storeSums<Value>(warp, op, sums);
  warp.worker->counters.tensorOperations += 2 * 16 * 8 * K;
}

/// The element types and the shape of an mma instruction.
struct MmaForm {
  std::string shape;
  Type a, b;

  Handler handler() const;
};

Handler MmaForm::handler() const {
  if (a.kind == Type::BFloat && b == a && a.width == 16)
    return shape == "m16n8k16"  ? mma<BFloat16Elements, BFloat16Elements, 16>
           : shape == "m16n8k8" ? mma<BFloat16Elements, BFloat16Elements, 8>
                                : nullptr;
  if (a.kind == Type::Float && b == a && a.width == 16)
    return shape == "m16n8k16"  ? mma<HalfElements, HalfElements, 16>
           : shape == "m16n8k8" ? mma<HalfElements, HalfElements, 8>
                                : nullptr;
  if (a.kind == Type::Tf32 && b == a)
    return shape == "m16n8k8"   ? mma<Tf32Elements, Tf32Elements, 8>
           : shape == "m16n8k4" ? mma<Tf32Elements, Tf32Elements, 4>
                                : nullptr;
  if (a.width != 8 || b.width != 8 || a.kind == Type::Bits ||
      b.kind == Type::Bits)
    return nullptr;
  bool left = a.kind == Type::Signed, right = b.kind == Type::Signed;
  using S = ByteElements<int8_t>;
  using U = ByteElements<uint8_t>;
  if (shape == "m16n8k32")
    return left    ? right ? mma<S, S, 32> : mma<S, U, 32>
              : right ? mma<U, S, 32>
                   : mma<U, U, 32>;
  if (shape == "m16n8k16")
    return left    ? right ? mma<S, S, 16> : mma<S, U, 16>
              : right ? mma<U, S, 16>
                   : mma<U, U, 16>;
  return nullptr;
}

void useAll(Decode &d, size_t index, size_t count, Type type, bool isResult) {
  std::vector<Operand> elements = Decode::elements(d.operand(index));
  if (elements.size() != count)
    d.fail("operand " + std::to_string(index + 1) + " of '" + d.name() +
           "' has " + std::to_string(elements.size()) + " registers, not " +
           std::to_string(count));
  for (const Operand &element : elements)
    isResult ? d.result(element, type) : d.use(element, type);
}

void decodeMma(Decode &d) {
  bool known = d.take("sync") && d.take("aligned");
  MmaForm form;
  form.shape = d.takePrefix("m16n8k");
  known = known && !form.shape.empty() && d.take("row") && d.take("col");
  if (d.take("satfinite"))
    d.op.flags |= Saturates;
  Type result = d.type();
  form.a = d.type();
  form.b = d.type();
  Type sum = d.type();
  d.op.run = form.handler();
  bool isByte = form.a.width == 8;
  bool halfSums = result.kind == Type::Float && result.width == 16;
  bool fits = isByte     ? result == Type{Type::Signed, 32} && sum == result
              : halfSums ? form.a.kind == Type::Float && sum == result
                         : result == f32Type && sum == result;
  if (!known || !d.op.run || !fits || (!isByte && (d.op.flags & Saturates)))
    d.failUnknown();
  if (halfSums)
    d.op.flags |= HalfSums;
  size_t depth = std::stoul(form.shape.substr(6));
  size_t ofB = depth * form.a.width / 128, ofC = halfSums ? 2 : 4;
  d.expectOperands(4);
  useAll(d, 0, ofC, b32Type, /*isResult=*/true);
  useAll(d, 1, 2 * ofB, b32Type, false);
  useAll(d, 2, ofB, b32Type, false);
  useAll(d, 3, ofC, b32Type, false);
}
} // namespace

const Opcode tensorOpcodes[] = {
    {"ldmatrix", Class::Memory, [](Decode &d) { decodeMatrix(d, true); }},
    {"stmatrix", Class::Memory, [](Decode &d) { decodeMatrix(d, false); }},
    {"mma", Class::Tensor, decodeMma},
    {nullptr, Class::Tensor, nullptr}};

} // namespace heddle::emulator
