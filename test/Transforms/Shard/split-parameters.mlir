// RUN: heddle-opt %s --shard-split-parameters --shard-propagate --shard-verify | FileCheck %s

// A pair of products: columns, then rows, and one sum behind the pair, to which
// the bias is added once. Tables of tokens are split by rows, those of
// positions are whole.

// CHECK: nn.state @wte role "parameter" : tensor<8x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @fc role "parameter" : tensor<4x16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}], ["tensor"]], unreduced []>
// CHECK: nn.state @fc.bias role "parameter" : tensor<16xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"]], unreduced []>
// CHECK: nn.state @proj role "parameter" : tensor<16x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @proj.bias role "parameter" : tensor<4xf32> {trainable}
// CHECK: nn.func @mlp
// CHECK: %[[IN:.*]] = nn.linear %{{.*}} bias %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], ["tensor"]], unreduced []>]}
// CHECK: %[[ACT:.*]] = nn.relu %[[IN]]
// CHECK: %[[OUT:.*]] = nn.linear %[[ACT]], %{{[^ ]*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced ["tensor"]>]}
// CHECK: %[[SUM:.*]] = dist.reshard %[[OUT]] from <{{.*}}unreduced ["tensor"]> to <{{.*}}unreduced []> for "nn.add_bias"
// CHECK: nn.add_bias %[[SUM]], %{{.*}}
// CHECK: nn.step @train
// CHECK: %[[E:.*]] = nn.embedding %{{.*}} {shardings = [#dist.sharding<{{\[\[}}], [], []], unreduced ["tensor"]>]}

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{tensor = 2 : i64}>, config = "{}", weights = {}} {
  nn.state @wte role "parameter" : tensor<8x4xf32> {trainable}
  nn.state @fc role "parameter" : tensor<4x16xf32> {trainable}
  nn.state @fc.bias role "parameter" : tensor<16xf32> {trainable}
  nn.state @proj role "parameter" : tensor<16x4xf32> {trainable}
  nn.state @proj.bias role "parameter" : tensor<4xf32> {trainable}
  nn.func @mlp(%x: tensor<2x3x4xf32>, %fc: tensor<4x16xf32>, %fcb: tensor<16xf32>, %proj: tensor<16x4xf32>, %projb: tensor<4xf32>) -> tensor<2x3x4xf32> {
    %0 = nn.linear %x, %fc bias %fcb : (tensor<2x3x4xf32>, tensor<4x16xf32>, tensor<16xf32>) -> tensor<2x3x16xf32>
    %1 = nn.relu %0 : tensor<2x3x16xf32>
    %2 = nn.linear %1, %proj bias %projb : (tensor<2x3x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
    nn.return %2 : tensor<2x3x4xf32>
  }
  nn.step @train(%ids: tensor<1x2x3xi32>) attributes {kind = "train", arg_names = ["ids"], result_names = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %fc = nn.get @fc : tensor<4x16xf32>
      %fcb = nn.get @fc.bias : tensor<16xf32>
      %proj = nn.get @proj : tensor<16x4xf32>
      %projb = nn.get @proj.bias : tensor<4xf32>
      %y = nn.call @mlp(%x, %fc, %fcb, %proj, %projb) path "h.0" : (tensor<2x3x4xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
      nn.return
    }
    nn.return
  }
}
