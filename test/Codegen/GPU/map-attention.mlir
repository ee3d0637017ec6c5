// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// bf16: 64 queries in four warps, and 64 keys at a time in two stages. Heads of
// 64 are copied 16 bytes at a time into rows that are padded by 16 bytes. The
// queries stay in registers. Keys are read as they stand, values transposed.
// CHECK-LABEL: gpu.func @forward(
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 3, 2, 2>
// CHECK:         gpu.dynamic_shared_memory
// CHECK:         memref.view {{.*}} to memref<64x72xbf16, #gpu.address_space<workgroup>>
// CHECK:         memref.view {{.*}} to memref<128x72xbf16, #gpu.address_space<workgroup>>
// CHECK:         nvgpu.device_async_copy {{.*}}, 8, {{.*}} {bypassL1}
// CHECK:         nvgpu.device_async_create_group
// CHECK:         llvm.call_intrinsic "llvm.nvvm.cp.async.wait.group"
// CHECK:         gpu.barrier
// CHECK:         nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = false}
// CHECK:         scf.for
// CHECK:           gpu.barrier
// CHECK:           nvgpu.mma.sync
// CHECK:           scf.if
// CHECK:           gpu.shuffle xor
// CHECK:           llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK:           nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = true}
plan.kernel @forward(%x: tensor<2x130x384xbf16>) -> (tensor<2x130x128xbf16>, tensor<2x2x130xf32>)
    attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
  %y, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.125>, mask = #nn.mask<causal>}
      : (tensor<2x130x384xbf16>) -> (tensor<2x130x128xbf16>, tensor<2x2x130xf32>)
  plan.yield %y, %lse : tensor<2x130x128xbf16>, tensor<2x2x130xf32>
}

// f32: fused multiply-adds. The gradient is two launches that share the row
// sums of the output and its gradient; the blocks of the second have keys of
// the heads of keys, of which there are fewer.
// CHECK-LABEL: gpu.func @gradient(
// CHECK-SAME:    %[[SCRATCH:[a-z0-9]+]]: memref<256xi8>
// CHECK-SAME:    known_grid_size = array<i32: 1, 2, 1>
// CHECK:         memref.view %[[SCRATCH]]
// CHECK-NOT:     nvgpu.mma.sync
// CHECK:         math.fma
// CHECK-LABEL: gpu.func @gradient_keys(
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK-NOT:     atomic
plan.kernel @gradient(%g: tensor<1x32x10xf32>, %q: tensor<1x32x10xf32>, %k: tensor<1x32x5xf32>,
                      %v: tensor<1x32x5xf32>, %y: tensor<1x32x10xf32>, %lse: tensor<1x2x32xf32>)
    -> (tensor<1x32x10xf32>, tensor<1x32x5xf32>, tensor<1x32x5xf32>)
    attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1, -1>} {
  %d:3 = nn.attention_grad %g, %q, %k, %v forward %y lse %lse
      {heads = #nn.heads<2, kv = 1, scale = 0.5>, mask = #nn.mask<full>}
      : (tensor<1x32x10xf32>, tensor<1x32x10xf32>, tensor<1x32x5xf32>, tensor<1x32x5xf32>,
         tensor<1x32x10xf32>, tensor<1x2x32xf32>)
      -> (tensor<1x32x10xf32>, tensor<1x32x5xf32>, tensor<1x32x5xf32>)
  plan.yield %d#0, %d#1, %d#2 : tensor<1x32x10xf32>, tensor<1x32x5xf32>, tensor<1x32x5xf32>
}

// A layout of blocks of 32: four warps have the queries of two blocks. The
// first warp lists in workgroup memory the blocks of keys that one of the two
// sees. A tile of 64 keys holds two of them. A warp that does not see both
// multiplies those that it sees, one at a time. Which blocks of queries a thread
// block has, the first launch says, which sorts them.
// CHECK-LABEL: gpu.func @layout(
// CHECK-SAME:    %[[BITS:[a-z0-9]+]]: memref<8xi32>
// CHECK-SAME:    %[[SCRATCH:[a-z0-9]+]]: memref<64xi8>
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK:         memref.view %[[SCRATCH]]
// CHECK:         memref.load %[[BITS]]
// CHECK:         math.ctpop
// CHECK:         gpu.shuffle xor
// CHECK:         math.ctlz
// CHECK:         gpu.barrier
// CHECK:         nvvm.vote.ballot.sync
// CHECK:         memref.store
// CHECK-LABEL: gpu.func @layout_queries(
// CHECK-SAME:    %[[SCRATCH:[a-z0-9]+]]: memref<64xi8>
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 4, 2, 2>
// CHECK:         %[[ORDER:.*]] = memref.view %[[SCRATCH]]
// CHECK:         memref.load %[[ORDER]]
// CHECK:         %[[LIST:.*]] = memref.view {{.*}} to memref<13xi32, #gpu.address_space<workgroup>>
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             nvvm.vote.ballot.sync
// CHECK:             math.ctpop
// CHECK:             memref.store {{.*}}, %[[LIST]]
// CHECK:         gpu.barrier
// CHECK:         vector.load %[[LIST]]{{.*}}, vector<2xi32>
// CHECK:         nvgpu.device_async_copy
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:             nvgpu.mma.sync
// CHECK:           } else {
// CHECK:             scf.for
// CHECK:               memref.load %[[LIST]]
// CHECK:               nvgpu.mma.sync
plan.kernel @layout(%x: tensor<2x256x384xbf16>, %layout: tensor<1x8x1xi32>)
    -> (tensor<2x256x128xbf16>, tensor<2x2x256xf32>)
    attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
  %y, %lse = nn.attention %x layout %layout
      {heads = #nn.heads<2, scale = 0.125>, mask = #nn.mask<full, block = 32, density = 0.5>}
      : (tensor<2x256x384xbf16>, tensor<1x8x1xi32>) -> (tensor<2x256x128xbf16>, tensor<2x2x256xf32>)
  plan.yield %y, %lse : tensor<2x256x128xbf16>, tensor<2x2x256xf32>
}

// The gradient's first launch sorts the blocks of queries and those of keys, and
// transposes the layout: block of keys by block of keys, the bits of queries.
// CHECK-LABEL: gpu.func @layout_gradient(
// CHECK-SAME:    known_grid_size = array<i32: 2, 1, 1>
// CHECK:         scf.if
// CHECK-COUNT-32:  nvvm.vote.ballot.sync
// CHECK:           memref.store
// CHECK:         gpu.barrier
// CHECK:         math.ctpop
// CHECK-LABEL: gpu.func @layout_gradient_queries(
// CHECK-LABEL: gpu.func @layout_gradient_keys(
plan.kernel @layout_gradient(%g: tensor<2x256x128xbf16>, %x: tensor<2x256x384xbf16>, %y: tensor<2x256x128xbf16>,
                             %lse: tensor<2x2x256xf32>, %layout: tensor<1x8x1xi32>) -> tensor<2x256x384xbf16>
    attributes {generator = #plan.generator<attention>, ties = array<i64: -1>} {
  %d = nn.attention_grad %g, %x forward %y lse %lse layout %layout
      {heads = #nn.heads<2, scale = 0.125>, mask = #nn.mask<full, block = 32, density = 0.5>}
      : (tensor<2x256x128xbf16>, tensor<2x256x384xbf16>, tensor<2x256x128xbf16>, tensor<2x2x256xf32>,
         tensor<1x8x1xi32>) -> tensor<2x256x384xbf16>
  plan.yield %d : tensor<2x256x384xbf16>
}
