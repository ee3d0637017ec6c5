// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// A short sum: one block, one launch. f64 goes through shuffles in halves.
// CHECK-LABEL: gpu.func @short(
// CHECK-SAME:    memref<1000xf32>, %[[OUT:.*]]: memref<f32>) workgroup(%{{.*}} : memref<8xf64, #gpu.address_space<workgroup>>
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK:         vector.load %{{.*}} vector<4xf32>
// CHECK:         arith.extf %{{.*}} : f32 to f64
// CHECK-COUNT-10: gpu.shuffle xor %{{.*}} : i32
// CHECK:         gpu.barrier
// CHECK:         scf.if
// CHECK:         memref.store %{{.*}}, %[[OUT]]
// CHECK-NOT:   gpu.func @short_sum
plan.kernel @short(%x: tensor<1000xf32>) -> tensor<f32>
    attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
  %y = nn.sum %x : (tensor<1000xf32>) -> tensor<f32>
  plan.yield %y : tensor<f32>
}

// A long one: parts of a fixed size, then their sum.
// CHECK-LABEL: gpu.func @long(
// CHECK-SAME:    %[[SCRATCH:[a-z0-9]+]]: memref<40xi8>)
// CHECK-SAME:    known_grid_size = array<i32: 5, 1, 1>
// CHECK:         memref.view %[[SCRATCH]]{{.*}} memref<5xf64>
// CHECK-LABEL: gpu.func @long_sum(
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK:         memref.load %{{.*}} : memref<5xf64>
// CHECK:         math.sqrt %{{.*}} : f64
plan.kernel @long(%x: tensor<40001xf32>) -> tensor<f32>
    attributes {generator = #plan.generator<reduce>, ties = array<i64: -1>} {
  %y = nn.global_norm %x : (tensor<40001xf32>) -> tensor<f32>
  plan.yield %y : tensor<f32>
}

// A block of threads for each 65536 elements.
// CHECK-LABEL: gpu.func @blocks(
// CHECK-SAME:    known_grid_size = array<i32: 3, 1, 1>
// CHECK:         vector.load %{{.*}} vector<8xbf16>
plan.kernel @blocks(%x: tensor<140001xbf16>) -> tensor<3xf32>
    attributes {generator = #plan.generator<block_sums>, ties = array<i64: -1>} {
  %y = nn.square_sums %x : (tensor<140001xbf16>) -> tensor<3xf32>
  plan.yield %y : tensor<3xf32>
}
