//===- BigramKernels.c - A whole model in a few C functions ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels as a compiled binary carries them, for a model small enough to write
// by hand: logits are the row of a table that the last token names.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

/// A GPU has kernels that call these: BigramKernelsGpu.c.
#ifdef __NVPTX__
#define EXPORTED static
#else
#define EXPORTED
#endif

enum { vocab = 256 };

static float exponential(float x) {
  // 2^k * e^r with |r| <= ln(2)/2.
  float k = (float)(int)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
  if (k < -120)
    return 0;
  float r = x - k * 0.69314718f, term = 1, sum = 1;
  for (int i = 1; i < 9; ++i)
    sum += term *= r / (float)i;
  union {
    uint32_t bits;
    float value;
  } power = {(uint32_t)((int)k + 127) << 23};
  return sum * power.value;
}

static float logarithm(float x) {
  union {
    float value;
    uint32_t bits;
  } split = {x};
  int exponent = (int)(split.bits >> 23) - 127;
  split.bits = (split.bits & 0x7fffff) | 0x3f800000;
  float t = (split.value - 1) / (split.value + 1), square = t * t, sum = 0;
  for (int i = 19; i > 0; i -= 2)
    sum = sum * square + 1 / (float)i;
  return 2 * t * sum + (float)exponent * 0.69314718f;
}

/// The loss of one token, and its probabilities in `scratch`.
static float tokenLoss(const float *row, int32_t label, float *scratch) {
  float largest = row[0], sum = 0;
  for (int i = 1; i < vocab; ++i)
    largest = row[i] > largest ? row[i] : largest;
  for (int i = 0; i < vocab; ++i)
    sum += scratch[i] = exponential(row[i] - largest);
  for (int i = 0; i < vocab; ++i)
    scratch[i] /= sum;
  return largest + logarithm(sum) - row[label];
}

/// refs: ids, labels, table, gradient, loss, rng; scalars: tokens of the
/// micro-batch, tokens of the batch, number of the micro-batch, the first
/// token's number in it.
EXPORTED void bigram_backward(void *const *refs, const int64_t *scalars,
                              int64_t thread, int64_t threads, void *scratch,
                              int64_t *taken) {
  if (thread != 0)
    return;
  const int32_t *ids = refs[0], *labels = refs[1];
  const float *table = refs[2];
  const uint32_t *rng = refs[5];
  float *gradient = refs[3], *loss = refs[4], *probabilities = scratch;
  for (int64_t i = 0; i < scalars[0]; ++i) {
    *loss += tokenLoss(table + ids[i] * vocab, labels[i], probabilities) /
             (float)scalars[1];
    probabilities[labels[i]] -= 1;
    // Noise that depends on seed, step and micro-batch, as dropout does.
    uint32_t noise = (rng[0] * 2654435761u + rng[2] * 40503u +
                      (uint32_t)(scalars[2] * 977 + scalars[3] + i)) >>
                     16;
    float keep = 1.0f + 1e-3f * (float)(noise & 255) / 256;
    for (int j = 0; j < vocab; ++j)
      gradient[ids[i] * vocab + j] +=
          keep * probabilities[j] / (float)scalars[1];
  }
}

/// refs: ids, labels, table, loss; scalars: tokens, tokens of all ranks.
EXPORTED void bigram_loss(void *const *refs, const int64_t *scalars,
                          int64_t thread, int64_t threads, void *scratch,
                          int64_t *taken) {
  if (thread != 0)
    return;
  const int32_t *ids = refs[0], *labels = refs[1];
  const float *table = refs[2];
  float *loss = refs[3];
  for (int64_t i = 0; i < scalars[0]; ++i)
    *loss += tokenLoss(table + ids[i] * vocab, labels[i], scratch) / scalars[1];
}

