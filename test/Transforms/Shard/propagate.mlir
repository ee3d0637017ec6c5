// RUN: heddle-opt %s --shard-make-mesh --shard-propagate | FileCheck %s
// RUN: heddle-opt %s --shard-make-mesh --shard-propagate=print-reasons -o /dev/null 2>&1 | FileCheck %s --check-prefix WHY

// The plan is an analysis: the module stays as it is.

// CHECK: nn.func @layer(%{{.*}}: tensor<2x3x4xf32>, %{{.*}}: tensor<4x4xf32>) -> tensor<2x3x4xf32> {
// CHECK: nn.linear %{{[^ ]*}}, %{{[^ ]*}} : (
// CHECK-NOT: shardings
// CHECK-NOT: dist.reshard

// WHY: train x: data on dim 1: data splits rows and seq splits tokens
// WHY-NEXT: layer argument 0: data on dim 1: as the first call gives x
// WHY-NEXT: layer argument 1: tensor on dim 0: the state w
// WHY-NEXT: layer argument 0 -> dist.reshard: data on dim 1, tensor on dim 2: takes a part along tensor for nn.linear
// WHY-NEXT: layer nn.linear: data on dim 1, a partial sum over tensor: tensor with w, along i, which is summed, data with argument 0, along t
// WHY-NEXT: layer nn.linear -> dist.reshard: data on dim 1: adds up over tensor for nn.return
// WHY-NEXT: train nn.linear -> dist.reshard: whole: gathers over data for nn.return

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2, tensor = 2}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4x4xf32> {storage = #dist.sharding<[["tensor"], []], unreduced []>, trainable}
  nn.func @layer(%x: tensor<2x3x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x3x4xf32> {
    %0 = nn.linear %x, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    nn.return %0 : tensor<2x3x4xf32>
  }
  nn.step @train(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<label_weights, "x">], outputs = [#nn.port<value, "y">]} {
    %w = nn.get @w : tensor<4x4xf32>
    %y = nn.call @layer(%x, %w) path "h.0" : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    nn.return %y : tensor<2x3x4xf32>
  }
}
