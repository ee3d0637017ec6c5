// RUN: heddle-opt %s --pipe-split --pipe-verify | FileCheck %s

// Four layers on two ranks with two chunks each: from the last rank the way
// goes on at the first one. What the first layer makes for the last one is
// passed on by those between.

// CHECK-LABEL: nn.model @m.stage0
// CHECK: pipe.stage @stage0 index 0 calls ["h.0"]
// CHECK-NEXT: pipe.stage @stage2 index 2 calls ["h.2"]
// CHECK: pipe.fragments "F0 F1 F0/1 F1/1 B0/1 B1/1 B0 B1" slots [2, 2, 2, 2] {
// CHECK: nn.call @layer({{.*}}) path "h.0"
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "F1"
// CHECK: nn.map relu(
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "F1.1"
// CHECK: nn.return
// CHECK: dist.recv from 1 on "pipe" channel "F2.1"
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "F3.1"
// CHECK: dist.recv from 1 on "pipe" channel "F2"
// CHECK: nn.call @layer({{.*}}) path "h.2"
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "F3"
// CHECK: nn.return
// CHECK: %[[G:.*]] = dist.recv from 1 on "pipe" channel "B0"
// CHECK: nn.call @layer(%[[G]]) path "h.0"
// CHECK: nn.return
// CHECK: dist.recv from 1 on "pipe" channel "B2"
// CHECK: nn.call @layer({{.*}}) path "h.2"
// CHECK: dist.send {{.*}} to 1 on "pipe" channel "B1"

// CHECK-LABEL: nn.model @m.stage1
// CHECK: pipe.fragments "F0 F1 F0/1 B0/1 F1/1 B1/1 B0 B1"
// CHECK: %[[R:.*]] = dist.recv from -1 on "pipe" channel "F1.1"
// CHECK: nn.set @[[SLOT:saved.1.[0-9]]][%{{.*}}], %[[R]]
// CHECK: %[[S:.*]] = nn.get @[[SLOT]]
// CHECK: dist.send %[[S]] to -1 on "pipe" channel "F2.1"
// CHECK: dist.recv from -1 on "pipe" channel "F1"
// CHECK: nn.call @layer({{.*}}) path "h.1"
// CHECK: dist.send {{.*}} to -1 on "pipe" channel "F2"
// CHECK: nn.return
// CHECK: %[[R:.*]] = dist.recv from -1 on "pipe" channel "F3.1"
// CHECK: nn.set @[[KEPT:saved.3.[0-9]]][%{{.*}}], %[[R]]
// CHECK: dist.recv from -1 on "pipe" channel "F3"
// CHECK: nn.call @layer({{.*}}) path "h.3"
// CHECK: nn.get @[[KEPT]]
// CHECK: nn.add

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 2, accumulate = 2}, mesh = {pipe = 2}, pipeline = {virtual_stages = 2, schedule = interleaved}}>,
    config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.stage @stage2 index 2 calls ["h.2"]
  pipe.stage @stage3 index 3 calls ["h.3"]
  pipe.schedule @schedule micro_batches 2 ["F0 F1 F0/1 F1/1 B0/1 B1/1 B0 B1 O", "F0 F1 F0/1 B0/1 F1/1 B1/1 B0 B1 O"]
  nn.step @train(%inputs: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %x = nn.micro_batch %inputs[%i] : tensor<2x4xf32> -> tensor<4xf32>
      %f0 = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      %r = nn.map relu(%f0) : tensor<4xf32>
      %f1 = nn.call @layer(%f0) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %f2 = nn.call @layer(%f1) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %f3 = nn.call @layer(%f2) path "h.3" : (tensor<4xf32>) -> tensor<4xf32>
      %sum = nn.add %f3, %r : tensor<4xf32>
      %b3 = nn.call @layer(%sum) path "h.3" : (tensor<4xf32>) -> tensor<4xf32>
      %b2 = nn.call @layer(%b3) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %b1 = nn.call @layer(%b2) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %b0 = nn.call @layer(%b1) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      nn.return
    }
    nn.return
  }
}
