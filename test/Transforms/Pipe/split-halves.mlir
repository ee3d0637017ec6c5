// RUN: heddle-opt %s --pipe-split --pipe-verify | FileCheck %s

// The first half of a backward function makes the input's gradient and hands
// the second half what that needs; the weight's gradient comes later.

#v = #dist.sharding<[[], []], unreduced []>

// CHECK-LABEL: nn.model @m.stage0
// CHECK: nn.func @layer.bwd.input(%[[G:.*]]: tensor<2x8xf32>{{.*}}, %[[W:.*]]: tensor<8x8xf32>{{.*}}) -> (tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK-SAME: result_shardings = [#{{.*}}, #{{.*}}]
// CHECK: %[[D:.*]] = nn.map relu_grad(
// CHECK: %[[X:.*]] = nn.linear %[[D]], %{{.*}} transposed
// CHECK-NOT: nn.linear_grad_weight
// CHECK: nn.return %[[X]], %[[D]]
// CHECK: nn.func @layer.bwd.weight(
// CHECK-NOT: nn.map relu_grad(
// CHECK: nn.linear_grad_weight
// CHECK: pipe.fragments "F0 F1 I0 W0 I1 W1" slots [2, 2, 2] {
// CHECK: nn.call @layer(
// CHECK: nn.return
// CHECK: dist.recv from 1 on "pipe" channel "B0"
// CHECK: %[[HALF:.*]]:2 = nn.call @layer.bwd.input({{.*}}) path "h.0"
// CHECK: nn.set @[[SAVED:saved.0.[0-9]]][%{{.*}}], %[[HALF]]#1
// CHECK-NOT: nn.set @a.grad
// CHECK: nn.return
// CHECK: %[[LEFT:.*]] = nn.get @[[SAVED]]
// CHECK: %[[SUM:.*]] = nn.call @layer.bwd.weight({{.*}}, %[[LEFT]]) path "h.0"
// CHECK: nn.set @a.grad, %[[SUM]]
// CHECK: nn.return

// CHECK-LABEL: nn.model @m.stage1
// CHECK: pipe.fragments "F0 I0 F1 I1 W0 W1" slots [2, 2, 2] {
// CHECK: nn.call @layer.bwd.input
// CHECK: dist.send {{.*}} to -1 on "pipe" channel "B0"

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 2, accumulate = 2}, mesh = {pipe = 2}, pipeline = {schedule = "zb-h1"}}>,
    config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @a role parameter : tensor<8x8xf32> {trainable}
  nn.state @a.grad role gradient : tensor<8x8xf32> {parameter = "a"}
  nn.state @b role parameter : tensor<8x8xf32> {trainable}
  nn.state @b.grad role gradient : tensor<8x8xf32> {parameter = "b"}
  nn.bucket @gradients [@a.grad, @b.grad] : tensor<128xf32>
  nn.func @layer(%x: tensor<2x8xf32>, %w: tensor<8x8xf32>) -> tensor<2x8xf32>
      attributes {arg_shardings = [#v, #v], result_shardings = [#v]} {
    %y = nn.linear %x, %w {shardings = [#v]} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %z = nn.map relu(%y) {shardings = [#v]} : tensor<2x8xf32>
    nn.return %z : tensor<2x8xf32>
  }
  nn.func @layer.bwd(%x: tensor<2x8xf32>, %g: tensor<2x8xf32>, %w: tensor<8x8xf32>, %sum: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>)
      attributes {arg_shardings = [#v, #v, #v, #v], result_shardings = [#v, #v]} {
    %d = nn.map relu_grad(%g, %g) {shardings = [#v]} : tensor<2x8xf32>
    %gw = nn.linear_grad_weight %x, %d init %sum {shardings = [#v]} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %gx = nn.linear %d, %w {transposed, shardings = [#v]} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    nn.return %gw, %gx : tensor<8x8xf32>, tensor<2x8xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 2 ["F0 F1 I0 W0 I1 W1 O", "F0 I0 F1 I1 W0 W1 O"]
  nn.step @train(%inputs: tensor<2x2x8xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %zero = nn.fill 0.0 : () -> tensor<128xf32>
    nn.set @gradients, %zero : tensor<128xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %x = nn.micro_batch %inputs[%i] : tensor<2x2x8xf32> -> tensor<2x8xf32>
      %a = nn.get @a : tensor<8x8xf32>
      %y = nn.call @layer(%x, %a) path "h.0" : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      %b = nn.get @b : tensor<8x8xf32>
      %z = nn.call @layer(%y, %b) path "h.1" : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      %gb = nn.get @b.grad : tensor<8x8xf32>
      %newb, %gy = nn.call @layer.bwd(%y, %z, %b, %gb) path "h.1" : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>)
      nn.set @b.grad, %newb : tensor<8x8xf32>
      %ga = nn.get @a.grad : tensor<8x8xf32>
      %newa, %gx = nn.call @layer.bwd(%x, %gy, %a, %ga) path "h.0" : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>)
      nn.keep %gx as "input" : tensor<2x8xf32>
      nn.set @a.grad, %newa : tensor<8x8xf32>
      nn.return
    }
    nn.return
  }
}
