// RUN: heddle-opt %s --spmd-localize --spmd-verify | FileCheck %s

// What another stage sends is a part of the whole, as the sharding says; a slot
// of a state is split as the state is.

// CHECK: nn.state @saved role saved : tensor<2x2x8xf32>
// CHECK-SAME: whole = tensor<2x4x8xf32>
// CHECK: %[[X:.*]] = dist.recv from -1 on "pipe" channel "F1" : tensor<2x8xf32>
// CHECK: nn.set @saved[%{{.*}}], %[[X]] : tensor<2x8xf32>
// CHECK: %[[Y:.*]] = nn.get @saved[%{{.*}}] : tensor<2x8xf32>
// CHECK: nn.map relu(%[[Y]]) : tensor<2x8xf32>

nn.model @m.stage1 family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {pipe = 2, data = 2}}>, config = "{}",
    weights = {}, stage = 1 : i64} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @saved role saved : tensor<2x4x8xf32> {storage = #dist.sharding<[[], ["data"], []], unreduced []>}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    pipe.fragments "F0 B0" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %x = dist.recv from -1 on "pipe" channel "F1" {shardings = [#dist.sharding<[["data"], []], unreduced []>]} : tensor<4x8xf32>
      nn.set @saved[%slot], %x : tensor<4x8xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      %x = nn.get @saved[%slot] : tensor<4x8xf32>
      %y = nn.map relu(%x) {shardings = [#dist.sharding<[["data"], []], unreduced []>]} : tensor<4x8xf32>
      nn.return
    }
    nn.return
  }
}
