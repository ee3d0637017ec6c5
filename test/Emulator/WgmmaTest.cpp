//===- WgmmaTest.cpp - Every form of wgmma --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <array>
#include <cmath>

using namespace heddle::test;

namespace {

struct Form {
  const char *types;
  int bytes;   ///< Bytes of an element.
  int columns; ///< Columns of B.
  int width;   ///< Bytes of a swizzled row; 0: no swizzle.
  bool transposedA, transposedB, registersOfA;
};

/// The offset of element k of row `row` in the PTX ISA's layouts, and the two
/// offsets of a descriptor.
struct Layout {
  const Form &form;
  bool isTransposed;
  int64_t leading, stride;

  int64_t operator()(int64_t row, int64_t k) const {
    int64_t perChunk = 16 / form.bytes, wide = form.width / 16;
    if (!isTransposed && !form.width)
      return row % 8 * 16 + row / 8 * stride + k % perChunk * form.bytes +
             k / perChunk * leading;
    if (!isTransposed)
      return swizzle(row % 8 * form.width + row / 8 * stride + k * form.bytes);
    if (!form.width)
      return row % perChunk * form.bytes + row / perChunk * stride +
             k % 8 * 16 + k / 8 * leading;
    int64_t inAtom = perChunk * wide;
    return swizzle(row % inAtom * form.bytes + row / inAtom * leading +
                   k % 8 * form.width + k / 8 * stride);
  }
  /// The swizzle permutes 16-byte chunks within eight rows.
  int64_t swizzle(int64_t at) const {
    int64_t row = at / 128 % (form.width / 16);
    return at ^ row * 16;
  }
};

float valueOf(int at, int other) { return float((at * 7 + other * 5) % 9 - 4); }

void put(const Form &form, std::vector<uint8_t> &image, int64_t at,
         float value) {
  uint32_t bits =
      std::string(form.types).find("bf16") != std::string::npos ? toBf16(value)
      : form.bytes == 4 ? uint32_t(bitsOf(value))
      : form.bytes == 1
          ? uint32_t(uint8_t(int8_t(value)))
          : uint32_t(std::signbit(value)) << 15 |
                (value == 0 ? 0
                            : ((bitsOf(std::abs(value)) >> 13) - (112u << 10)) &
                                  0x7fff);
  std::memcpy(&image[at], &bits, form.bytes);
}

/// One product, with A and B copied by plain bulk copies.
class FormRun {
public:
  /// Flips the bits of `flipped` in the descriptors of A and of B.
  FormRun(const Form &form, std::array<uint64_t, 2> flipped)
      : form(form), flipped(flipped),
        k(32 / form.bytes), a{form, form.transposedA, 2048, 4096},
        b{form, form.transposedB, 2048, 4096}, types(form.types),
        halfSums(types.rfind("f16.", 0) == 0),
        count(form.columns / (halfSums ? 4 : 2)) {
    for (Layout *layout : {&a, &b})
      if (!form.width) {
        layout->leading = 4096;
        layout->stride = 128;
      } else {
        // Rows in atoms of eight, or chunks of rows; then the next eight of k.
        layout->stride = layout->isTransposed ? 16384 : 1024;
      }
  }

  /// Returns an error message, or "".
  std::string run() const {
    PtxRun run;
    run.text = changed(text(), ".visible",
                       ".extern .shared .align 128 .b8 memory[];\n.visible");
    run.sharedBytes = 65544;
    run.block = {128, 1, 1};
    std::vector<uint32_t> out(128 * count);
    std::vector<uint8_t> matrices = image(), ofRegisters = fragments();
    std::string wrong = run.run(out, matrices, ofRegisters);
    for (int row = 0; row < 64 && wrong.empty(); ++row)
      for (int column = 0; column < form.columns && wrong.empty(); ++column)
        wrong = compare(out, row, column);
    return wrong;
  }

private:
  static constexpr int area = 32768;

  std::string descriptor(const Layout &layout, int base, uint64_t flips) const {
    uint64_t mode = form.width == 128  ? 1
                    : form.width == 64 ? 2
                    : form.width == 32 ? 3
                                       : 0;
    uint64_t bits = mode << 62 | uint64_t(layout.stride / 16) << 32 |
                    uint64_t(layout.leading / 16) << 16 |
                    uint64_t(base + 1024) / 16;
    return std::to_string(bits ^ flips);
  }