/// refs: ids, position, table, logits.
EXPORTED void bigram_logits(void *const *refs, const int64_t *scalars,
                            int64_t thread, int64_t threads, void *scratch,
                            int64_t *taken) {
  const int32_t *ids = refs[0], *position = refs[1];
  const float *table = refs[2];
  if (thread == threads - 1)
    __builtin_memcpy(refs[3], table + ids[*position] * vocab,
                     vocab * sizeof(float));
}

static float squareRoot(float x) {
#ifdef __NVPTX__
  return __nvvm_sqrt_rn_f(x);
#else
  __asm__("sqrtss %0, %0" : "+x"(x));
  return x;
#endif
}

/// refs: table, exp_avg, exp_avg_sq, gradient, lr, 1-beta1^t, 1-beta2^t, norm,
/// bf16 copy; all but the gradient have elements of the table from the first
/// on, which is scalars[0], scalars[1] of them.
EXPORTED void bigram_adam(void *const *refs, const int64_t *scalars,
                          int64_t thread, int64_t threads, void *scratch,
                          int64_t *taken) {
  float *table = refs[0], *m = refs[1], *v = refs[2], *norm = refs[7];
  uint16_t *copy = refs[8];
  const float *gradient = refs[3];
  float lr = *(const float *)refs[4], correction1 = *(const float *)refs[5],
        correction2 = *(const float *)refs[6];
  int64_t count = scalars[1];
  if (thread == 0) {
    float sum = 0;
    for (int64_t i = 0; i < vocab * vocab; ++i)
      sum += gradient[i] * gradient[i];
    *norm = squareRoot(sum);
  }
  gradient += scalars[0];
  for (int64_t i = count * thread / threads; i < count * (thread + 1) / threads;
       ++i) {
    m[i] = 0.9f * m[i] + 0.1f * gradient[i];
    v[i] = 0.999f * v[i] + 0.001f * gradient[i] * gradient[i];
    table[i] -=
        lr * (m[i] / correction1) / (squareRoot(v[i] / correction2) + 1e-8f);
    union {
      float value;
      uint32_t bits;
    } rounded = {table[i]};
    copy[i] =
        (uint16_t)((rounded.bits + 0x7fff + (rounded.bits >> 16 & 1)) >> 16);
  }
}

/// refs: beta1^t, beta2^t, 1-beta1^t, 1-beta2^t; the powers are multiplied once
/// more first.
EXPORTED void bigram_powers(void *const *refs, const int64_t *scalars,
                            int64_t thread, int64_t threads, void *scratch,
                            int64_t *taken) {
  double *power1 = refs[0], *power2 = refs[1];
  if (thread == 0) {
    *(float *)refs[2] = (float)(1 - (*power1 *= 0.9));
    *(float *)refs[3] = (float)(1 - (*power2 *= 0.999));
  }
}

/// Writes `scalars[0] + thread` into the thread's entry of refs[0].
EXPORTED void store_thread(void *const *refs, const int64_t *scalars,
                           int64_t thread, int64_t threads, void *scratch,
                           int64_t *taken) {
  ((int64_t *)refs[0])[thread] = scalars[0] + thread;
}

/// refs[0] <- refs[0] * 10 + scalars[0], on the first thread.
EXPORTED void append_digit(void *const *refs, const int64_t *scalars,
                           int64_t thread, int64_t threads, void *scratch,
                           int64_t *taken) {
  if (thread == 0)
    *(int64_t *)refs[0] = *(int64_t *)refs[0] * 10 + scalars[0];
}

#ifndef __NVPTX__
static void (*const table_of_functions[])(void *const *, const int64_t *,
                                          int64_t, int64_t, void *,
                                          int64_t *) = {store_thread,
                                                        append_digit};

/// Goes through a table of pointers, which needs relocations.
void indirect(void *const *refs, const int64_t *scalars, int64_t thread,
              int64_t threads, void *scratch, int64_t *taken) {
  table_of_functions[scalars[1]](refs, scalars, thread, threads, scratch,
                                 taken);
}
#endif
