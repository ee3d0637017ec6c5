// RUN: heddle-opt %s --pipe-split --pipe-verify | FileCheck %s

// Three stages add to one gradient: each has its part, which it starts anew.
// Before the update the parts are added up on the way to the first of them, and
// the sum comes back.

// CHECK-LABEL: nn.model @m.stage0
// CHECK: pipe.fragments
// CHECK: %[[S0:.*]] = nn.call @layer({{.*}}) path "h.0"
// CHECK: nn.set @w.grad
// CHECK: %[[OWN:.*]] = nn.get @w.grad
// CHECK: %[[OTHER:.*]] = dist.recv from 1 on "pipe" channel "w.grad"
// CHECK: %[[ALL:.*]] = nn.add %[[OWN]], %[[OTHER]]
// CHECK: nn.set @w.grad, %[[ALL]]
// CHECK: %[[SENT:.*]] = nn.get @w.grad
// CHECK: dist.send %[[SENT]] to 1 on "pipe" channel "w.grad.sum"
// CHECK-LABEL: nn.model @m.stage1
// CHECK: %[[OWN:.*]] = nn.get @w.grad
// CHECK: %[[OTHER:.*]] = dist.recv from 1 on "pipe" channel "w.grad"
// CHECK: %[[PART:.*]] = nn.add %[[OWN]], %[[OTHER]]
// CHECK: dist.send %[[PART]] to -1 on "pipe" channel "w.grad"
// CHECK: %[[ALL:.*]] = dist.recv from -1 on "pipe" channel "w.grad.sum"
// CHECK: nn.set @w.grad, %[[ALL]]
// CHECK: %[[SENT:.*]] = nn.get @w.grad
// CHECK: dist.send %[[SENT]] to 1 on "pipe" channel "w.grad.sum"
// CHECK-LABEL: nn.model @m.stage2
// CHECK: %[[OWN:.*]] = nn.get @w.grad
// CHECK: dist.send %[[OWN]] to -1 on "pipe" channel "w.grad"
// CHECK: %[[ALL:.*]] = dist.recv from -1 on "pipe" channel "w.grad.sum"
// CHECK: nn.set @w.grad, %[[ALL]]
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 3>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role parameter : tensor<4xf32> {trainable}
  nn.state @w.grad role gradient : tensor<4xf32> {parameter = "w"}
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.stage @stage2 index 2 calls ["h.2"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O", "F0 B0 O"]
  nn.step @train(%ids: tensor<1x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %x = nn.micro_batch %ids[%i] : tensor<1x4xf32> -> tensor<4xf32>
      %f0 = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      %f1 = nn.call @layer(%f0) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %f2 = nn.call @layer(%f1) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %b2 = nn.call @layer(%f2) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %s2 = nn.add %b2, %b2 : tensor<4xf32>
      %b1 = nn.call @layer(%b2) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %s1 = nn.add %b1, %s2 : tensor<4xf32>
      %b0 = nn.call @layer(%b1) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      %s0 = nn.add %b0, %s1 : tensor<4xf32>
      nn.set @w.grad, %s0 : tensor<4xf32>
      nn.return
    }
    nn.return
  }
}