  std::vector<uint8_t> image() const {
    std::vector<uint8_t> image(2 * area);
    for (int row = 0; row < 64; ++row)
      for (int at = 0; at < k; ++at)
        put(form, image, a(row, at), valueOf(row, at));
    for (int column = 0; column < form.columns; ++column)
      for (int at = 0; at < k; ++at)
        put(form, image, area + b(column, at), valueOf(at, column));
    return image;
  }

  /// A thread's registers of A: pairs of elements as in mma.sync.
  std::vector<uint8_t> fragments() const {
    std::vector<uint8_t> fragments(128 * 16);
    int inWord = 4 / form.bytes;
    for (int thread = 0; thread < 128; ++thread)
      for (int r = 0; r < 4; ++r)
        for (int i = 0; i < inWord; ++i) {
          int row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
          int at = r / 2 * 4 * inWord + thread % 4 * inWord + i;
          put(form, fragments, thread * 16 + r * 4 + i * form.bytes,
              valueOf(row, at));
        }
    return fragments;
  }

  std::string text() const {
    std::string sums = "{", stores, ofA, loads;
    for (int i = 0; i < count; ++i) {
      sums += (i ? ", %d" : "%d") + std::to_string(i);
      stores += "st.global.b32 [%rd5+" + std::to_string(4 * i) + "], %d" +
                std::to_string(i) + ";\n";
    }
    if (form.registersOfA) {
      ofA = "{%r20, %r21, %r22, %r23}";
      loads = "mad.wide.u32 %rd6, %r0, 16, %rd2;\n"
              "ld.global.v4.u32 " +
              ofA + ", [%rd6];\n";
    } else {
      ofA = "%rd8";
      loads = "mov.b64 %rd8, " + descriptor(a, 0, flipped[0]) + ";\n";
    }
    std::string order;
    if (form.bytes == 2 && !form.registersOfA)
      order = form.transposedA ? ", 1" : ", 0";
    if (form.bytes == 2)
      order += form.transposedB ? ", 1" : ", 0";
    return hopper(kernel(
        3,
        ".reg .b32 %d<" + std::to_string(count) + ">;\n" + loads +
            "mov.b64 %rd9, " + descriptor(b, area, flipped[1]) + R"(;
    mov.u32 %r1, memory; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r1+65536], 1;
    bar.sync 0;
    @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1+65536], 65536;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 65536, [%r1+65536];
    @%p1 mbarrier.arrive.shared.b64 _, [%r1+65536];
  wait:
    mbarrier.test_wait.parity.shared.b64 %p2, [%r1+65536], 0;
    @!%p2 bra wait;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n)" +
            std::to_string(form.columns) + "k" + std::to_string(k) + "." +
            types + " " + sums + "}, " + ofA + ", %rd9, 0" +
            (form.bytes == 1 ? "" : ", 1, -1") + order + R"(;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mul.lo.u32 %r2, %r0, )" +
            std::to_string(4 * count) +
            "; cvt.u64.u32 %rd5, %r2; add.u64 %rd5, %rd5, %rd0;\n" + stores,
        0));
  }

  /// Returns an error message for a wrong sum, or "".
  std::string compare(const std::vector<uint32_t> &out, int row,
                      int column) const {
    float sum = 0;
    for (int at = 0; at < k; ++at)
      sum += valueOf(row, at) * valueOf(at, column);
    int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    int index = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
    uint32_t bits = out[thread * count + (halfSums ? index / 2 : index)];
    bool isRight = false;
    if (halfSums) {
      std::vector<uint8_t> half(4);
      put(form, half, 0, -sum);
      uint16_t expected = sum == 0 ? 0 : uint16_t(half[0] | half[1] << 8);
      bits = uint16_t(bits >> (16 * (index % 2)));
      isRight = (bits & 0x7fff ? bits : 0) == expected;
    } else {
      isRight =
          form.bytes == 1 ? float(int32_t(bits)) == sum : asFloat(bits) == -sum;
    }
    return isRight ? ""
                   : "the sum of row " + std::to_string(row) + " and column " +
                         std::to_string(column) + " is wrong";
  }

  const Form &form;
  std::array<uint64_t, 2> flipped;
  int k;
  Layout a, b;
  std::string types;
  bool halfSums;
  int count; ///< Registers with sums of a thread.
};

