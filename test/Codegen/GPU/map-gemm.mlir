// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s
// RUN: heddle-opt %s -gpu-map-kernels=chip=sm_90 | FileCheck %s
// RUN: not heddle-opt %s -gpu-map-kernels=chip=sm_10 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: error: no GPU code can be made for sm_10

// Aligned: asynchronous copies of 16 bytes into the launch's shared memory; the
// weight [in, out] is transposed on its way to the registers. The sums go
// through shared memory, and eight columns are computed and stored at a time.
// CHECK-LABEL: gpu.func @linear(
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 4, 1, 1>
// CHECK-SAME:    nvvm.minctasm = 2 : i32
// CHECK:         gpu.dynamic_shared_memory
// CHECK:         llvm.call_intrinsic "llvm.nvvm.cp.async.cg.shared.global.16.s"
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         scf.for
// CHECK:         nvvm.cp.async.wait.group 2
// CHECK-NEXT:    gpu.barrier
// CHECK:         nvvm.ldmatrix {{.*}} {layout = #nvvm.mma_layout<row>, num = 4 : i32}
// CHECK:         nvvm.ldmatrix {{.*}} {layout = #nvvm.mma_layout<col>, num = 4 : i32}
// CHECK:         llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"
// CHECK-SAME:      (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         gpu.barrier
// CHECK:         llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         scf.for
// CHECK:         llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK:         vector.store {{.*}} vector<8xbf16>
plan.kernel @linear(%x: tensor<2x50x192xbf16>, %w: tensor<192x96xbf16>, %b: tensor<96xbf16>)
    -> tensor<2x50x96xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w bias %b
      : (tensor<2x50x192xbf16>, tensor<192x96xbf16>, tensor<96xbf16>) -> tensor<2x50x96xbf16>
  %g = nn.map gelu_tanh(%y) : tensor<2x50x96xbf16>
  plan.yield %g : tensor<2x50x96xbf16>
}

// Rows of an odd number of bf16 cannot be copied asynchronously: words go
// through registers and are shifted, elements and zeros at the ends of rows. The
// weight [out, in] is read as it stands.
// CHECK-LABEL: gpu.func @odd(
// CHECK-NOT:     cp.async.cg
// CHECK:         scf.if
// CHECK:         llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         llvm.intr.fshr
// CHECK:         llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK:         else
// CHECK:         scf.for
// CHECK:         llvm.load {{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> bf16
// CHECK:         llvm.store {{.*}} {alignment = 2 : i64} : bf16, !llvm.ptr<3>
// CHECK-NOT:     mma_layout<col>
// CHECK:         memref.store {{.*}} : memref<7x9xbf16>
plan.kernel @odd(%x: tensor<7x5xbf16>, %w: tensor<9x5xbf16>) -> tensor<7x9xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w {transposed} : (tensor<7x5xbf16>, tensor<9x5xbf16>) -> tensor<7x9xbf16>
  plan.yield %y : tensor<7x9xbf16>
}

// A gradient of a weight is added to where it stands, in f32. Both operands are
// stored along their outer dimension.
// CHECK-LABEL: gpu.func @grad_weight(
// CHECK-SAME:      %[[X:.*]]: memref<10x12xbf16>, %[[G:.*]]: memref<10x6xbf16>, %[[SUM:.*]]: memref<12x6xf32>) kernel
// CHECK:         cp.async.ca.shared.global.8.s
// CHECK:         cp.async.ca.shared.global.4.s
// CHECK-NOT:     mma_layout<row>
// CHECK:         vector.load %[[SUM]]
// CHECK:         vector.store %{{.*}}, %[[SUM]]{{.*}} vector<2xf32>
plan.kernel @grad_weight(%x: tensor<10x12xbf16>, %g: tensor<10x6xbf16>, %d: tensor<12x6xf32>)
    -> tensor<12x6xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: 2>} {
  %sum = nn.linear_grad_weight %x, %g init %d
      : (tensor<10x12xbf16>, tensor<10x6xbf16>, tensor<12x6xf32>) -> tensor<12x6xf32>
  plan.yield %sum : tensor<12x6xf32>
}

// f32 is multiplied in f32. The left operand is transposed on its way to shared
// memory, four bytes at a time.
// CHECK-LABEL: gpu.func @single(
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK:         cp.async.ca.shared.global.4.s
// CHECK:         cp.async.cg.shared.global.16.s
// CHECK-NOT:     mma
// CHECK:         llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK:         llvm.intr.fma
plan.kernel @single(%x: tensor<7x8xf32>, %w: tensor<8x4xf32>) -> tensor<7x4xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<7x8xf32>, tensor<8x4xf32>) -> tensor<7x4xf32>
  plan.yield %y : tensor<7x4xf32>
}

