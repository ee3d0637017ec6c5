// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Aligned: asynchronous copies of 16 bytes into two stages, padded rows; the
// weight [in, out] is transposed on its way to the registers.
// CHECK-LABEL: gpu.func @linear(
// CHECK-SAME:    workgroup(%{{.*}} : memref<2x64x40xbf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64},
// CHECK-SAME:    %{{.*}} : memref<2x32x72xbf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 2, 2, 1>
// CHECK:         nvgpu.device_async_copy
// CHECK:         nvgpu.device_async_create_group
// CHECK:         scf.for
// CHECK:         nvgpu.device_async_wait
// CHECK:         gpu.barrier
// CHECK:         nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = false}
// CHECK:         nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = true}
// CHECK:         nvgpu.mma.sync({{.*}}) {mmaShape = [16, 8, 16]}
// CHECK-SAME:      (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
// CHECK:         vector.store {{.*}} vector<2xbf16>
plan.kernel @linear(%x: tensor<2x50x64xbf16>, %w: tensor<64x96xbf16>, %b: tensor<96xbf16>)
    -> tensor<2x50x96xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w bias %b
      : (tensor<2x50x64xbf16>, tensor<64x96xbf16>, tensor<96xbf16>) -> tensor<2x50x96xbf16>
  %g = nn.map gelu_tanh(%y) : tensor<2x50x96xbf16>
  plan.yield %g : tensor<2x50x96xbf16>
}

// Nothing divides by eight: elements are copied one by one, zeros outside. The
// weight [out, in] is read as it stands.
// CHECK-LABEL: gpu.func @odd(
// CHECK-NOT:     nvgpu.device_async_copy
// CHECK:         vector.store {{.*}} memref<2x64x40xbf16, #gpu.address_space<workgroup>>, vector<8xbf16>
// CHECK-NOT:     transpose = true
// CHECK:         memref.store {{.*}} : memref<7x9xbf16>
plan.kernel @odd(%x: tensor<7x5xbf16>, %w: tensor<9x5xbf16>) -> tensor<7x9xbf16>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w {transposed} : (tensor<7x5xbf16>, tensor<9x5xbf16>) -> tensor<7x9xbf16>
  plan.yield %y : tensor<7x9xbf16>
}
