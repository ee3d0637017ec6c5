//===- BigramKernelsGpu.c - The same kernels for a GPU --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BigramKernels.ptx was made of this file by
//
//   clang-19 --target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature
//     -Xclang -ptx85 -Xclang -target-feature -Xclang +ptx70 -O2
//     -ffp-contract=off -ffreestanding -fno-unroll-loops -S
//     -o BigramKernels.ptx BigramKernelsGpu.c
//
// A kernel for a GPU takes what the tables of one for a CPU hold: the
// addresses, then that of its scratch memory, if it has some, then the
// integers. They run in one block.
//
//===----------------------------------------------------------------------===//

#include "BigramKernels.c"

#define KERNEL __attribute__((nvptx_kernel)) void
#define THREADS __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_ntid_x()

KERNEL gpu_backward(void *ids, void *labels, void *table, void *gradient,
                    void *loss, void *rng, void *scratch, int64_t tokens,
                    int64_t all, int64_t number, int64_t first) {
  void *refs[] = {ids, labels, table, gradient, loss, rng};
  int64_t scalars[] = {tokens, all, number, first};
  bigram_backward(refs, scalars, THREADS, scratch, 0);
}

KERNEL gpu_loss(void *ids, void *labels, void *table, void *loss, void *scratch,
                int64_t tokens, int64_t all) {
  void *refs[] = {ids, labels, table, loss};
  int64_t scalars[] = {tokens, all};
  bigram_loss(refs, scalars, THREADS, scratch, 0);
}

KERNEL gpu_logits(void *ids, void *position, void *table, void *logits,
                  void *scratch) {
  void *refs[] = {ids, position, table, logits};
  bigram_logits(refs, 0, THREADS, scratch, 0);
}

KERNEL gpu_adam(void *table, void *m, void *v, void *gradient, void *lr,
                void *correction1, void *correction2, void *norm, void *copy,
                void *scratch, int64_t first, int64_t count) {
  void *refs[] = {table,       m,           v,    gradient, lr,
                  correction1, correction2, norm, copy};
  int64_t scalars[] = {first, count};
  bigram_adam(refs, scalars, THREADS, scratch, 0);
}

KERNEL gpu_powers(void *power1, void *power2, void *correction1,
                  void *correction2, void *scratch) {
  void *refs[] = {power1, power2, correction1, correction2};
  bigram_powers(refs, 0, THREADS, scratch, 0);
}

KERNEL gpu_store_thread(void *target, int64_t value) {
  store_thread(&target, &value, THREADS, 0);
}

KERNEL gpu_append_digit(void *target, int64_t value) {
  append_digit(&target, &value, THREADS, 0);
}