// Few tiles and a long k: blocks along z sum parts of it, and a second launch
// adds them in order and computes the results.
// CHECK-LABEL: gpu.func @parts(
// CHECK-SAME:    %[[Y:.*]]: memref<16x24xbf16>, %[[SCRATCH:.*]]: memref<{{.*}}xi8>) kernel
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, [[PARTS:[0-9]+]]>
// CHECK:         gpu.block_id  z
// CHECK-NOT:     vector.store
// CHECK-LABEL: gpu.func @parts_sum(
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.load {{.*}} -> vector<4xf32>
// CHECK:         vector.store {{.*}} vector<4xbf16>
plan.kernel @parts(%x: tensor<16x4096xbf16>, %w: tensor<4096x24xbf16>) -> tensor<16x24xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<16x4096xbf16>, tensor<4096x24xbf16>) -> tensor<16x24xbf16>
  plan.yield %y : tensor<16x24xbf16>
}

// What comes after the product is computed for a chunk of eight columns at
// once: two blocks of random numbers are enough for them.
// CHECK-LABEL: gpu.func @dropped(
// CHECK-DAG:     arith.constant dense<[0, 0, 0, 0, 1, 1, 1, 1]> : vector<8xi64>
// CHECK:         vector.from_elements {{.*}} : vector<8xf32>
// CHECK:         vector.store {{.*}} : memref<128x256xbf16>, vector<8xbf16>
plan.kernel @dropped(%x: tensor<128x64xbf16>, %w: tensor<64x256xbf16>, %rng: tensor<4xi32>, %layer: index, %mb: index) -> tensor<128x256xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<128x64xbf16>, tensor<64x256xbf16>) -> tensor<128x256xbf16>
  %d = nn.dropout %y rng %rng layer %layer micro_batch %mb {p = 2.500000e-01 : f64, site = 7 : i32}
      : (tensor<128x256xbf16>, tensor<4xi32>, index, index) -> tensor<128x256xbf16>
  plan.yield %d : tensor<128x256xbf16>
}

// A long row whose length no eight columns divide: chunks begin where its memory
// is aligned, and the ends of the tile's row are stored one by one.
// CHECK-LABEL: gpu.func @shifted(
// CHECK:         vector.store {{.*}} : memref<8x75xbf16>, vector<8xbf16>
// CHECK:         else
// CHECK:         memref.store {{.*}} : memref<8x75xbf16>
plan.kernel @shifted(%x: tensor<8x8xbf16>, %w: tensor<75x8xbf16>) -> tensor<8x75xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w {transposed} : (tensor<8x8xbf16>, tensor<75x8xbf16>) -> tensor<8x75xbf16>
  plan.yield %y : tensor<8x75xbf16>
}

// The gradients of a weight and its bias: blocks of the first row of tiles
// also multiply the gradient by ones. The short loop over k is unrolled.
// CHECK-LABEL: gpu.func @bias_grad(
// CHECK-DAG:     %[[ONES:.*]] = arith.constant 1065369472 : i32
// CHECK:         scf.if {{.*}} -> ({{.*}}f32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"({{.*}}, %[[ONES]], %[[ONES]], {{.*}})
// CHECK:         memref.store {{.*}} : memref<150xf32>
// CHECK:         else
// CHECK-NOT:     %[[ONES]], %[[ONES]]
// CHECK:         gpu.return
plan.kernel @bias_grad(%x: tensor<64x150xbf16>, %g: tensor<64x150xbf16>) -> (tensor<150x150xf32>, tensor<150xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<64x150xbf16>, tensor<64x150xbf16>) -> tensor<150x150xf32>
  %s = nn.sum_rows %g : (tensor<64x150xbf16>) -> tensor<150xf32>
  plan.yield %y, %s : tensor<150x150xf32>, tensor<150xf32>
}

// Summed in parts of k, the sums of the gradient are added in the second launch.
// CHECK-LABEL: gpu.func @bias_grad_of_parts(
// CHECK-LABEL: gpu.func @bias_grad_of_parts_sum(
// CHECK:         arith.addf {{.*}} : f32
// CHECK:         memref.store {{.*}} : memref<24xf32>
plan.kernel @bias_grad_of_parts(%x: tensor<4096x16xf32>, %g: tensor<4096x24xf32>) -> (tensor<16x24xf32>, tensor<24xf32>)
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<4096x16xf32>, tensor<4096x24xf32>) -> tensor<16x24xf32>
  %s = nn.sum_rows %g : (tensor<4096x24xf32>) -> tensor<24xf32>
  plan.yield %y, %s : tensor<16x24xf32>, tensor<24xf32>
}
