// RUN: heddle-opt %s --shard-make-mesh | FileCheck %s

// Axes from the most major to the most minor. Attention goes around a ring where
// the strategy says so.

// CHECK: dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 3>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 1>]
// CHECK: nn.attention {{.*}} placement = #nn.placement<ring = true>

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 3}, context = "ring", mesh = {data = 3, seq = 2}}>,
    config = "{}", weights = {}} {
  nn.func @layer(%x: tensor<2x4x12xf32>) -> tensor<2x4x4xf32> {
    %0, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<2x4x12xf32>) -> (tensor<2x4x4xf32>, tensor<2x2x4xf32>)
    nn.return %0 : tensor<2x4x4xf32>
  }
}