std::string describe(const Form &form) {
  return std::string(form.types) + " n" + std::to_string(form.columns) +
         " swizzle " + std::to_string(form.width) +
         (form.transposedA ? " tA" : "") + (form.transposedB ? " tB" : "") +
         (form.registersOfA ? " rA" : "");
}

void checkForm(const Form &form) {
  EXPECT_EQ(FormRun(form, {}).run(), "") << describe(form);
}

TEST(PtxHopper, FormsOfProducts) {
  for (int width : {0, 32, 64, 128}) {
    checkForm({"f32.bf16.bf16", 2, 24, width, false, false, false});
    checkForm({"f32.tf32.tf32", 4, 40, width, false, false, false});
    checkForm({"s32.s8.s8", 1, 64, width, false, false, false});
    checkForm({"f32.f16.f16", 2, 64, width, true, true, false});
    checkForm({"f32.bf16.bf16", 2, 128, width, false, true, true});
  }
  checkForm({"f16.f16.f16", 2, 72, 128, false, false, false});
  checkForm({"f32.bf16.bf16", 2, 248, 128, false, false, true});
  checkForm({"f32.tf32.tf32", 4, 8, 128, false, false, true});
  checkForm({"s32.s8.s8", 1, 256, 128, false, false, true});
}

//===----------------------------------------------------------------------===//
// Mutants of descriptors
//===----------------------------------------------------------------------===//

/// The fields of a descriptor in the PTX ISA.
enum class Field { Start, Leading, Stride, BaseOffset, Swizzle, None };

Field fieldOf(int bit) {
  return bit < 14                ? Field::Start
         : bit / 16 == 1         ? bit < 30 ? Field::Leading : Field::None
         : bit / 16 == 2         ? bit < 46 ? Field::Stride : Field::None
         : bit >= 49 && bit < 52 ? Field::BaseOffset
         : bit >= 62             ? Field::Swizzle
                                 : Field::None;
}

/// Whether the field affects the bytes of an operand with `rows` rows (of A, or
/// columns of B).
bool isUsed(Field field, const Form &form, bool isTransposed, int rows) {
  // What is contiguous if the operand is transposed.
  int rowBytes = rows * form.bytes;
  if (field == Field::Leading)
    return !form.width || (isTransposed && rowBytes > form.width);
  if (field == Field::Stride)
    return isTransposed ? form.width || rowBytes > 16 : rows > 8;
  return true;
}

/// Flips each bit of each descriptor once. A bit of no field, and of the base
/// offset, must be refused by name; a bit of a used field must change the
/// result; others must change nothing.
TEST(PtxHopper, BitsOfDescriptors) {
  int noticed = 0, same = 0;
  for (int width : {0, 32, 64, 128})
    for (Form form : {Form{"f32.bf16.bf16", 2, 24, width, false, false, false},
                      Form{"f32.f16.f16", 2, 128, width, true, true, false}})
      for (int operand : {0, 1})
        for (int bit = 0; bit < 64; ++bit) {
          SCOPED_TRACE(describe(form) + (operand ? ", B" : ", A") + ", bit " +
                       std::to_string(bit));
          std::array<uint64_t, 2> flipped = {};
          flipped[operand] = uint64_t(1) << bit;
          std::string wrong = FormRun(form, flipped).run();
          Field field = fieldOf(bit);
          bool changes =
              isUsed(field, form, operand ? form.transposedB : form.transposedA,
                     operand ? form.columns : 64);
          EXPECT_NE(wrong.empty(), changes) << wrong;
          std::string name;
          if (field == Field::None)
            name = "bit " + std::to_string(bit) + " of a descriptor";
          if (field == Field::BaseOffset)
            name = "base offset";
          EXPECT_NE(wrong.find(name), std::string::npos) << wrong;
          ++(wrong.empty() ? same : noticed);
        }
  EXPECT_EQ(noticed + same, 1024);
  EXPECT_GE(noticed, 900);
}

} // namespace
