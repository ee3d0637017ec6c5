// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Few rows: one launch. 32 threads beside each other would be too many for 40
// columns of f32 by four: 16 of them take the columns, 16 rows stand below.
// CHECK-LABEL: gpu.func @few(
// CHECK-SAME:    %[[X:.*]]: memref<20x40xf32>, %[[I:.*]]: memref<40xf32>) workgroup(%[[SUMS:.*]] : memref<1x16x64xf32, #gpu.address_space<workgroup>>
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK:         scf.for
// CHECK:           vector.load %[[X]]{{.*}} vector<4xf32>
// CHECK:         vector.store %{{.*}}, %[[SUMS]]
// CHECK:         gpu.barrier
// CHECK-COUNT-16: memref.load %[[SUMS]]
// CHECK:         memref.store %{{.*}}, %[[I]]
// CHECK-NOT:   gpu.func @few_sum
plan.kernel @few(%x: tensor<20x40xf32>, %i: tensor<40xf32>) -> tensor<40xf32>
    attributes {generator = #plan.generator<columns>, ties = array<i64: 1>} {
  %s = nn.sum_rows %x init %i : (tensor<20x40xf32>, tensor<40xf32>) -> tensor<40xf32>
  plan.yield %s : tensor<40xf32>
}

// Many: blocks share them, and a second launch adds up what they summed.
// CHECK-LABEL: gpu.func @many(
// CHECK-SAME:    %[[X:.*]]: memref<4096x512xbf16>, %{{.*}}: memref<512xbf16>, %[[SCRATCH:[a-z0-9]+]]: memref<131072xi8>)
// CHECK-SAME:    known_grid_size = array<i32: 2, 64, 1>
// CHECK:           vector.load %[[X]]{{.*}} vector<8xbf16>
// CHECK:         %[[SHARES:.*]] = memref.view %[[SCRATCH]]
// CHECK:         memref.store %{{.*}}, %[[SHARES]]
// CHECK-LABEL: gpu.func @many_sum(
// CHECK-SAME:    %{{.*}}: memref<4096x512xbf16>, %[[OUT:.*]]: memref<512xbf16>, %[[SCRATCH:[a-z0-9]+]]: memref<131072xi8>)
// CHECK-SAME:    known_grid_size = array<i32: 64, 1, 1>
// CHECK:         memref.view %[[SCRATCH]]
// CHECK:         gpu.barrier
// CHECK:         arith.truncf
// CHECK:         memref.store %{{.*}}, %[[OUT]]
plan.kernel @many(%x: tensor<4096x512xbf16>) -> tensor<512xbf16>
    attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
  %s = nn.sum_rows %x : (tensor<4096x512xbf16>) -> tensor<512xbf16>
  plan.yield %s : tensor<512xbf16>
}

// One row each: vectors of different lengths have ranges of blocks, 2 + 1.
// CHECK-LABEL: gpu.func @vectors(
// CHECK-SAME:    %[[A:.*]]: memref<1540xf32>, %[[I:.*]]: memref<1540xf32>, %[[B:.*]]: memref<7xf32>, %[[J:.*]]: memref<7xf32>)
// CHECK-SAME:    known_grid_size = array<i32: 3, 1, 1>
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.if
// CHECK:           vector.store %{{.*}}, %[[I]]
// CHECK:         scf.if
// CHECK:           vector.store %{{.*}}, %[[J]]
// CHECK:           memref.store %{{.*}}, %[[J]]
// CHECK:         gpu.return
// CHECK-NOT:   gpu.func
plan.kernel @vectors(%a: tensor<1540xf32>, %i: tensor<1540xf32>, %b: tensor<7xf32>, %j: tensor<7xf32>) -> (tensor<1540xf32>, tensor<7xf32>)
    attributes {generator = #plan.generator<columns>, ties = array<i64: 1, 3>} {
  %x = nn.sum_rows %a init %i : (tensor<1540xf32>, tensor<1540xf32>) -> tensor<1540xf32>
  %y = nn.sum_rows %b init %j : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  plan.yield %x, %y : tensor<1540xf32>, tensor<7xf32>
}
